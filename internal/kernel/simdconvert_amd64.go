//go:build amd64 && !noasm

package kernel

import (
	"unsafe"

	"diskgnn/internal/dtype"
)

func float16ToFloat32SIMD(dst []float32, src []byte) {
	n := whole(len(dst))
	if level == avx512 {
		float16ToFloat32AVX512(first(dst), unsafe.SliceData(src), n)
	} else {
		float16ToFloat32AVX2(first(dst), unsafe.SliceData(src), n)
	}
	float16ToFloat32Plain(dst[n:], src[2*n:])
}

func bfloat16ToFloat32SIMD(dst []float32, src []byte) {
	n := whole(len(dst))
	if level == avx512 {
		bfloat16ToFloat32AVX512(first(dst), unsafe.SliceData(src), n)
	} else {
		bfloat16ToFloat32AVX2(first(dst), unsafe.SliceData(src), n)
	}
	bfloat16ToFloat32Plain(dst[n:], src[2*n:])
}

func int8ToFloat32SIMD(dst []float32, src []byte, scale float32) {
	n := whole(len(dst))
	if level == avx512 {
		int8ToFloat32AVX512(first(dst), unsafe.SliceData(src), n, scale)
	} else {
		int8ToFloat32AVX2(first(dst), unsafe.SliceData(src), n, scale)
	}
	dtype.DequantizeInt8(dst[n:], src[n:], scale)
}

func quantizeInt8SIMD(dst []byte, src []float32, scale float32) {
	n := whole(len(src))
	if level == avx512 {
		quantizeInt8AVX512(unsafe.SliceData(dst), first(src), n, scale)
	} else {
		quantizeInt8AVX2(unsafe.SliceData(dst), first(src), n, scale)
	}
	dtype.QuantizeInt8(dst[n:], src[n:], scale)
}

func int4ToFloat32SIMD(dst []float32, codes, scales []byte) {
	n := whole(len(dst))
	if level == avx512 {
		int4ToFloat32AVX512(first(dst), unsafe.SliceData(codes), unsafe.SliceData(scales), n)
	} else {
		int4ToFloat32AVX2(first(dst), unsafe.SliceData(codes), unsafe.SliceData(scales), n)
	}
	dtype.DequantizeInt4(dst, codes, scales, n)
}

func quantizeInt4SIMD(codes, scales []byte, src []float32) bool {
	groups := len(src) / dtype.Int4Group
	var most uint32
	if level == avx512 {
		most = quantizeInt4AVX512(unsafe.SliceData(codes), unsafe.SliceData(scales), first(src), groups)
	} else {
		most = quantizeInt4AVX2(unsafe.SliceData(codes), unsafe.SliceData(scales), first(src), groups)
	}
	n := groups * dtype.Int4Group
	return most < beyondInt4 && dtype.QuantizeInt4(codes[n/2:], scales[2*groups:], src[n:])
}

func maxMagnitudeSIMD(src []float32) (most uint32) {
	n := whole(len(src))
	if level == avx512 {
		most = maxMagnitudeAVX512(first(src), n)
	} else {
		most = maxMagnitudeAVX2(first(src), n)
	}
	return max(most, maxMagnitudePlain(src[n:]))
}

func float32ToFloat16SIMD(dst []byte, src []float32) (most uint32) {
	n := whole(len(src))
	if level == avx512 {
		most = float32ToFloat16AVX512(unsafe.SliceData(dst), first(src), n)
	} else {
		most = float32ToFloat16AVX2(unsafe.SliceData(dst), first(src), n)
	}
	return max(most, float32ToFloat16Plain(dst[2*n:], src[n:]))
}

func float32ToBFloat16SIMD(dst []byte, src []float32) (most uint32) {
	n := whole(len(src))
	if level == avx512 {
		most = float32ToBFloat16AVX512(unsafe.SliceData(dst), first(src), n)
	} else {
		most = float32ToBFloat16AVX2(unsafe.SliceData(dst), first(src), n)
	}
	return max(most, float32ToBFloat16Plain(dst[2*n:], src[n:]))
}

// halvesPastSIMD converts whole vectors of float16 or bfloat16, to an aligned dst.
func halvesPastSIMD(dst []float32, src []byte, from dtype.Type) {
	to, p, n := first(dst), unsafe.SliceData(src), len(dst)
	switch {
	case from == dtype.Float16 && level == avx512:
		float16ToFloat32PastAVX512(to, p, n)
	case from == dtype.Float16:
		float16ToFloat32PastAVX2(to, p, n)
	case level == avx512:
		bfloat16ToFloat32PastAVX512(to, p, n)
	default:
		bfloat16ToFloat32PastAVX2(to, p, n)
	}
}

// copyPastSIMD copies whole vectors, to an aligned dst.
func copyPastSIMD(dst []float32, src []byte) {
	if level == avx512 {
		copyPastAVX512(first(dst), unsafe.SliceData(src), len(dst))
	} else {
		copyPastAVX2(first(dst), unsafe.SliceData(src), len(dst))
	}
}

// int8ToFloat32PastSIMD converts whole vectors, to an aligned dst.
func int8ToFloat32PastSIMD(dst []float32, src []byte, scale float32) {
	if level == avx512 {
		int8ToFloat32PastAVX512(first(dst), unsafe.SliceData(src), len(dst), scale)
	} else {
		int8ToFloat32PastAVX2(first(dst), unsafe.SliceData(src), len(dst), scale)
	}
}

// int4ToFloat32PastSIMD converts whole vectors, to an aligned dst.
func int4ToFloat32PastSIMD(dst []float32, codes, scales []byte) {
	if level == avx512 {
		int4ToFloat32PastAVX512(first(dst), unsafe.SliceData(codes), unsafe.SliceData(scales), len(dst))
	} else {
		int4ToFloat32PastAVX2(first(dst), unsafe.SliceData(codes), unsafe.SliceData(scales), len(dst))
	}
}
