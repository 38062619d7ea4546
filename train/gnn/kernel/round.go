package kernel

import (
	"encoding/binary"
	"math"
)

// Float32ToFloat16 rounds len(src) numbers to half precision, to nearest, ties to
// even, and stores them little-endian. From 65520 on they become infinite, below
// 2⁻²⁵ zero; NaN stays NaN. It is used once per row, when a pack is written, and
// exists in plain Go only.
func Float32ToFloat16(dst []byte, src []float32) {
	for i, f := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], float16(f))
	}
}

// Float32ToBFloat16 rounds len(src) numbers to bfloat16, to nearest, ties to even,
// and stores them little-endian. NaN stays NaN.
func Float32ToBFloat16(dst []byte, src []float32) {
	for i, f := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], bfloat16(f))
	}
}

func float16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign, magnitude := uint16(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case magnitude > 0x7f800000: // NaN: quiet, with the upper bits of its payload
		return sign | 0x7e00 | uint16(magnitude>>13&0x3ff)
	case magnitude >= 0x477ff000: // 65520, halfway between the largest number and 2¹⁶
		return sign | 0x7c00
	case magnitude < 0x38800000: // subnormal or zero: adding ½ leaves multiples of 2⁻²⁴
		return sign | uint16(math.Float32bits(math.Float32frombits(magnitude)+0.5)-0x3f000000)
	}
	magnitude -= (127 - 15) << 23
	return sign | uint16((magnitude+0xfff+magnitude>>13&1)>>13)
}

func bfloat16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
