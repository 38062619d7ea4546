package npy

import (
	"errors"
	"io"
	"math"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
)

// Reader reads the elements of an array in the order of the file, and converts them. It is not safe
// for concurrent use.
type Reader struct {
	Header
	r   io.Reader
	buf []byte
}

// bufferBytes is the buffer of a Reader, a multiple of every element's size.
const bufferBytes = 64 << 10

// NewReader reads the header from r and returns a Reader at the first element.
func NewReader(r io.Reader) (*Reader, error) {
	h, err := ReadHeader(r)
	if err != nil {
		return nil, err
	}
	return NewRaw(h, r), nil
}

// NewRaw returns a Reader of an array without a header: r has the elements, h describes them.
func NewRaw(h Header, r io.Reader) *Reader {
	return &Reader{Header: h, r: r, buf: make([]byte, bufferBytes)}
}

// next returns the bytes of the next elements, n at most.
func (r *Reader) next(n int) ([]byte, int, error) {
	n = min(n, len(r.buf)/r.Size)
	b := r.buf[:n*r.Size]
	return b, n, readFull(r.r, b)
}

// Ints sets dst to the next elements. Elements that are not integers are an error.
func (r *Reader) Ints(dst []int64) error {
	if !r.Integer() {
		return bad("its elements are %s instead of integers", r.Type())
	}
	for len(dst) > 0 {
		b, n, err := r.next(len(dst))
		if err != nil {
			return err
		}
		switch kind := string([]byte{r.Kind, byte('0' + r.Size)}); kind {
		case "i8":
			copy(binio.Bytes(dst), b)
		case "u8":
			for i, v := range binio.View[uint64](b) {
				if v > math.MaxInt64 {
					return bad("its element %d is larger than a signed integer of 64 bits", v)
				}
				dst[i] = int64(v)
			}
		default:
			round(dst, kind, b)
		}
		dst = dst[n:]
	}
	return nil
}

// Floats sets dst to the next elements, of any type, rounded to float32.
func (r *Reader) Floats(dst []float32) error {
	for len(dst) > 0 {
		b, n, err := r.next(len(dst))
		if err != nil {
			return err
		}
		switch kind := string([]byte{r.Kind, byte('0' + r.Size)}); kind {
		case "f2":
			dtype.Convert(binio.Bytes(dst[:n]), dtype.Float32, b, dtype.Float16)
		case "B2":
			dtype.Convert(binio.Bytes(dst[:n]), dtype.Float32, b, dtype.BFloat16)
		case "f4":
			copy(binio.Bytes(dst), b)
		default:
			round(dst, kind, b)
		}
		dst = dst[n:]
	}
	return nil
}

// round sets dst to float64 or integer elements, rounded to its type. The caller must exclude integers
// that do not fit into an int64.
func round[To int64 | float32 | float64](dst []To, kind string, b []byte) {
	switch kind {
	case "f8":
		for i, v := range binio.View[uint64](b) {
			dst[i] = To(math.Float64frombits(v))
		}
	case "i1":
		for i, v := range b {
			dst[i] = To(int8(v))
		}
	case "u1", "b1":
		convert[uint8](dst, b)
	case "i2":
		for i, v := range binio.View[uint16](b) {
			dst[i] = To(int16(v))
		}
	case "u2":
		convert[uint16](dst, b)
	case "i4":
		convert[int32](dst, b)
	case "u4":
		convert[uint32](dst, b)
	case "i8":
		convert[int64](dst, b)
	case "u8":
		convert[uint64](dst, b)
	}
}

func convert[From interface {
	uint8 | uint16 | uint32 | uint64 | int32 | int64
}, To interface{ int64 | float32 | float64 }](dst []To, b []byte) {
	for i, v := range binio.View[From](b) {
		dst[i] = To(v)
	}
}

// End checks that nothing follows the last element. It must be called after the last element of an
// array in an archive, since the archive checks its checksum there.
func (r *Reader) End() error {
	switch n, err := io.ReadFull(r.r, r.buf[:1]); {
	case n > 0:
		return bad("it has more bytes than its shape %s needs", r.ShapeString())
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

// Skip skips n elements.
func (r *Reader) Skip(n int64) error {
	size := n * int64(r.Size)
	if s, ok := r.r.(io.Seeker); ok {
		_, err := s.Seek(size, io.SeekCurrent)
		return err
	}
	for size > 0 {
		b := r.buf[:min(size, int64(len(r.buf)))]
		if err := readFull(r.r, b); err != nil {
			return err
		}
		size -= int64(len(b))
	}
	return nil
}

// Describe returns the header of an array with the given shape. dtype is NumPy's name of the type,
// long (float32) or short without the byte order (f4).
func Describe(dtype string, shape ...int64) (Header, error) {
	long := map[string]string{
		"float16": "f2", "float32": "f4", "float64": "f8", "bool": "b1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8",
		"uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8",
	}
	if short, ok := long[dtype]; ok {
		dtype = short
	}
	if len(dtype) > 0 && dtype[0] != '<' && dtype[0] != '|' && dtype[0] != '>' {
		dtype = "<" + dtype
	}
	h := Header{Shape: shape}
	return h, h.setType(dtype)
}

// Doubles sets dst to the next elements, of any type, converted to float64.
func (r *Reader) Doubles(dst []float64) error {
	for len(dst) > 0 {
		b, n, err := r.next(len(dst))
		if err != nil {
			return err
		}
		switch kind := string([]byte{r.Kind, byte('0' + r.Size)}); kind {
		case "f2":
			half := make([]float32, n)
			dtype.Convert(binio.Bytes(half), dtype.Float32, b, dtype.Float16)
			for i, v := range half {
				dst[i] = float64(v)
			}
		case "B2":
			for i, v := range binio.View[uint16](b) {
				dst[i] = float64(math.Float32frombits(uint32(v) << 16))
			}
		case "f4":
			for i, v := range binio.View[uint32](b) {
				dst[i] = float64(math.Float32frombits(v))
			}
		default:
			round(dst, kind, b)
		}
		dst = dst[n:]
	}
	return nil
}
