package cpu

import (
	"math"

	"diskgnn/internal/kernel"
	"diskgnn/train/prepare"
)

// pullRelational is a convolution over relations. Its accumulators are sums of input rows.
type pullRelational struct {
	*relational
	graph *prepare.Whole
	group int
}

// pull sets the shape of p.
func (o *relational) pull(p *Pull) pulling {
	p.Row, p.Acc, p.Wide, p.Last = o.in, o.in, o.in, true
	if o.net.weights != nil {
		for kind, w := range o.weights {
			if o.kinds.alive[kind] {
				o.weigh.fold(kind, w)
			}
		}
	}
	return &pullRelational{o, p.graph, p.Group}
}

func (o *pullRelational) Map(int, []float32, []float32, uint32, int) {}

func (o *pullRelational) Begin(_ int, acc, _ []float32, _ int, _ *prepare.Lists) { clear(acc) }

func (o *pullRelational) Add(_ int, acc []float32, _ []float64, x []float32, idx []uint32, _ int) {
	kernel.AddRows(acc, x, idx)
}

// sums adds up products, a list after the other and the own rows last.
func (o *pullRelational) sums(worker int, z, acc, x []float32, nodes []uint32, of *prepare.Lists) {
	in, out, into, lists := o.in, o.width, o.kinds.into[of.Kind], len(of.Relations)
	rows, beta := o.net.workerScratch(worker, o.group, in), float32(0)
	multiply := func(at int) {
		o.net.blas.Sgemm(false, false, o.group, out, in, 1, rows, in, o.weights[of.Kind][at*in*out:], out, beta, z, out)
		beta = 1
	}
	for j, r := range of.Relations {
		for i, v := range nodes {
			mean, _ := o.graph.Destination(v + uint32(r-into.lo))
			row, sums := rows[i*in:(i+1)*in], acc[(i*lists+j)*in:]
			for c := range row {
				row[c] = sums[c] * mean
			}
		}
		multiply(r - into.lo)
	}
	if x != nil {
		copy(rows, x[:len(nodes)*in])
		multiply(into.n)
	}
	if beta == 0 {
		clear(z)
	}
}

// pullRelationAttention is attention over each list. Its accumulators, as weigher.parts has them, have sums of input rows.
type pullRelationAttention struct {
	*relationAttention
	group int
}

// pull sets the shape of p.
func (o *relationAttention) pull(p *Pull) pulling {
	p.Row, p.Acc, p.Wide, p.First = o.in, o.accumulatorLen(), o.heads*(o.in+1), true
	if o.net.weights != nil {
		for r := range o.maps {
			o.maps[r].vectorsOf(o.vectorsOf(r), o.in, 1)
		}
	}
	return &pullRelationAttention{o, p.Group}
}

func (o *pullRelationAttention) Map(int, []float32, []float32, uint32, int) {}

// Begin sets the destinations' parts of the scores.
func (o *pullRelationAttention) Begin(_ int, acc, x []float32, n int, of *prepare.Lists) {
	for i := range n {
		for _, r := range of.Relations {
			sums, sum, top, own := o.parts(acc)
			clear(sums)
			clear(sum)
			fill(top, float32(math.Inf(-1)))
			if clear(own); x != nil {
				kernel.DotHeads(own, x[i*o.in:], o.in, onlyRow, o.vectorsOf(r)[o.heads*o.in:], o.heads)
			}
			acc = acc[o.accumulatorLen():]
		}
	}
}

func (o *pullRelationAttention) Add(worker int, acc []float32, wide []float64, x []float32, idx []uint32, relation int) {
	o.addWeighed(o, worker, acc, wide, x, idx, relation)
}

func (o *pullRelationAttention) rowScores(w, x []float32, some []uint32, relation int) {
	kernel.DotHeads(w, x, o.in, some, o.vectorsOf(relation), o.heads)
}

// gatherRows adds each row to the sums themselves; kernel.GatherHeads would add a sum of rows.
func (o *pullRelationAttention) gatherRows(sums, x []float32, some []uint32, w []float32) {
	var of [edgeRun]float32
	for h := range o.heads {
		for i := range some {
			of[i] = w[i*o.heads+h]
		}
		kernel.GatherParts(sums[h*o.in:(h+1)*o.in], x, o.in, o.in, some, of[:len(some)], 1, true)
	}
}

// sums multiplies a fixed number of rows at a time: see PullShape.Group.
func (o *pullRelationAttention) sums(worker int, z, acc, _ []float32, nodes []uint32, of *prepare.Lists) {
	width, step, lists := o.heads*o.in, min(o.group, attendRows), len(of.Relations)
	if lists == 0 {
		clear(z)
	}
	rows := o.net.workerScratch(worker, step, width)
	for from := 0; from < len(nodes); from += step {
		to := min(from+step, len(nodes))
		for j, r := range of.Relations {
			for i := from; i < to; i++ {
				o.weightedMean(rows[(i-from)*width:][:width], acc[(i*lists+j)*o.accumulatorLen():])
			}
			o.maps[r].multiply(rows, step, z[from*o.width:], o.width, j > 0)
		}
	}
}

// weightedMean stores an accumulator's sums, divided by the sum of the weights; zeros if it has none.
func (o *pullRelationAttention) weightedMean(row, acc []float32) {
	sums, sum, _, _ := o.parts(acc)
	for h, s := range sum {
		part := row[h*o.in : (h+1)*o.in]
		if s == 0 {
			clear(part)
			continue
		}
		copy(part, sums[h*o.in:])
		scale(part, 1/s)
	}
}
