// Package binio reads and writes the little-endian arrays of all formats. It has views of bytes as
// numbers, arrays of a fixed byte width, a decoder that keeps its first error, and tables of checksums.
//
// Numbers in files have the byte order of little-endian memory. The program refuses to start on a
// big-endian machine.
package binio

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"diskgnn/internal/fault"
)

// Page is the alignment in bytes of all data that is read by direct I/O.
const Page = 4096

func init() {
	if one := uint16(1); *(*byte)(unsafe.Pointer(&one)) != 1 {
		panic("diskgnn: needs a little-endian machine")
	}
}

// Number is the element type of the formats' arrays.
type Number interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int32 | ~int64 | ~float32 | ~float64
}

// Bytes returns the memory of s as bytes, without copying.
func Bytes[T Number](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// View returns b as numbers, without copying. b must be aligned to the type, and its length a multiple
// of the type's size, else View panics: the formats guarantee both.
func View[T Number](b []byte) []T {
	var t T
	size := int(unsafe.Sizeof(t))
	if len(b) == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if len(b)%size != 0 || uintptr(p)%uintptr(size) != 0 {
		panic(fmt.Sprintf("binio: %d bytes at %p viewed as %T", len(b), p, t))
	}
	return unsafe.Slice((*T)(p), len(b)/size)
}

// AlignUp rounds n up to a multiple of align, a power of two.
func AlignUp(n, align int64) int64 { return (n + align - 1) &^ (align - 1) }

// GCD returns the greatest common divisor of two positive numbers.
func GCD[T int | int64](a, b T) T {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// Width returns the number of bytes, 1 to 4, that can hold every value up to max.
func Width(max uint32) int { return (bits.Len32(max|1) + 7) / 8 }

// AppendUints appends src to dst, width bytes (1 to 4) per value. The values must fit.
func AppendUints(dst []byte, src []uint32, width int) []byte {
	n := len(dst)
	dst = slices.Grow(dst, len(src)*width)[:n+len(src)*width]
	out := dst[n:]
	switch width {
	case 1:
		for i, v := range src {
			out[i] = byte(v)
		}
	case 2:
		for i, v := range src {
			binary.LittleEndian.PutUint16(out[2*i:], uint16(v))
		}
	case 3:
		if len(src) == 0 {
			break
		}
		last := len(src) - 1
		for i, v := range src[:last] { // the fourth byte is written again
			binary.LittleEndian.PutUint32(out[3*i:], v)
		}
		v := src[last]
		out[3*last], out[3*last+1], out[3*last+2] = byte(v), byte(v>>8), byte(v>>16)
	case 4:
		copy(out, Bytes(src))
	default:
		panic(fmt.Sprintf("binio: width %d", width))
	}
	return dst
}

// Uints fills dst from src, which holds len(dst) values of width bytes.
func Uints(dst []uint32, src []byte, width int) {
	src = src[:len(dst)*width]
	switch width {
	case 1:
		for i := range dst {
			dst[i] = uint32(src[i])
		}
	case 2:
		for i := range dst {
			dst[i] = uint32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case 3:
		// Each value is read as four bytes, of which three count; the last one is read by itself.
		n := len(dst) - 1
		for i := 0; i < n; i++ {
			dst[i] = binary.LittleEndian.Uint32(src[3*i:]) & 0xFFFFFF
		}
		if n >= 0 {
			s := src[3*n:]
			dst[n] = uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16
		}
	case 4:
		copy(Bytes(dst), src)
	default:
		panic(fmt.Sprintf("binio: width %d", width))
	}
}

// Decoder reads fields from the front of a buffer. After the first error all reads return zeros, so a
// decoding function needs to check Err only once, at its end.
type Decoder struct {
	b   []byte
	off int
	err error
}

// NewDecoder returns a decoder over b, which it aliases.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

// Err returns the first error, of kind fault.ErrCorrupt.
func (d *Decoder) Err() error { return d.err }

// Rest returns the number of bytes that have not been read.
func (d *Decoder) Rest() int { return len(d.b) - d.off }

// Fail records an error at the present offset, unless an error was recorded before.
func (d *Decoder) Fail(format string, args ...any) {
	if d.err == nil {
		d.err = fault.New(fault.ErrCorrupt, "at byte %d: %s", d.off, fmt.Sprintf(format, args...))
	}
}

// Raw returns the next n bytes, a part of the buffer, or nil if fewer are left.
func (d *Decoder) Raw(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > len(d.b)-d.off {
		d.Fail("%d bytes are needed, but %d are left", n, len(d.b)-d.off)
		return nil
	}
	d.off += n
	return d.b[d.off-n : d.off : d.off]
}

// U8 reads one byte.
func (d *Decoder) U8() uint8 {
	if b := d.Raw(1); b != nil {
		return b[0]
	}
	return 0
}

// U32 reads a 32-bit number.
func (d *Decoder) U32() uint32 {
	if b := d.Raw(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// U64 reads a 64-bit number.
func (d *Decoder) U64() uint64 {
	if b := d.Raw(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Count reads a 32-bit count of items of at least unit bytes each. It fails if the remaining bytes
// cannot hold them, so a wrong count cannot cause a huge allocation.
func (d *Decoder) Count(unit int) int {
	n := int(d.U32())
	if d.err == nil && n*unit > d.Rest() {
		d.Fail("the count %d needs more than the %d bytes left", n, d.Rest())
		return 0
	}
	return n
}

// Uints reads n values of width bytes each. It returns them in dst's memory, or in a new slice if dst is
// too small.
func (d *Decoder) Uints(dst []uint32, n, width int) []uint32 {
	if width < 1 || width > 4 {
		d.Fail("the elements of an array have %d bytes, not 1 to 4", width)
	}
	b := d.Raw(n * width)
	if d.err != nil {
		return dst[:0]
	}
	dst = Grow(dst, n)
	Uints(dst, b, width)
	return dst
}

// Grow returns a slice of length n with undefined content. It uses the memory of s if its capacity
// suffices.
func Grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
