package plain

import "math"

// CrossEntropy stores in g the gradients of the softmax cross-entropy of rows logits z, and returns the sum
// of the losses and the number of rows that were classified right; see kernels.CrossEntropy. The kernel
// adds the exponentials of a row in another order, in float64.
func CrossEntropy(g, z []float32, classes int, labels []int32, inverse float32, smoothing float64, rows int) (loss float64, right int) {
	for i := range rows {
		z, g := z[i*classes:][:classes], g[i*classes:][:classes]
		y := int(labels[i])
		if y < 0 {
			clear(g)
			continue
		}
		best := 0
		for c, v := range z {
			if v > z[best] {
				best = c
			}
		}
		if best == y {
			right++
		}
		loss += softmax(g, z, z[best], y, smoothing)
		for c := range g {
			g[c] *= inverse
		}
	}
	return loss, right
}

// softmax stores softmax(z) − target and returns −Σ target·log softmax(z).
func softmax(g, z []float32, top float32, y int, smoothing float64) float64 {
	sum, all := 0.0, 0.0
	for c, v := range z {
		e := math.Exp(float64(v - top))
		g[c] = float32(e)
		sum += e
		all += float64(v)
	}
	scale, share := float32(1/sum), float32(smoothing/float64(len(z)))
	for c := range g {
		v := g[c] * scale
		if c == y {
			v -= float32(1 - smoothing)
		}
		g[c] = v - share
	}
	return math.Log(sum) - float64(z[y]-top) + smoothing*(float64(z[y])-all/float64(len(z)))
}

// Binary stores in g the gradients of the binary cross-entropy of rows logits z, and returns the sum of the
// losses and the number of rows with all signs right; see kernels.Binary. The kernel adds the losses of a
// row in another order.
func Binary(g, z []float32, classes int, labels []int32, targets []byte, inverse float32, rows int) (loss float64, right int) {
	stride := (classes + 7) / 8
	for i := range rows {
		z, g := z[i*classes:][:classes], g[i*classes:][:classes]
		if labels[i] < 0 {
			clear(g)
			continue
		}
		good := true
		for c, v := range z {
			x, target := float64(v), targets[i*stride+c/8]>>(c%8)&1 == 1
			e := math.Exp(-math.Abs(x))
			p := 1 / (1 + e)
			if x < 0 {
				p = e / (1 + e)
			}
			loss += max(-x, 0) + math.Log1p(e)
			if target {
				p--
			} else {
				loss += x
			}
			g[c] = float32(p) * inverse
			good = good && target == (v > 0)
		}
		if good {
			right++
		}
	}
	return loss, right
}
