package dtype

import (
	"encoding/binary"
	"math"
)

// A row of int4 has groups of 32 elements, of which the last may be shorter. It holds, little-endian, with
// G = ⌈dim/32⌉,
//
//	offset  size      field
//	0       2 G       scales, float16: one of each group
//	2 G     0 or 2    zeros, up to a multiple of 4 bytes
//	…       ⌈dim/2⌉   elements q, 4 bits each, from -7 to 7 in two's complement: q × scale is the value.
//	                  Element i has the low half of byte i/2 if i is even, else the high half
//	…       …         zeros, up to a multiple of 4 bytes
//
// The scales come first. So the elements begin on a multiple of 4 bytes and have no gaps: a warp of a GPU reads consecutive
// words, a group of a processor's vectors is 16 bytes, and the place of an element needs no division by the size of a group with
// its scale. Elements lie in their order, so that the four elements of a GPU's thread are one 16-bit word.
//
// The scale is the group's largest magnitude over 7, rounded to the nearest float16, ties to even. Under the scale 0 all
// elements are 0. A scale beyond float16 is refused. A product of 3 and 11 bits is exact in float32, and finite. The range of
// the elements is symmetric, so the error of a value is at most half the scale. Scales below 2⁻¹⁴ add at most 7 · 2⁻²⁵, by
// which they are rounded: elements beyond 7 become 7.

// Int4Group is the number of elements with one scale in a row of int4.
const Int4Group = 32

// int4Groups returns the number of groups of dim elements.
func int4Groups(dim int) int { return (dim + Int4Group - 1) / Int4Group }

// int4Codes returns the offset of the elements in a row of int4.
func int4Codes(dim int) int { return (2*int4Groups(dim) + 3) &^ 3 }

// Int4Parts returns the scales and the elements of a row of dim elements of int4.
func Int4Parts(row []byte, dim int) (scales, codes []byte) {
	return row[:2*int4Groups(dim)], row[int4Codes(dim):][:(dim+1)/2]
}

// ClearInt4Padding writes the zeros of a row of dim elements of int4.
func ClearInt4Padding(row []byte, dim int) {
	at := int4Codes(dim)
	clear(row[2*int4Groups(dim) : at])
	clear(row[at+(dim+1)/2 : Int4.RowBytes(dim)])
}

// int4Scale returns the bits of the scale of a group with the largest magnitude max. They are infinity's if int4 does not
// hold that magnitude.
func int4Scale(max float32) uint16 { return ToFloat16(max / 7) }

// QuantizeInt4 writes the elements of consecutive groups, and their scales. It reports whether int4 holds all values; if not,
// the content of codes and scales is undefined.
func QuantizeInt4(codes, scales []byte, src []float32) bool {
	for ; len(src) > 0; codes, scales = codes[min(Int4Group/2, len(codes)):], scales[2:] {
		group := src[:min(Int4Group, len(src))]
		src = src[len(group):]
		largest, ok := magnitude(group)
		h := int4Scale(largest)
		if !ok || h == 0x7C00 {
			return false
		}
		binary.LittleEndian.PutUint16(scales, h)
		scale := FromFloat16(h)
		for i, v := range group {
			q := 0.0
			if scale != 0 {
				q = min(max(math.RoundToEven(float64(v/scale)), -7), 7)
			}
			half := byte(int8(q)) & 15
			if i%2 == 0 {
				codes[i/2] = half
			} else {
				codes[i/2] |= half << 4
			}
		}
	}
	return true
}

// DequantizeInt4 fills dst, from element first on, with the values of consecutive groups.
func DequantizeInt4(dst []float32, codes, scales []byte, first int) {
	for i := first; i < len(dst); {
		scale := FromFloat16(binary.LittleEndian.Uint16(scales[i/Int4Group*2:]))
		for end := min((i/Int4Group+1)*Int4Group, len(dst)); i < end; i++ {
			// The element's four bits become the highest of a byte.
			b := codes[i/2]
			if i%2 == 0 {
				b <<= 4
			}
			dst[i] = float32(int8(b)>>4) * scale
		}
	}
}
