package matrix

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/pierrec/lz4/v4"
	"pgregory.net/rapid"
)

// packed returns bytes compressed.
func packed(t *rapid.T, b []byte, c codec) []byte {
	var out bytes.Buffer
	block := func(b []byte) []byte {
		p := make([]byte, lz4.CompressBlockBound(len(b))+16)
		n, err := lz4.CompressBlock(b, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p[:n]
	}
	switch c {
	case noCodec:
		return b
	case snappyCodec:
		return snappy.Encode(nil, b)
	case gzipCodec:
		z := gzip.NewWriter(&out)
		if _, err := z.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	case zstdCodec:
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		return z.EncodeAll(b, nil)
	case lz4Block:
		return block(b)
	case lz4Hadoop: // in two blocks
		for _, part := range [][]byte{b[:len(b)/3], b[len(b)/3:]} {
			p := block(part)
			head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(len(part))), uint32(len(p)))
			out.Write(head)
			out.Write(p)
		}
	case lz4Frame:
		z := lz4.NewWriter(&out)
		if _, err := z.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// TestUnpack decompresses bytes of every codec; another length than the true one is an error.
func TestUnpack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := codec(rapid.IntRange(int(noCodec), int(lz4Frame)).Draw(t, "codec"))
		one := rapid.SliceOfN(rapid.Byte(), 40, 300).Draw(t, "bytes")
		b := bytes.Repeat(one, rapid.IntRange(1, 50).Draw(t, "times"))
		p := packed(t, b, c)
		if (c == lz4Block || c == lz4Hadoop) && len(p) == 0 {
			t.Skip("lz4 has no block for it")
		}
		var u unpacker
		defer u.close()
		for _, more := range []int{0, 0, 1, -1} {
			dst := make([]byte, len(b)+more, len(b)+100)
			err := u.unpack(dst, p, c)
			if c == lz4Hadoop && len(b) > 0 && len(p) < 16 {
				continue
			}
			if (err == nil) != (more == 0) || more == 0 && !bytes.Equal(dst, b) {
				t.Fatalf("codec %d, %d bytes more: %v", c, more, err)
			}
		}
		if err := checkRatio(c, int64(len(p)), int64(len(b))); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		codec          codec
		packed, length int64
		ok             bool
	}{{noCodec, 10, 1034, true}, {noCodec, 10, 1035, false}, {snappyCodec, 10, 1664, true}, {snappyCodec, 10, 1665, false}, {zstdCodec, -1, 0, false}, {zstdCodec, 0, -1, false}, {lz4Frame, 4, 2048, true}, {lz4Frame, 4, 2049, false}} {
		if err := checkRatio(c.codec, c.packed, c.length); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestUnpackHadoop: a block without lengths before it is read too, as the first programs wrote it.
func TestUnpackHadoop(t *testing.T) {
	b := bytes.Repeat([]byte("abcdefgh"), 40)
	p := make([]byte, 400)
	n, err := lz4.CompressBlock(b, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	var u unpacker
	dst := make([]byte, len(b))
	if err := u.unpack(dst, p[:n], lz4Hadoop); err != nil || !bytes.Equal(dst, b) {
		t.Errorf("%q, %v", dst, err)
	}
}

// TestHybrid decodes runs that the library encoded, in any pieces, and no number behind them.
func TestHybrid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 31).Draw(t, "width")
		var numbers []int32
		for range rapid.IntRange(1, 10).Draw(t, "runs") {
			n := rapid.IntRange(1, 40).Draw(t, "length")
			if rapid.Bool().Draw(t, "equal") {
				numbers = append(numbers, slices.Repeat([]int32{rapid.Int32Range(0, 1<<width-1).Draw(t, "number")}, n)...)
				continue
			}
			numbers = append(numbers, rapid.SliceOfN(rapid.Int32Range(0, 1<<width-1), n, n).Draw(t, "numbers")...)
		}
		b, err := (&rle.Encoding{BitWidth: width}).EncodeInt32(nil, numbers)
		if err != nil {
			t.Fatal(err)
		}
		h, err := newHybrid(b, width)
		if err != nil {
			t.Fatal(err)
		}
		for rest := numbers; len(rest) > 0; {
			dst := make([]int32, min(len(rest), rapid.IntRange(1, 50).Draw(t, "piece")))
			if err := next(h, dst); err != nil || !slices.Equal(dst, rest[:len(dst)]) {
				t.Fatalf("%v, want %v; %v", dst, rest[:len(dst)], err)
			}
			rest = rest[len(dst):]
		}
		if err := next(h, make([]int32, 9)); err == nil { // a group of eight may be padded
			t.Error("numbers behind the last")
		}
	})
	if _, err := newHybrid(nil, 33); err == nil {
		t.Error("33 bits")
	}
	for _, b := range [][]byte{{}, {0}, {0x80}, {4}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, {3}} {
		h, err := newHybrid(b, 8)
		if err != nil {
			t.Fatal(err)
		}
		if err := next(h, make([]int32, 2)); err == nil {
			t.Errorf("%v are runs", b)
		}
	}
	// By hand: 2 bits each of 3, 0, 1, 2 and four more, of which the last byte lacks; then 5 times 1.
	h, err := newHybrid([]byte{3, 0b10010011, 0b11111111, 10, 1}, 2)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]int32, 13)
	if err := next(h, dst); err != nil || !slices.Equal(dst, []int32{3, 0, 1, 2, 3, 3, 3, 3, 1, 1, 1, 1, 1}) {
		t.Errorf("%v, %v", dst, err)
	}
}
