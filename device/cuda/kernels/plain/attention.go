package plain

import "math"

// scored has the scores of a block's edges: of source s for row i the terms from first(i) on in a row of scores, and
// own(i) of the row, a term for each head.
type scored struct {
	scores []float32
	stride int
	first  func(i int) int
	own    func(i int) []float32
}

// untyped has a source's terms, and then its terms as a destination, in a row of scores.
func untyped(scores []float32, place []uint32, heads int) scored {
	return scored{scores, 2 * heads, func(int) int { return 0 }, func(i int) []float32 { return ownScores(scores, place, heads, i) }}
}

// byRelation has terms for every relation in a row of scores.
func byRelation(scores []float32, columns int, base []uint32, own []float32, heads int) scored {
	return scored{scores, columns, func(i int) int { return int(base[i]) }, func(i int) []float32 { return own[i*heads:][:heads] }}
}

// EdgeSoftmax stores in weights, for every edge and head, the softmax over the edges of the edge's
// destination; see kernels.EdgeSoftmax. rows is the number of destinations. The kernel's results may differ
// in the last bits: its exponential is another function.
func EdgeSoftmax(weights, scores []float32, place []uint32, heads int, slope float32, indptr, indices []uint32, rows int) {
	untyped(scores, place, heads).softmax(weights, heads, slope, indptr, indices, rows)
}

// RelationSoftmax is EdgeSoftmax for a typed block; see kernels.RelationSoftmax.
func RelationSoftmax(weights, scores []float32, columns int, base []uint32, own []float32, heads int, slope float32, indptr, indices []uint32, rows int) {
	byRelation(scores, columns, base, own, heads).softmax(weights, heads, slope, indptr, indices, rows)
}

func (c scored) softmax(weights []float32, heads int, slope float32, indptr, indices []uint32, rows int) {
	for i := range rows {
		from, to, first, own := int(indptr[i]), int(indptr[i+1]), c.first(i), c.own(i)
		for h := range heads {
			top, sum := float32(math.Inf(-1)), float32(0)
			for e := from; e < to; e++ {
				v := c.scores[int(indices[e])*c.stride+first+h] + own[h]
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
	untyped(scores, place, heads).backward(grads, ownGrads, weights, heads, slope, indptr, indices, rows)
}

// RelationSoftmaxBackward is EdgeSoftmaxBackward for a typed block; see kernels.RelationSoftmaxBackward.
func RelationSoftmaxBackward(grads, ownGrads, weights, scores []float32, columns int, base []uint32, own []float32, heads int, slope float32, indptr, indices []uint32, rows int) {
	byRelation(scores, columns, base, own, heads).backward(grads, ownGrads, weights, heads, slope, indptr, indices, rows)
}

func (c scored) backward(grads, ownGrads, weights []float32, heads int, slope float32, indptr, indices []uint32, rows int) {
	for i := range rows {
		from, to, first, own := int(indptr[i]), int(indptr[i+1]), c.first(i), c.own(i)
		for h := range heads {
			along, sum := float32(0), float32(0)
			for e := from; e < to; e++ {
				along += float32(weights[e*heads+h] * grads[e*heads+h])
			}
			for e := from; e < to; e++ {
				g := weights[e*heads+h] * (grads[e*heads+h] - along)
				if !(c.scores[int(indices[e])*c.stride+first+h]+own[h] > 0) {
					g *= slope
				}
				grads[e*heads+h] = g
				sum += g
			}
			ownGrads[i*heads+h] = sum
		}
	}
}

// SumRelationEdges sums the edges' gradients in values by source and relation into out; see
// kernels.SumRelationEdges.
func SumRelationEdges(out []float32, columns int, values []float32, heads int, indptr, edges, owners, base []uint32, rows int) {
	clear(out[:rows*columns])
	for s := range rows {
		for t := indptr[s]; t < indptr[s+1]; t++ {
			for h := range heads {
				out[s*columns+int(base[owners[t]])+h] += values[int(edges[t])*heads+h]
			}
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
