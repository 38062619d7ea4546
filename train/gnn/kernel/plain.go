package kernel

import (
	"encoding/binary"
	"math"
)

// The conversions around products keep compilers for machines with fused
// multiply-add from fusing: a float32(…) rounds.

func gatherSumPlain(dst, x []float32, idx []uint32, w []float32, scale float32, add bool) {
	var acc [64]float32
	d := len(dst)
	for c := 0; c < d; c += len(acc) {
		out := dst[c:min(c+len(acc), d)]
		sum := acc[:len(out)]
		clear(sum)
		for _, j := range idx {
			row := x[int(j)*d+c:]
			row = row[:len(sum)]
			if w == nil {
				for k := range sum {
					sum[k] += row[k]
				}
				continue
			}
			f := w[j]
			for k := range sum {
				sum[k] += float32(f * row[k])
			}
		}
		if add {
			for k := range out {
				out[k] += float32(sum[k] * scale)
			}
			continue
		}
		for k := range out {
			out[k] = sum[k] * scale
		}
	}
}

func addPlain(dst, src []float32) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] += src[i]
	}
}

func biasReLUPlain(z, bias []float32, drop Dropout, key uint64) {
	bias = bias[:len(z)]
	if drop.threshold == 0 {
		for c := range z {
			z[c] = relu(z[c] + bias[c])
		}
		return
	}
	for c := range z {
		v := relu(z[c] + bias[c])
		if draw(key, uint32(c)) < drop.threshold {
			z[c] = 0
		} else {
			z[c] = v * drop.scale
		}
	}
}

func relu(v float32) float32 {
	if v < 0 {
		return 0
	}
	return v
}

func reluBackwardPlain(g, y, sums []float32, scale float32) {
	y, sums = y[:len(g)], sums[:len(g)]
	for c := range g {
		v := float32(0)
		if y[c] > 0 {
			v = float32(g[c] * scale)
		}
		g[c] = v
		sums[c] += v
	}
}

func adamPlain(w, g, m, v []float32, s *AdamStep) {
	g, m, v = g[:len(w)], m[:len(w)], v[:len(w)]
	for i := range w {
		mi := float32(s.Beta1*m[i]) + float32(s.Alpha1*g[i])
		vi := float32(s.Beta2*v[i]) + float32(float32(s.Alpha2*g[i])*g[i])
		m[i], v[i] = mi, vi
		root := float32(math.Sqrt(float64(vi))) // correctly rounded, as a float32 square root is
		w[i] -= float32(s.Rate*mi) / (float32(root*s.InvRoot) + s.Epsilon)
	}
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
