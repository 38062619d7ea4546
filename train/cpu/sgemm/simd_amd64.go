//go:build amd64 && !noasm

package sgemm

import "github.com/klauspost/cpuid/v2"

// known are the kinds of kernels, each faster than those before it.
var known = []instructions{
	{"avx2", 8, []tiles{
		{6, tile6x2AVX2, tile6x2MaskedAVX2, tile6x1MaskedAVX2},
		{4, tile4x2AVX2, tile4x2MaskedAVX2, tile4x1MaskedAVX2},
		{2, tile2x2AVX2, tile2x2MaskedAVX2, tile2x1MaskedAVX2},
		{1, tile1x2AVX2, tile1x2MaskedAVX2, tile1x1MaskedAVX2},
	}, copyRows2AVX2, copyRows1AVX2},
	{"avx512", 16, []tiles{
		{14, tile14x2AVX512, tile14x2MaskedAVX512, tile14x1MaskedAVX512},
		{8, tile8x2AVX512, tile8x2MaskedAVX512, tile8x1MaskedAVX512},
		{4, tile4x2AVX512, tile4x2MaskedAVX512, tile4x1MaskedAVX512},
		{2, tile2x2AVX512, tile2x2MaskedAVX512, tile2x1MaskedAVX512},
		{1, tile1x2AVX512, tile1x2MaskedAVX512, tile1x1MaskedAVX512},
	}, copyRows2AVX512, copyRows1AVX512},
}

// supported are those that this processor can run.
var supported = func() []instructions {
	switch {
	case !cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3):
		return nil
	case !cpuid.CPU.Supports(cpuid.AVX512F, cpuid.BMI2):
		return known[:1]
	}
	return known
}()
