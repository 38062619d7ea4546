package kernel

// The functions of attention, in which several heads weight the same rows. Arrays with an element for
// every head of an edge or a row are head-minor: the heads of a row lie next to each other.

// DotHeads multiplies rows of x with the vectors of the heads:
//
//	dst[i·heads + h] = x[idx[i]] · v[h]
//
// The rows of x and v are d wide. A dot product is sixteen sums, one for the columns
// of each remainder by sixteen, added by halves.
//
// This function and GatherHeads may use the elements between idx's length and its capacity as a hint of
// the rows that are needed next.
func DotHeads(dst, x []float32, d int, idx []uint32, v []float32, heads int) {
	if len(idx) == 0 {
		return
	}
	dst, v = dst[:len(idx)*heads], v[:heads*d]
	if level == plain {
		dotHeadsPlain(dst, x, d, idx, v, heads)
		return
	}
	dotHeadsSIMD(dst, x, d, idx, v, heads)
}

// GatherHeads sums rows of x, weighted by each head:
//
//	dst[h] = Σ_i w[i·heads + h]·x[idx[i]]        (plus dst[h] if add)
//
// The rows of x and dst are d wide. Terms are added in the order of idx.
func GatherHeads(dst, x []float32, d int, idx []uint32, w []float32, heads int, add bool) {
	dst, w = dst[:heads*d], w[:len(idx)*heads]
	if level == plain {
		gatherHeadsPlain(dst, x, d, idx, w, heads, add)
		return
	}
	gatherHeadsSIMD(dst, x, d, idx, w, heads, add)
}

// CombineHeads sums rows with a part for every head, weighted by edge and head:
//
//	dst = Σ_i Σ_h w[edges[i]·heads + h]·y[idx[i]·heads + h]
//
// The parts, counted by the index of y, are as wide as dst. Terms are added in the
// order of idx, and of the heads.
func CombineHeads(dst, y []float32, idx, edges []uint32, w []float32, heads int) {
	if len(dst) == 0 {
		return
	}
	edges = edges[:len(idx)]
	if level == plain {
		combineHeadsPlain(dst, y, idx, edges, w, heads)
		return
	}
	combineHeadsSIMD(dst, y, idx, edges, w, heads)
}

// Scores of edges, and the weights computed from them, have a row for every edge, and an element for every
// head. A slope is the factor of a leaky ReLU for values that are not positive, at least 0 and less than 1.

// LeakyScores adds own to every row of scores, applies the leaky ReLU, and stores the results in w, which
// may be scores. It raises top to the largest result of each head.
func LeakyScores(w, scores, own, top []float32, slope float32) {
	heads := len(own)
	w, top = w[:len(scores)], top[:heads]
	if level == plain || heads == 0 {
		leakyScoresPlain(w, scores, own, top, slope)
		return
	}
	leakyScoresSIMD(w, scores, own, top, slope)
}

// ScoreGradients replaces scores by their gradients through leaky ReLU and softmax,
//
//	w · (d − total) · slope
//
// where w are the softmax's results, d their gradients and total, for every head, the
// sum of their products. It adds the gradients to own.
func ScoreGradients(scores, w, d, total, own []float32, slope float32) {
	heads := len(total)
	w, d, own = w[:len(scores)], d[:len(scores)], own[:heads]
	if level == plain || heads == 0 {
		scoreGradientsPlain(scores, w, d, total, own, slope)
		return
	}
	scoreGradientsSIMD(scores, w, d, total, own, slope)
}

func leakyScoresPlain(w, scores, own, top []float32, slope float32) {
	heads := len(own)
	for len(scores) >= heads && heads > 0 {
		s, v := scores[:heads], w[:heads]
		for h := range own {
			s[h] += own[h]
			l := s[h]
			if !(l > 0) {
				l *= slope
			}
			if v[h] = l; l > top[h] {
				top[h] = l
			}
		}
		scores, w = scores[heads:], w[heads:]
	}
}

func scoreGradientsPlain(scores, w, d, total, own []float32, slope float32) {
	heads := len(total)
	for len(scores) >= heads && heads > 0 {
		s, w1, d1 := scores[:heads], w[:heads], d[:heads]
		for h, t := range total {
			g := float32(w1[h] * (d1[h] - t))
			if !(s[h] > 0) {
				g = float32(g * slope)
			}
			s[h] = g
			own[h] += g
		}
		scores, w, d = scores[heads:], w[heads:], d[heads:]
	}
}

// In these functions the columns of a row are divided among the heads: each has a part of d columns. The
// parts lie next to each other; the elements after them, up to the stride, are ignored. Weights and
// products are head-minor.

// DotParts multiplies the parts of rows of x with the parts of v:
//
//	dst[i·heads + h] = Σ_c x[idx[i]·stride + h·d + c]·v[h·d + c]
//
// It sums in the order of DotHeads, and uses the same hint.
func DotParts(dst, x []float32, d, stride int, idx []uint32, v []float32, heads int) {
	if len(idx) == 0 {
		return
	}
	dst, v = dst[:len(idx)*heads], v[:heads*d]
	if level == plain {
		dotPartsPlain(dst, x, d, stride, idx, v, heads)
		return
	}
	dotPartsSIMD(dst, x, d, stride, idx, v, heads)
}

// GatherParts sums rows of x, every part weighted by its head:
//
//	dst[h·d + c] = Σ_i w[i·heads + h]·x[idx[i]·stride + h·d + c]
//
// With add the sum is added to dst. Terms are added in the order of idx. It uses the same hint as
// DotHeads.
func GatherParts(dst, x []float32, d, stride int, idx []uint32, w []float32, heads int, add bool) {
	dst, w = dst[:heads*d], w[:len(idx)*heads]
	if !add {
		clear(dst)
	}
	if len(idx) == 0 {
		return
	}
	if level == plain {
		gatherPartsPlain(dst, x, d, stride, idx, w, heads)
		return
	}
	gatherPartsSIMD(dst, x, d, stride, idx, w, heads)
}

func dotPartsPlain(dst, x []float32, d, stride int, idx []uint32, v []float32, heads int) {
	for i, j := range idx {
		for h := range heads {
			dst[i*heads+h] = dotPlain(x[int(j)*stride+h*d:][:d], v[h*d:][:d])
		}
	}
}

func gatherPartsPlain(dst, x []float32, d, stride int, idx []uint32, w []float32, heads int) {
	for i, j := range idx {
		for h := range heads {
			f, row := w[i*heads+h], x[int(j)*stride+h*d:][:d]
			for c, v := range row {
				dst[h*d+c] += float32(f * v)
			}
		}
	}
}
