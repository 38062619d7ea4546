//go:build !amd64 || noasm

package kernel

func dotHeadsSIMD(dst, x []float32, d int, idx []uint32, v []float32, heads int) {
	dotHeadsPlain(dst, x, d, idx, v, heads)
}

func gatherHeadsSIMD(dst, x []float32, d int, idx []uint32, w []float32, heads int, add bool) {
	gatherHeadsPlain(dst, x, d, idx, w, heads, add)
}

func combineHeadsSIMD(dst, y []float32, idx, edges []uint32, w []float32, heads int) {
	combineHeadsPlain(dst, y, idx, edges, w, heads)
}

func dotPartsSIMD(dst, x []float32, d, stride int, idx []uint32, v []float32, heads int) {
	dotPartsPlain(dst, x, d, stride, idx, v, heads)
}

func gatherPartsSIMD(dst, x []float32, d, stride int, idx []uint32, w []float32, heads int) {
	gatherPartsPlain(dst, x, d, stride, idx, w, heads)
}

func leakyScoresSIMD(w, scores, own, top []float32, slope float32) {
	leakyScoresPlain(w, scores, own, top, slope)
}

func scoreGradientsSIMD(scores, w, d, total, own []float32, slope float32) {
	scoreGradientsPlain(scores, w, d, total, own, slope)
}

func expSIMD(x []float32) { expPlain(x) }

func biasELUSIMD(z, bias []float32, drop Dropout, key uint64) { biasELUPlain(z, bias, 0, drop, key) }

func eluBackwardSIMD(g, y, sums []float32, drop Dropout, key uint64) {
	eluBackwardPlain(g, y, sums, 0, drop, key)
}
