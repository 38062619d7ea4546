package packfile

import (
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"diskgnn/internal/fault"
)

// FrameEncoder compresses pieces, one at a time. A frame depends only on its piece.
type FrameEncoder struct {
	zstd *zstd.Encoder // nil for s2
}

// NewFrameEncoder returns an encoder of a codec other than CodecNone. An unknown codec is an error of kind
// fault.ErrVersion.
func NewFrameEncoder(codec string) (*FrameEncoder, error) {
	switch codec {
	case CodecS2:
		return &FrameEncoder{}, nil
	case CodecZstd:
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault),
			zstd.WithWindowSize(FrameBytes), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		return &FrameEncoder{zstd: e}, nil
	}
	return nil, unknownCodec(codec)
}

func unknownCodec(codec string) error {
	return fault.New(fault.ErrVersion, "this program cannot read chunks compressed by %q", codec)
}

// MaxFrame returns the largest size of a frame of n bytes of rows. With this capacity in dst, Encode does
// not allocate its result.
func MaxFrame(n int) int { return max(s2.MaxEncodedLen(n), n+n/64+1<<10) }

// Encode returns the frame of the given rows, in the memory of dst if its capacity suffices.
func (e *FrameEncoder) Encode(dst, rows []byte) []byte {
	if e.zstd == nil {
		return s2.Encode(dst[:cap(dst)], rows)
	}
	return e.zstd.EncodeAll(rows, dst[:0])
}

// FrameDecoder decompresses pieces. It may be used by several goroutines and
// allocates nothing once each of them has decoded a piece.
type FrameDecoder struct {
	zstd *zstd.Decoder // nil for s2
}

// NewFrameDecoder returns a decoder of a codec other than CodecNone, for up to the given number of
// goroutines at once. An unknown codec is an error of kind fault.ErrVersion.
func NewFrameDecoder(codec string, goroutines int) (*FrameDecoder, error) {
	switch codec {
	case CodecS2:
		return &FrameDecoder{}, nil
	case CodecZstd:
		// The result's length is known: the decoder is limited to it.
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(goroutines), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(FrameBytes))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		return &FrameDecoder{zstd: d}, nil
	}
	return nil, unknownCodec(codec)
}

// Close frees the decoder's memory. On a nil decoder it does nothing.
func (d *FrameDecoder) Close() {
	if d != nil && d.zstd != nil {
		d.zstd.Close()
	}
}

// Decode fills rows from a frame. A frame that does not decode to exactly len(rows) bytes is an error
// of kind fault.ErrCorrupt.
func (d *FrameDecoder) Decode(rows, frame []byte) error {
	var n int
	var err error
	if d.zstd == nil {
		if n, err = s2.DecodedLen(frame); err == nil && n == len(rows) {
			_, err = s2.Decode(rows, frame)
		}
	} else {
		var out []byte
		out, err = d.zstd.DecodeAll(frame, rows[:0:len(rows)])
		n = len(out)
	}
	if err != nil {
		return fault.New(fault.ErrCorrupt, "a frame of %d bytes: %v", len(frame), err)
	}
	if n != len(rows) {
		return fault.New(fault.ErrCorrupt, "a frame of %d bytes decodes to %d bytes, not %d", len(frame), n, len(rows))
	}
	return nil
}

// LoadPiece checks piece p of the chunk b and puts its rows into rows, of p.RowLen bytes. d is nil for
// uncompressed chunks. name is the file, for the error.
func (t *Train) LoadPiece(d *FrameDecoder, name string, b []byte, p Piece, rows []byte) error {
	if err := t.VerifyPiece(name, b, p); err != nil {
		return err
	}
	piece := b[p.Offset : p.Offset+int64(p.Len)]
	if p.Stored {
		copy(rows, piece)
		return nil
	}
	if err := d.Decode(rows, piece); err != nil {
		return fmt.Errorf("%s: bytes %d to %d: %w", name, t.ChunkOffset+p.Offset, t.ChunkOffset+p.Offset+int64(p.Len), err)
	}
	return nil
}
