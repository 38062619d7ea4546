//go:build amd64 && !noasm

package kernel

import "unsafe"

func dotHeadsSIMD(dst, x []float32, d int, idx []uint32, v []float32, heads int) {
	list, last := unsafe.SliceData(idx), cap(idx)-1
	if level == avx512 {
		dotHeadsAVX512(first(dst), first(x), d, list, len(idx), last, first(v), heads)
	} else {
		dotHeadsAVX2(first(dst), first(x), d, list, len(idx), last, first(v), heads)
	}
}

func gatherHeadsSIMD(dst, x []float32, d int, idx []uint32, w []float32, heads int, add bool) {
	list, last := unsafe.SliceData(idx), cap(idx)-1
	if level == avx512 {
		gatherHeadsAVX512(first(dst), first(x), d, list, len(idx), last, first(w), heads, add)
	} else {
		gatherHeadsAVX2(first(dst), first(x), d, list, len(idx), last, first(w), heads, add)
	}
}

func combineHeadsSIMD(dst, y []float32, idx, edges []uint32, w []float32, heads int) {
	list, numbers := unsafe.SliceData(idx), unsafe.SliceData(edges)
	if level == avx512 {
		combineHeadsAVX512(first(dst), first(y), len(dst), list, numbers, len(idx), first(w), heads)
	} else {
		combineHeadsAVX2(first(dst), first(y), len(dst), list, numbers, len(idx), first(w), heads)
	}
}

func dotPartsSIMD(dst, x []float32, d, stride int, idx []uint32, v []float32, heads int) {
	list, last := unsafe.SliceData(idx), cap(idx)-1
	if level == avx512 {
		dotPartsAVX512(first(dst), first(x), d, stride, list, len(idx), last, first(v), heads)
	} else {
		dotPartsAVX2(first(dst), first(x), d, stride, list, len(idx), last, first(v), heads)
	}
}

func gatherPartsSIMD(dst, x []float32, d, stride int, idx []uint32, w []float32, heads int) {
	list, last := unsafe.SliceData(idx), cap(idx)-1
	if level == avx512 {
		gatherPartsAVX512(first(dst), first(x), d, stride, list, len(idx), last, first(w), heads)
	} else {
		gatherPartsAVX2(first(dst), first(x), d, stride, list, len(idx), last, first(w), heads)
	}
}

func leakyScoresSIMD(w, scores, own, top []float32, slope float32) {
	heads := len(own)
	if level == avx512 {
		leakyScoresAVX512(first(w), first(scores), len(scores)/heads, first(own), first(top), heads, slope)
	} else {
		leakyScoresAVX2(first(w), first(scores), len(scores)/heads, first(own), first(top), heads, slope)
	}
}

func scoreGradientsSIMD(scores, w, d, total, own []float32, slope float32) {
	heads := len(total)
	if level == avx512 {
		scoreGradientsAVX512(first(scores), first(w), first(d), len(scores)/heads, first(total), first(own), heads, slope)
	} else {
		scoreGradientsAVX2(first(scores), first(w), first(d), len(scores)/heads, first(total), first(own), heads, slope)
	}
}

func expSIMD(x []float32) {
	if level == avx512 {
		expAVX512(first(x), len(x))
	} else {
		expAVX2(first(x), len(x))
	}
}

func biasELUSIMD(z, bias []float32, drop Dropout, key uint64) {
	n := whole(len(z))
	low, high := uint32(key), uint32(key>>32)
	if level == avx512 {
		biasELUAVX512(first(z), first(bias), n, low, high, drop.threshold, drop.Scale())
	} else {
		biasELUAVX2(first(z), first(bias), n, low, high, drop.threshold, drop.Scale())
	}
	biasELUPlain(z, bias, n, drop, key)
}

func eluBackwardSIMD(g, y, sums []float32, drop Dropout, key uint64) {
	n := whole(len(g))
	low, high := uint32(key), uint32(key>>32)
	if level == avx512 {
		eluBackwardAVX512(first(g), first(y), first(sums), n, low, high, drop.threshold, drop.Scale())
	} else {
		eluBackwardAVX2(first(g), first(y), first(sums), n, low, high, drop.threshold, drop.Scale())
	}
	eluBackwardPlain(g, y, sums, n, drop, key)
}
