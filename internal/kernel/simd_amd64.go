//go:build amd64 && !noasm

package kernel

import (
	"unsafe"

	"github.com/klauspost/cpuid/v2"
)

// supported is the best kind of kernels that this processor has.
var supported = func() simd {
	switch {
	case !cpuid.CPU.Supports(cpuid.AVX2, cpuid.F16C):
		return plain
	case !cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL, cpuid.BMI2):
		return avx2
	}
	return avx512
}()

// whole returns the number of the first n elements that fill whole vectors. The plain functions compute the
// rest.
func whole(n int) int {
	if level == avx512 {
		return n &^ 15
	}
	return n &^ 7
}

func first(s []float32) *float32 { return unsafe.SliceData(s) }

func gatherSumSIMD(dst, x []float32, idx []uint32, w []float32, scale float32, add bool) {
	list, last := unsafe.SliceData(idx), cap(idx)-1
	switch {
	case w == nil && level == avx512:
		gatherSumAVX512(first(dst), first(x), len(dst), list, len(idx), last, scale, add)
	case w == nil:
		gatherSumAVX2(first(dst), first(x), len(dst), list, len(idx), last, scale, add)
	case level == avx512:
		gatherWeightedAVX512(first(dst), first(x), len(dst), list, len(idx), last, first(w), scale, add)
	default:
		gatherWeightedAVX2(first(dst), first(x), len(dst), list, len(idx), last, first(w), scale, add)
	}
}

func addRowsSIMD(dst, x []float32, idx []uint32) {
	list, last := unsafe.SliceData(idx), cap(idx)-1
	if level == avx512 {
		addRowsAVX512(first(dst), first(x), len(dst), list, len(idx), last)
	} else {
		addRowsAVX2(first(dst), first(x), len(dst), list, len(idx), last)
	}
}

func addSIMD(dst, src []float32) {
	n := whole(len(dst))
	if level == avx512 {
		addAVX512(first(dst), first(src), n)
	} else {
		addAVX2(first(dst), first(src), n)
	}
	addPlain(dst[n:], src[n:])
}

func biasReLUSIMD(z, bias []float32, drop Dropout, key uint64) {
	n := whole(len(z))
	low, high := uint32(key), uint32(key>>32)
	switch {
	case drop.threshold == 0 && level == avx512:
		biasReLUAVX512(first(z), first(bias), n)
	case drop.threshold == 0:
		biasReLUAVX2(first(z), first(bias), n)
	case level == avx512:
		biasReLUDropoutAVX512(first(z), first(bias), n, low, high, drop.threshold, drop.scale)
	default:
		biasReLUDropoutAVX2(first(z), first(bias), n, low, high, drop.threshold, drop.scale)
	}
	biasReLUPlain(z, bias, n, drop, key)
}

func reluBackwardSIMD(g, y, sums []float32, scale float32) {
	n := whole(len(g))
	if level == avx512 {
		reluBackwardAVX512(first(g), first(y), first(sums), n, scale)
	} else {
		reluBackwardAVX2(first(g), first(y), first(sums), n, scale)
	}
	reluBackwardPlain(g[n:], y[n:], sums[n:], scale)
}

func adamSIMD(w, g, m, v []float32, s *AdamStep) {
	n := whole(len(w))
	if level == avx512 {
		adamAVX512(first(w), first(g), first(m), first(v), n, &s.Beta1)
	} else {
		adamAVX2(first(w), first(g), first(m), first(v), n, &s.Beta1)
	}
	adamPlain(w[n:], g[n:], m[n:], v[n:], s)
}

// widenUintsSIMD widens the words that fill whole vectors, and returns their number.
func widenUintsSIMD(dst []int64, src []uint32) int {
	n := whole(len(src))
	if level == avx512 {
		widenUintsAVX512(unsafe.SliceData(dst), unsafe.SliceData(src), n)
	} else {
		widenUintsAVX2(unsafe.SliceData(dst), unsafe.SliceData(src), n)
	}
	return n
}

// joinSIMD joins the words that fill whole vectors, and returns their number.
func joinSIMD(dst []uint64, key uint64, words []uint32) int {
	n := len(words) &^ 7
	joinAVX512(unsafe.SliceData(dst), unsafe.SliceData(words), n, key)
	return n
}

// groups has, by width, the tables of unpackAVX2 for a group of eight values.
var groups = func() (t [maxUnpack + 1]struct {
	places [32]byte
	shifts [8]uint32
}) {
	for width := range t {
		for i := range 8 {
			half := i / 4
			bit := i*width - half*(4*width&^7)
			t[width].shifts[i] = uint32(bit & 7)
			for b := range 4 {
				t[width].places[4*i+b] = byte(bit>>3 + b)
			}
		}
	}
	return t
}()

// unpackSIMD fills dst with whole groups of eight values, as long as its loads of sixteen bytes stay within src, and
// returns the number of values.
func unpackSIMD(dst []uint32, src []byte, width int) int {
	half := 4 * width >> 3
	n := min(len(dst)/8, (len(src)-half-16)/width+1)
	if len(src) < half+16 || n == 0 {
		return 0
	}
	t := &groups[width]
	unpackAVX2(&dst[0], &src[0], n, width, half, 1<<width-1, &t.places[0], &t.shifts[0])
	return 8 * n
}

func numberSIMD(out, words, list []uint32, n, base uint32, table []uint32) uint32 {
	return numberAVX2(&out[0], &words[0], &list[0], &table[0], len(words), 4*(len(table)-BucketWords), n, base, bucketShift(len(table)))
}
