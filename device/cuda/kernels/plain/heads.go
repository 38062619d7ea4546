package plain

import "diskgnn/internal/kernel"

// AggregateHeads stores in out, for every destination and head, the sum of its sources' rows of x, weighted
// by edge and head; see kernels.AggregateHeads.
func AggregateHeads(out, x []float32, width, heads int, weights []float32, indptr, indices []uint32, rows int) {
	for i := range rows {
		from, to := int(indptr[i]), int(indptr[i+1])
		kernel.GatherHeads(out[i*heads*width:][:heads*width], x, width, indices[from:to], weights[from*heads:to*heads], heads, false)
	}
}

// CombineHeads stores in out, for every source, the sum over its edges and over heads of rows of y,
// weighted by edge and head; see kernels.CombineHeads.
func CombineHeads(out, y []float32, width, heads int, weights []float32, indptr, indices, edges []uint32, rows int) {
	for i := range rows {
		from, to := indptr[i], indptr[i+1]
		kernel.CombineHeads(out[i*width:][:width], y, indices[from:to], edges[from:to], weights, heads)
	}
}

// EdgeDots stores in out, for every edge and head, the scalar product of the source's row of x and the
// destination's row of y for the head; see kernels.EdgeDots.
func EdgeDots(out, x, y []float32, width, heads int, indptr, indices []uint32, rows int) {
	for i := range rows {
		for e := indptr[i]; e < indptr[i+1]; e++ {
			row := x[int(indices[e])*width:][:width]
			for h := range heads {
				out[int(e)*heads+h] = dot(row, y[(i*heads+h)*width:][:width])
			}
		}
	}
}

func dot(x, y []float32) float32 {
	var sums [32]float32
	for c, v := range x {
		sums[c/4%32] += float32(v * y[c]) // not fused
	}
	for n := 16; n > 0; n /= 2 {
		for k := range n {
			sums[k] += sums[k+n]
		}
	}
	return sums[0]
}
