package kernel

// The functions of attention, where several heads weigh the same rows. What belongs
// to an edge or a row and has a part for every head is head-minor: a row's heads lie
// next to each other.

// DotHeads multiplies rows of x with the vectors of the heads:
//
//	dst[i·heads + h] = x[idx[i]] · v[h]
//
// The rows of x and v are d wide. A dot product is sixteen sums, one for the columns
// of each remainder by sixteen, added by halves.
//
// What lies between idx's length and its capacity may be used as a hint of the rows
// needed next, here and in GatherHeads.
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

// CombineHeads sums rows that have a part for every head, weighted by edge and head:
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
