// Package dtype names the element types of a feature row.
package dtype

import (
	"fmt"
	"math"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// Type is an element type. Its text is the name in files and flags.
type Type string

// The element types of the formats. A row of Int8 has a scale, a row of Int4 several.
const (
	Float32  Type = "float32"
	Float16  Type = "float16"
	BFloat16 Type = "bfloat16"
	Int8     Type = "int8"
	Int4     Type = "int4"
)

// Parse returns the type of a name, or of its usual short form, such as bf16. An error is of kind
// fault.ErrUsage.
func Parse(s string) (Type, error) {
	switch s {
	case "float32", "fp32", "f32":
		return Float32, nil
	case "float16", "fp16", "f16", "half":
		return Float16, nil
	case "bfloat16", "bf16":
		return BFloat16, nil
	case "int8", "i8":
		return Int8, nil
	case "int4", "i4":
		return Int4, nil
	}
	return "", fault.New(fault.ErrUsage, "unknown dtype %q (float32, float16, bfloat16, int8, int4)", s)
}

// Bits returns the bits of one element, without scales.
func (t Type) Bits() int {
	switch t {
	case Float32:
		return 32
	case Float16, BFloat16:
		return 16
	case Int8:
		return 8
	case Int4:
		return 4
	}
	panic(fmt.Sprintf("dtype: size of unknown type %q", string(t)))
}

// Size returns the bytes of one element. Elements of Int4 share bytes: they have none.
func (t Type) Size() int {
	if t == Int4 {
		panic("dtype: two elements of int4 share a byte")
	}
	return t.Bits() / 8
}

// RowBytes returns the bytes of a row of dim elements in a pack. Rows of int8 and int4 have scales before
// their elements, and are padded with zeros to a multiple of four bytes.
func (t Type) RowBytes(dim int) int {
	switch t {
	case Int8:
		return ScaleBytes + (dim+3)&^3
	case Int4:
		return int4Codes(dim) + ((dim+1)/2+3)&^3
	}
	return dim * t.Size()
}

// Valid reports whether t is a type of this version.
func (t Type) Valid() bool {
	return t == Float32 || t == Float16 || t == BFloat16 || t.Quantized()
}

// Convert writes the elements of src, of type from, to dst as type to, rounded to the nearest, ties to
// even. dst must be long enough. It is the reference for all faster conversions.
func Convert(dst []byte, to Type, src []byte, from Type) {
	switch {
	case to == from:
		copy(dst, src)
	case from == Float32 && to == BFloat16:
		d := binio.View[uint16](dst)
		for i, v := range binio.View[float32](src) {
			d[i] = ToBFloat16(v)
		}
	case from == Float32 && to == Float16:
		d := binio.View[uint16](dst)
		for i, v := range binio.View[float32](src) {
			d[i] = ToFloat16(v)
		}
	case to == Float32 && from == BFloat16:
		d := binio.View[float32](dst)
		for i, h := range binio.View[uint16](src) {
			d[i] = math.Float32frombits(uint32(h) << 16)
		}
	case to == Float32 && from == Float16:
		d := binio.View[float32](dst)
		for i, h := range binio.View[uint16](src) {
			d[i] = FromFloat16(h)
		}
	case from == Float16 && to == BFloat16:
		d := binio.View[uint16](dst)
		for i, h := range binio.View[uint16](src) {
			d[i] = ToBFloat16(FromFloat16(h))
		}
	case from == BFloat16 && to == Float16:
		d := binio.View[uint16](dst)
		for i, h := range binio.View[uint16](src) {
			d[i] = ToFloat16(math.Float32frombits(uint32(h) << 16))
		}
	default:
		panic(fmt.Sprintf("dtype: no conversion from %s to %s", from, to))
	}
}

// ToBFloat16 rounds to the nearest bfloat16, ties to even. A NaN stays a NaN.
func ToBFloat16(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 0x40 // a quiet NaN: without the bit, some payloads would become infinity
	}
	return uint16((b + 0x7FFF + b>>16&1) >> 16)
}

// ToFloat16 rounds to the nearest IEEE 754 half, ties to even. Values beyond its range become infinite; a
// NaN stays a NaN.
func ToFloat16(v float32) uint16 {
	b := math.Float32bits(v)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7FFFFFFF
	switch {
	case b > 0x7F800000:
		return sign | 0x7E00 | uint16(b>>13&0x3FF)
	case b >= 0x47800000: // 65536 and more, infinity included
		return sign | 0x7C00
	case b < 0x38800000: // below 2^-14: a subnormal half, a multiple of 2^-24
		// Adding 0.5 leaves the multiple, rounded to even, in the low bits.
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3F000000)
	}
	b += 0xFFF + b>>13&1 // may carry into the exponent, up to infinity: as it should
	return sign | uint16((b-0x38000000)>>13)
}

// FromFloat16 returns the value of an IEEE 754 half.
func FromFloat16(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10&0x1F), uint32(h&0x3FF)
	switch exp {
	case 0:
		v := float32(frac) / (1 << 24)
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1F:
		return math.Float32frombits(sign | 0x7F800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
