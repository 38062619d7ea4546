package plain

import "math"

// EdgeSoftmax weighs edges; see cuda.EdgeSoftmax. The kernel's exponential is another.
func EdgeSoftmax(weights, sources, own []float32, heads int, slope float32, indptr, indices []uint32, rows int) {
	for i := range rows {
		from, to := int(indptr[i]), int(indptr[i+1])
		for h := range heads {
			top, sum := float32(math.Inf(-1)), float32(0)
			for e := from; e < to; e++ {
				v := sources[int(indices[e])*heads+h] + own[i*heads+h]
				if !(v > 0) {
					v *= slope
				}
				weights[e*heads+h] = v
				top = max(top, v)
			}
			for e := from; e < to; e++ {
				v := float32(math.Exp(float64(weights[e*heads+h] - top)))
				weights[e*heads+h] = v
				sum += v
			}
			inverse := 1 / sum
			for e := from; e < to; e++ {
				weights[e*heads+h] *= inverse
			}
		}
	}
}

// EdgeSoftmaxBackward takes gradients of weights to those of scores, in place, and sums
// them by destination; see cuda.EdgeSoftmaxBackward.
func EdgeSoftmaxBackward(grads, ownGrads, weights, sources, own []float32, heads int, slope float32, indptr, indices []uint32, rows int) {
	for i := range rows {
		from, to := int(indptr[i]), int(indptr[i+1])
		for h := range heads {
			along, sum := float32(0), float32(0)
			for e := from; e < to; e++ {
				along += float32(weights[e*heads+h] * grads[e*heads+h])
			}
			for e := from; e < to; e++ {
				g := weights[e*heads+h] * (grads[e*heads+h] - along)
				if !(sources[int(indices[e])*heads+h]+own[i*heads+h] > 0) {
					g *= slope
				}
				grads[e*heads+h] = g
				sum += g
			}
			ownGrads[i*heads+h] = sum
		}
	}
}

// SumEdges sums what belongs to edges into rows; see cuda.SumEdges.
func SumEdges(out, values []float32, heads int, indptr, edges []uint32, rows int) {
	for i := range rows {
		for h := range heads {
			sum := float32(0)
			for _, e := range edges[indptr[i]:indptr[i+1]] {
				sum += values[int(e)*heads+h]
			}
			out[i*heads+h] = sum
		}
	}
}
