package kernel

import (
	"encoding/binary"
	"math"

	"diskgnn/internal/dtype"
)

func maxMagnitudePlain(src []float32) uint32 {
	most := uint32(0)
	for _, v := range src {
		most = max(most, math.Float32bits(v)&^(1<<31))
	}
	return most
}

// Both return the greatest magnitude, as maxMagnitudePlain does.

func float32ToFloat16Plain(dst []byte, src []float32) uint32 {
	most := uint32(0)
	for i, v := range src {
		most = max(most, math.Float32bits(v)&^(1<<31))
		binary.LittleEndian.PutUint16(dst[2*i:], dtype.ToFloat16(v))
	}
	return most
}

func float32ToBFloat16Plain(dst []byte, src []float32) uint32 {
	most := uint32(0)
	for i, v := range src {
		most = max(most, math.Float32bits(v)&^(1<<31))
		binary.LittleEndian.PutUint16(dst[2*i:], dtype.ToBFloat16(v))
	}
	return most
}

func float16ToFloat32Plain(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(float16Bits(binary.LittleEndian.Uint16(src[2*i:])))
	}
}

// float16Bits returns the float32 bits of a half-precision number's.
func float16Bits(h uint16) uint32 {
	sign, exponent, fraction := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch {
	case exponent == 31 && fraction != 0:
		return sign | 0x7fc00000 | fraction<<13
	case exponent == 31:
		return sign | 0x7f800000
	case exponent == 0: // zero or subnormal: fraction · 2⁻²⁴ is exact
		return sign | math.Float32bits(float32(fraction)*(1.0/(1<<24)))
	}
	return sign | (exponent+127-15)<<23 | fraction<<13
}

func bfloat16ToFloat32Plain(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}
