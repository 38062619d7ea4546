//go:build !amd64 || noasm

package kernel

import "diskgnn/internal/dtype"

// supported is the best kind of kernels for this architecture.
const supported = plain

func gatherSumSIMD(dst, x []float32, idx []uint32, w []float32, scale float32, add bool) {
	gatherSumPlain(dst, x, idx, w, scale, add)
}
func addRowsSIMD(dst, x []float32, idx []uint32)               { addRowsPlain(dst, x, idx) }
func addSIMD(dst, src []float32)                               { addPlain(dst, src) }
func biasReLUSIMD(z, bias []float32, drop Dropout, key uint64) { biasReLUPlain(z, bias, 0, drop, key) }
func reluBackwardSIMD(g, y, sums []float32, scale float32)     { reluBackwardPlain(g, y, sums, scale) }
func adamSIMD(w, g, m, v []float32, s *AdamStep)               { adamPlain(w, g, m, v, s) }
func float16ToFloat32SIMD(dst []float32, src []byte)           { float16ToFloat32Plain(dst, src) }
func bfloat16ToFloat32SIMD(dst []float32, src []byte)          { bfloat16ToFloat32Plain(dst, src) }

func int8ToFloat32SIMD(dst []float32, src []byte, scale float32) {
	dtype.DequantizeInt8(dst, src, scale)
}
func quantizeInt8SIMD(dst []byte, src []float32, scale float32) { dtype.QuantizeInt8(dst, src, scale) }
func maxMagnitudeSIMD(src []float32) uint32                     { return maxMagnitudePlain(src) }
func float32ToFloat16SIMD(dst []byte, src []float32) uint32     { return float32ToFloat16Plain(dst, src) }
func float32ToBFloat16SIMD(dst []byte, src []float32) uint32 {
	return float32ToBFloat16Plain(dst, src)
}

func halvesPastSIMD(dst []float32, src []byte, from dtype.Type) { Widen(dst, src, from, len(dst)) }
func int8ToFloat32PastSIMD(dst []float32, src []byte, scale float32) {
	dtype.DequantizeInt8(dst, src, scale)
}
func int4ToFloat32SIMD(dst []float32, codes, scales []byte) {
	dtype.DequantizeInt4(dst, codes, scales, 0)
}
func int4ToFloat32PastSIMD(dst []float32, codes, scales []byte) {
	dtype.DequantizeInt4(dst, codes, scales, 0)
}
func quantizeInt4SIMD(codes, scales []byte, src []float32) bool {
	return dtype.QuantizeInt4(codes, scales, src)
}
func fence()                                  {}
func copyPastSIMD(dst []float32, src []byte)  { Widen(dst, src, dtype.Float32, len(dst)) }
func widenUintsSIMD([]int64, []uint32) int    { return 0 }
func joinSIMD([]uint64, uint64, []uint32) int { return 0 }
func unpackSIMD([]uint32, []byte, int) int    { return 0 }

func numberSIMD(out, words, list []uint32, n, base uint32, table []uint32) uint32 {
	return numberPlain(out, words, list, n, base, table)
}
