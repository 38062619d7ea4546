package dtype

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A row of int8 holds, little-endian,
//
//	offset  size  field
//	0       4     scale, float32
//	4       dim   elements, int8: element × scale is the value
//	4+dim   …     zeros, up to a multiple of 4 bytes
//
// The scale is the largest magnitude over 127, so elements are within ±127 and
// the error of a value is at most half the scale.

// ScaleBytes is the part of an int8 row before its elements.
const ScaleBytes = 4

// maxScale is the largest scale for which 127 × scale is finite.
const maxScale = 0x1.020406p+121

// Int8Scale returns the scale of a row with the largest magnitude max.
func Int8Scale(max float32) float32 { return min(max/127, maxScale) }

// Quantized reports whether rows of the type have scales. QuantizeRow and DequantizeRow convert them, Convert does not.
func (t Type) Quantized() bool { return t == Int8 || t == Int4 }

// QuantizeRow writes the values of src as a row of type to, which is Quantized, rounded to the nearest, ties to even. dst must
// have to.RowBytes(len(src)) bytes. It reports whether the type holds all values; if not, the content of dst is undefined.
// It is the reference for all faster functions.
func QuantizeRow(dst []byte, to Type, src []float32) bool {
	switch to {
	case Int8:
		largest, ok := magnitude(src)
		if !ok {
			return false
		}
		scale := Int8Scale(largest)
		PutScale(dst, len(src), scale)
		QuantizeInt8(dst[ScaleBytes:], src, scale)
		return true
	case Int4:
		scales, codes := Int4Parts(dst, len(src))
		ClearInt4Padding(dst, len(src))
		return QuantizeInt4(codes, scales, src)
	}
	panic(fmt.Sprintf("dtype: rows of %s have no scales", to))
}

// magnitude returns the largest magnitude of src, and whether all values are finite.
func magnitude(src []float32) (largest float32, ok bool) {
	for _, v := range src {
		if math.Float32bits(v)&0x7F800000 == 0x7F800000 {
			return 0, false
		}
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	return largest, true
}

// PutScale writes the scale and the padding of a row of dim elements of int8.
func PutScale(dst []byte, dim int, scale float32) {
	clear(dst[ScaleBytes+dim : Int8.RowBytes(dim)])
	binary.LittleEndian.PutUint32(dst, math.Float32bits(scale))
}

// QuantizeInt8 writes the elements of a row with the given scale to dst, one byte each.
func QuantizeInt8(dst []byte, src []float32, scale float32) {
	dst = dst[:len(src)]
	if scale == 0 { // all values are, or round to, zero
		clear(dst)
		return
	}
	for i, v := range src {
		// The quotient may exceed 127, since the scale may have been rounded down.
		q := math.RoundToEven(float64(v / scale))
		dst[i] = byte(int8(min(max(q, -127), 127)))
	}
}

// DequantizeRow fills dst with the values of src, a row of type from, which is Quantized.
func DequantizeRow(dst []float32, src []byte, from Type) {
	switch from {
	case Int8:
		DequantizeInt8(dst, src[ScaleBytes:], Scale(src))
	case Int4:
		scales, codes := Int4Parts(src, len(dst))
		DequantizeInt4(dst, codes, scales, 0)
	default:
		panic(fmt.Sprintf("dtype: rows of %s have no scales", from))
	}
}

// Scale returns the scale of a row of int8.
func Scale(row []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(row)) }

// DequantizeInt8 fills dst with the values of elements with the given scale.
func DequantizeInt8(dst []float32, src []byte, scale float32) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = float32(int8(src[i])) * scale
	}
}
