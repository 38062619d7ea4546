package matrix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// A codec is a compression of pages of Parquet and of buffers of Arrow.
type codec int

const (
	noCodec codec = iota
	snappyCodec
	gzipCodec
	zstdCodec
	lz4Block  // Parquet's LZ4_RAW
	lz4Hadoop // Parquet's older LZ4: blocks with their lengths before them, or one block without
	lz4Frame  // Arrow's
	otherCodec
)

// mostRatio is how many bytes one compressed byte may become, by the codec. Nobody's data reaches it.
var mostRatio = [...]int64{noCodec: 1, snappyCodec: 64, gzipCodec: 1040, zstdCodec: 1 << 17, lz4Block: 256, lz4Hadoop: 256, lz4Frame: 256, otherCodec: 1 << 20}

var errLength = errors.New("its length is not the one that is stated")

// checkRatio returns an error if a length cannot be true, before memory is taken for it.
func checkRatio(c codec, packed, length int64) error {
	if packed < 0 || length < 0 || length > packed*mostRatio[c]+1024 {
		return fmt.Errorf("%d bytes cannot become %d bytes", packed, length)
	}
	return nil
}

// unpack fills dst with the decompressed bytes of src, which must have the length of dst.
func (u *unpacker) unpack(dst, src []byte, c codec) (err error) {
	n := 0
	switch c {
	case noCodec:
		n = copy(dst, src)
		if len(src) != len(dst) {
			return errLength
		}
	case snappyCodec:
		if n, err = snappy.DecodedLen(src); err == nil && n == len(dst) {
			_, err = snappy.Decode(dst, src)
		}
	case gzipCodec:
		n, err = u.gunzip(dst, src)
	case zstdCodec:
		if u.zstd == nil {
			u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
			if err != nil {
				return err
			}
		}
		var out []byte
		out, err = u.zstd.DecodeAll(src, dst[:0:len(dst)])
		n = len(out)
	case lz4Block:
		n, err = unlz4(dst, src)
	case lz4Hadoop:
		if n, err = unhadoop(dst, src); err != nil || n != len(dst) {
			n, err = unlz4(dst, src)
		}
	case lz4Frame:
		if u.frame == nil {
			u.frame = lz4.NewReader(nil)
		}
		u.frame.Reset(bytes.NewReader(src))
		if n, err = io.ReadFull(u.frame, dst); err == nil {
			var more [1]byte
			if k, _ := u.frame.Read(more[:]); k > 0 {
				return errLength
			}
		}
	}
	if err == nil && n != len(dst) {
		return errLength
	}
	return err
}

// unpacker has the states of decompressors. It is not safe for concurrent use.
type unpacker struct {
	zstd  *zstd.Decoder
	gzip  *gzip.Reader
	frame *lz4.Reader
}

func (u *unpacker) close() {
	if u.zstd != nil {
		u.zstd.Close()
	}
}

func (u *unpacker) gunzip(dst, src []byte) (n int, err error) {
	if u.gzip == nil {
		u.gzip = new(gzip.Reader)
	}
	if err := u.gzip.Reset(bytes.NewReader(src)); err != nil {
		return 0, err
	}
	if n, err = io.ReadFull(u.gzip, dst); err != nil {
		return n, err
	}
	var more [1]byte
	if k, err := u.gzip.Read(more[:]); k > 0 || !errors.Is(err, io.EOF) {
		return n, errors.Join(errLength, err)
	}
	return n, nil
}

// unlz4 decompresses a block. An empty one has a byte.
func unlz4(dst, src []byte) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	return lz4.UncompressBlock(src, dst)
}

// unhadoop decompresses blocks that have the lengths before them: decompressed, compressed.
func unhadoop(dst, src []byte) (n int, err error) {
	for len(src) >= 8 {
		whole, packed := int(binary.BigEndian.Uint32(src)), int(binary.BigEndian.Uint32(src[4:]))
		if src = src[8:]; packed > len(src) || whole > len(dst)-n {
			return n, errLength
		}
		k, err := unlz4(dst[n:n+whole], src[:packed])
		if err != nil || k != whole {
			return n, errors.Join(errLength, err)
		}
		n, src = n+whole, src[packed:]
	}
	if len(src) > 0 {
		return n, errLength
	}
	return n, nil
}
