package kernel

import (
	"encoding/binary"
	"math"

	"diskgnn/internal/dtype"
)

// The conversions around products prevent the fusion of products with sums on machines with fused
// multiply-add: a float32(…) rounds.

// Eight columns at a time stay in registers while the neighbours go by.
func gatherSumPlain(dst, x []float32, idx []uint32, w []float32, scale float32, add bool) {
	d, c, f := len(dst), 0, float32(1)
	for ; c+8 <= d; c += 8 {
		var s0, s1, s2, s3, s4, s5, s6, s7 float32
		for _, j := range idx {
			if w != nil {
				f = w[j]
			}
			r := (*[8]float32)(x[int(j)*d+c:])
			s0, s1, s2, s3 = s0+float32(f*r[0]), s1+float32(f*r[1]), s2+float32(f*r[2]), s3+float32(f*r[3])
			s4, s5, s6, s7 = s4+float32(f*r[4]), s5+float32(f*r[5]), s6+float32(f*r[6]), s7+float32(f*r[7])
		}
		sums := [8]float32{s0, s1, s2, s3, s4, s5, s6, s7}
		finish((*[8]float32)(dst[c:])[:], sums[:], scale, add)
	}
	for ; c < d; c++ {
		sum := [1]float32{}
		for _, j := range idx {
			if w != nil {
				f = w[j]
			}
			sum[0] += float32(f * x[int(j)*d+c])
		}
		finish(dst[c:c+1], sum[:], scale, add)
	}
}

func finish(dst, sums []float32, scale float32, add bool) {
	for k, v := range sums {
		v = float32(v * scale)
		if add {
			v += dst[k]
		}
		dst[k] = v
	}
}

func addRowsPlain(dst, x []float32, idx []uint32) {
	d := len(dst)
	for _, j := range idx {
		addPlain(dst, x[int(j)*d:])
	}
}

func addPlain(dst, src []float32) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] += src[i]
	}
}

// biasReLUPlain starts at column from. Dropped units are unpredictable, so it has no branch for them.
func biasReLUPlain(z, bias []float32, from int, drop Dropout, key uint64) {
	bias = bias[:len(z)]
	if drop.threshold == 0 {
		for c := from; c < len(z); c++ {
			z[c] = relu(z[c] + bias[c])
		}
		return
	}
	for c := from; c < len(z); c++ {
		below := (int64(draw(key, uint32(c))) - int64(drop.threshold)) >> 63 // all ones or zeros
		z[c] = math.Float32frombits(math.Float32bits(relu(z[c]+bias[c])*drop.scale) &^ uint32(below))
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

func dotHeadsPlain(dst, x []float32, d int, idx []uint32, v []float32, heads int) {
	for i, j := range idx {
		row := x[int(j)*d:][:d]
		for h := range heads {
			dst[i*heads+h] = dotPlain(row, v[h*d:][:d])
		}
	}
}

func dotPlain(x, v []float32) float32 {
	var s [16]float32
	c := 0
	for ; c+16 <= len(x); c += 16 {
		a, b := (*[16]float32)(x[c:]), (*[16]float32)(v[c:])
		for k := range s {
			s[k] += float32(a[k] * b[k])
		}
	}
	for ; c < len(x); c++ {
		s[c%16] += float32(x[c] * v[c])
	}
	for n := 8; n > 0; n /= 2 {
		for k := range n {
			s[k] += s[k+n]
		}
	}
	return s[0]
}

func gatherHeadsPlain(dst, x []float32, d int, idx []uint32, w []float32, heads int, add bool) {
	for h := range heads {
		for c := range d {
			sum := float32(0)
			for i, j := range idx {
				sum += float32(w[i*heads+h] * x[int(j)*d+c])
			}
			if add {
				sum += dst[h*d+c]
			}
			dst[h*d+c] = sum
		}
	}
}

func combineHeadsPlain(dst, y []float32, idx, edges []uint32, w []float32, heads int) {
	d := len(dst)
	clear(dst)
	for i, j := range idx {
		for h := range heads {
			f, row := w[int(edges[i])*heads+h], y[(int(j)*heads+h)*d:][:d]
			for c, v := range row {
				dst[c] += float32(f * v)
			}
		}
	}
}

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

// float16Bits converts the bits of a half-precision number to the bits of a float32.
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
