package dataset

import (
	"encoding/binary"
	"sync"

	"github.com/klauspost/compress/zstd"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// frames is the table of the frames of compressed features. Frame i holds granule i; frames follow
// each other without gaps.
type frames struct {
	size    int64    // of the features, uncompressed
	lengths []uint32 // of the frames
	crcs    []uint32 // of the frames
}

// framesMagic opens the table on disk; doc.go describes it.
const framesMagic = "DGNNFRM1"

// maxFrame bounds the length of a frame: incompressible content gets a few bytes longer.
const maxFrame = Granule + 1<<10

// framesBytes returns the size of the table for features of the given size.
func framesBytes(size int64) int64 { return 8 + 16 + 8*((size+Granule-1)/Granule) + 4 }

// add appends a frame that holds n bytes.
func (t *frames) add(frame []byte, n int) {
	t.size += int64(n)
	t.lengths = append(t.lengths, uint32(len(frame)))
	t.crcs = append(t.crcs, binio.CRC(frame))
}

func (t *frames) stored() int64 {
	var n int64
	for _, l := range t.lengths {
		n += int64(l)
	}
	return n
}

// encode returns the table as it lies on disk.
func (t *frames) encode() []byte {
	b := append([]byte(nil), framesMagic...)
	b = binary.LittleEndian.AppendUint64(b, Granule)
	b = binary.LittleEndian.AppendUint64(b, uint64(t.size))
	b = append(b, binio.Bytes(t.lengths)...)
	b = append(b, binio.Bytes(t.crcs)...)
	return binary.LittleEndian.AppendUint32(b, binio.CRC(b))
}

// decodeFrames reads a result of encode.
func decodeFrames(b []byte) (frames, error) {
	const head = len(framesMagic) + 16
	bad := func(format string, args ...any) (frames, error) {
		return frames{}, fault.New(fault.ErrCorrupt, format, args...)
	}
	if len(b) < head+4 || string(b[:len(framesMagic)]) != framesMagic {
		return bad("it is not a table of frames")
	}
	body := b[:len(b)-4]
	if binio.CRC(body) != binary.LittleEndian.Uint32(b[len(body):]) {
		return bad("the table of frames does not match its own checksum")
	}
	granule, size := binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	n := (len(body) - head) / 8
	if granule != Granule || (len(body)-head)%8 != 0 || size/Granule > uint64(n) || (size+Granule-1)/Granule != uint64(n) {
		return bad("the table has %d frames, which is wrong for %d bytes of features in granules of %d bytes", n, size, granule)
	}
	t := frames{size: int64(size), lengths: make([]uint32, n), crcs: make([]uint32, n)}
	copy(binio.Bytes(t.lengths), body[head:])
	copy(binio.Bytes(t.crcs), body[head+4*n:])
	for i, l := range t.lengths {
		if l == 0 || l > maxFrame {
			return bad("the table says that frame %d has %d bytes, not 1 to %d", i, l, maxFrame)
		}
	}
	return t, nil
}

// compressorVersion is part of the content parameters of compressed datasets: it
// changes whenever the same features give other frames, which an update of the
// library may bring about.
const compressorVersion = "zstd-1"

// CompressionName returns the content parameter "compression": the name and version of the encoder, or
// "" if compress is not set.
func CompressionName(compress bool) string {
	if compress {
		return compressorVersion
	}
	return ""
}

// newEncoder returns an encoder for n concurrent frames. The encoding of a frame depends on its
// content only. Dense features have no repetitions, but few exponents: they are compressed by the
// entropy coding of literals alone.
func newEncoder(n int) (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(n), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithAllLitEntropyCompression(true),
		zstd.WithWindowSize(Granule), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
}

// decoder returns the decoder of all frames. It keeps no state between frames, decodes on all
// processors concurrently, and never writes beyond the given capacity.
var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(Granule))
})
