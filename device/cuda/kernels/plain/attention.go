package plain

import "math"

// EdgeSoftmax stores in weights, for every edge and head, the softmax over the edges of the edge's
// destination; see kernels.EdgeSoftmax. rows is the number of destinations. The kernel's results may differ
// in the last bits: its exponential is another function.
func EdgeSoftmax(weights, scores []float32, place []uint32, heads int, slope float32, indptr, indices []uint32, rows int) {
	for i := range rows {
		from, to, own := int(indptr[i]), int(indptr[i+1]), ownScores(scores, place, heads, i)
		for h := range heads {
			top, sum := float32(math.Inf(-1)), float32(0)
			for e := from; e < to; e++ {
				v := scores[int(indices[e])*2*heads+h] + own[h]
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

// EdgeSoftmaxBackward replaces the gradients of weights in grads by gradients of scores, and stores their
// sums by destination in ownGrads; see kernels.EdgeSoftmaxBackward.
func EdgeSoftmaxBackward(grads, ownGrads, weights, scores []float32, place []uint32, heads int, slope float32, indptr, indices []uint32, rows int) {
	for i := range rows {
		from, to, own := int(indptr[i]), int(indptr[i+1]), ownScores(scores, place, heads, i)
		for h := range heads {
			along, sum := float32(0), float32(0)
			for e := from; e < to; e++ {
				along += float32(weights[e*heads+h] * grads[e*heads+h])
			}
			for e := from; e < to; e++ {
				g := weights[e*heads+h] * (grads[e*heads+h] - along)
				if !(scores[int(indices[e])*2*heads+h]+own[h] > 0) {
					g *= slope
				}
				grads[e*heads+h] = g
				sum += g
			}
			ownGrads[i*heads+h] = sum
		}
	}
}

// ownScores returns destination i's parts of the scores.
func ownScores(scores []float32, place []uint32, heads, i int) []float32 {
	if place != nil {
		i = int(place[i])
	}
	return scores[(2*i+1)*heads:][:heads]
}

// SumEdges sums the edges' gradients in values by source into out; see kernels.SumEdges. b.Indices has the
// edges of every source, and b.Place or b.Places the places of the destinations. Rows of out from rows up
// to most become zero.
func SumEdges(out, values, own []float32, heads int, b *Block, rows, most int) {
	clear(out[:most*2*heads])
	for s := range rows {
		row := out[2*s*heads:][:2*heads]
		for h := range heads {
			for _, e := range b.Indices[b.Indptr[s]:b.Indptr[s+1]] {
				row[h] += values[int(e)*heads+h]
			}
		}
		if place, _ := b.own(s); place >= 0 {
			copy(row[heads:], own[place*heads:][:heads])
		}
	}
}
