package kernel

import "math"

// The conversions around products keep compilers for machines with fused
// multiply-add from fusing: a float32(…) rounds.

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

func addPlain(dst, src []float32) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] += src[i]
	}
}

// biasReLUPlain starts at column from. Which units are dropped cannot be predicted,
// so there is no branch on it.
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
