package kernel

import (
	"math"
	"unsafe"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
)

// Narrow converts rows of dim float32s to rows of another type, rounded to the nearest, ties to even. dst
// needs to.RowBytes(dim) bytes for each row. It reports whether every value is finite as that type; if not,
// the content of dst is undefined. dtype.Convert and dtype.QuantizeRow are its reference.
func Narrow(dst []byte, to dtype.Type, src []float32, dim int) bool {
	switch to {
	case dtype.Float16:
		return Float32ToFloat16(dst, src)
	case dtype.BFloat16:
		return Float32ToBFloat16(dst, src)
	case dtype.Int8, dtype.Int4:
		size := to.RowBytes(dim)
		for ; len(src) > 0; dst, src = dst[size:], src[dim:] {
			if !QuantizeRow(dst[:size], to, src[:dim]) {
				return false
			}
		}
		return true
	}
	copy(dst, binio.Bytes(src))
	return MaxMagnitude(src) < infinity
}

// Widen is the inverse of Narrow: it fills dst, rows of dim float32s, with the values of the rows in src,
// of type from.
func Widen(dst []float32, src []byte, from dtype.Type, dim int) {
	switch from {
	case dtype.Float16:
		Float16ToFloat32(dst, src)
	case dtype.BFloat16:
		BFloat16ToFloat32(dst, src)
	case dtype.Int8, dtype.Int4:
		size := from.RowBytes(dim)
		for ; len(dst) > 0; dst, src = dst[dim:], src[size:] {
			DequantizeRow(dst[:dim], src[:size], from)
		}
	default:
		copy(binio.Bytes(dst), src)
	}
}

// Past is the least number of float32s, of all rows together, that WidenPast is for: fewer may still be in the caches when they are
// read.
const Past = 1 << 20

// WidenPast is Widen for memory that is written whole and read much later. It stores past the caches, where dst
// allows it: the memory is then not read before it is written. Call Fence after the last rows.
func WidenPast(dst []float32, src []byte, from dtype.Type, dim int) {
	const vector = 16
	switch {
	case level == plain || len(dst) == 0 || uintptr(unsafe.Pointer(&dst[0]))%(4*vector) != 0 || from.Quantized() && dim%vector != 0:
		Widen(dst, src, from, dim)
	case from == dtype.Float32:
		n := len(dst) / vector * vector
		copyPastSIMD(dst[:n], src[:4*n])
		Widen(dst[n:], src[4*n:], from, dim)
	case from == dtype.Int8:
		size := from.RowBytes(dim)
		for ; len(dst) > 0; dst, src = dst[dim:], src[size:] {
			int8ToFloat32PastSIMD(dst[:dim], src[dtype.ScaleBytes:size], dtype.Scale(src))
		}
	case from == dtype.Int4:
		size := from.RowBytes(dim)
		for ; len(dst) > 0; dst, src = dst[dim:], src[size:] {
			scales, codes := dtype.Int4Parts(src, dim)
			int4ToFloat32PastSIMD(dst[:dim], codes, scales)
		}
	default:
		n, size := len(dst)/vector*vector, from.Size()
		halvesPastSIMD(dst[:n], src[:n*size], from)
		Widen(dst[n:], src[n*size:len(dst)*size], from, dim)
	}
}

// Fence makes the stores of WidenPast visible to others before later stores of this goroutine are.
func Fence() { fence() }

// Bits of the least float32 magnitudes that are not finite as the narrower types.
const (
	infinity   = 0x7F800000
	beyondHalf = 0x477FF000 // 65520
	beyondBF16 = 0x7F7F8000
	beyondInt4 = 0x48DFF200 // 458640, 7 × 65520
)

// MaxMagnitude returns the bits of the greatest magnitude in src, 0 if src is empty. The bits have the
// order of the magnitudes, with infinity above all numbers and NaN above infinity.
func MaxMagnitude(src []float32) uint32 {
	if level == plain {
		return maxMagnitudePlain(src)
	}
	return maxMagnitudeSIMD(src)
}

// Float32ToFloat16 writes little-endian IEEE 754 half-precision numbers, each
// dtype.ToFloat16 of its value, and reports whether all of them are finite.
func Float32ToFloat16(dst []byte, src []float32) bool {
	dst = dst[:2*len(src)]
	if level == plain {
		return float32ToFloat16Plain(dst, src) < beyondHalf
	}
	return float32ToFloat16SIMD(dst, src) < beyondHalf
}

// Float32ToBFloat16 writes little-endian bfloat16 numbers, each dtype.ToBFloat16 of
// its value, and reports whether all of them are finite.
func Float32ToBFloat16(dst []byte, src []float32) bool {
	dst = dst[:2*len(src)]
	if level == plain {
		return float32ToBFloat16Plain(dst, src) < beyondBF16
	}
	return float32ToBFloat16SIMD(dst, src) < beyondBF16
}

// QuantizeRow is a fast dtype.QuantizeRow: it writes a row of type to and reports whether the type holds all values; if not, the
// content of dst is undefined.
func QuantizeRow(dst []byte, to dtype.Type, src []float32) bool {
	if level == plain {
		return dtype.QuantizeRow(dst, to, src)
	}
	if to == dtype.Int4 {
		dtype.ClearInt4Padding(dst, len(src))
		scales, codes := dtype.Int4Parts(dst, len(src))
		return quantizeInt4SIMD(codes, scales, src)
	}
	m := MaxMagnitude(src)
	if m >= infinity {
		return false
	}
	scale := dtype.Int8Scale(math.Float32frombits(m))
	dtype.PutScale(dst, len(src), scale)
	dst = dst[dtype.ScaleBytes:][:len(src)]
	if scale == 0 {
		dtype.QuantizeInt8(dst, src, scale)
	} else {
		quantizeInt8SIMD(dst, src, scale)
	}
	return true
}

// DequantizeRow is a fast dtype.DequantizeRow: it fills dst with the values of a row of type from.
func DequantizeRow(dst []float32, src []byte, from dtype.Type) {
	switch {
	case level == plain:
		dtype.DequantizeRow(dst, src, from)
	case from == dtype.Int4:
		scales, codes := dtype.Int4Parts(src, len(dst))
		int4ToFloat32SIMD(dst, codes, scales)
	default:
		int8ToFloat32SIMD(dst, src[dtype.ScaleBytes:], dtype.Scale(src))
	}
}

// Float16ToFloat32 converts len(dst) little-endian IEEE 754 half-precision numbers.
// Signalling NaNs become quiet.
func Float16ToFloat32(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	if level == plain {
		float16ToFloat32Plain(dst, src)
		return
	}
	float16ToFloat32SIMD(dst, src)
}

// BFloat16ToFloat32 converts len(dst) little-endian bfloat16 numbers: their bits
// are the upper halves of the float32s.
func BFloat16ToFloat32(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	if level == plain {
		bfloat16ToFloat32Plain(dst, src)
		return
	}
	bfloat16ToFloat32SIMD(dst, src)
}
