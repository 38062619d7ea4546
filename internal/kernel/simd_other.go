//go:build !amd64 || noasm

package kernel

// supported is the best kind of kernels for this architecture.
const supported = plain

func gatherSumSIMD(dst, x []float32, idx []uint32, w []float32, scale float32, add bool) {
	gatherSumPlain(dst, x, idx, w, scale, add)
}
func addSIMD(dst, src []float32)                               { addPlain(dst, src) }
func biasReLUSIMD(z, bias []float32, drop Dropout, key uint64) { biasReLUPlain(z, bias, 0, drop, key) }
func reluBackwardSIMD(g, y, sums []float32, scale float32)     { reluBackwardPlain(g, y, sums, scale) }
func adamSIMD(w, g, m, v []float32, s *AdamStep)               { adamPlain(w, g, m, v, s) }
func float16ToFloat32SIMD(dst []float32, src []byte)           { float16ToFloat32Plain(dst, src) }
func bfloat16ToFloat32SIMD(dst []float32, src []byte)          { bfloat16ToFloat32Plain(dst, src) }
