package cpu

import (
	"diskgnn/internal/kernel"
	"diskgnn/train/prepare"
)

// pullAttention is attention over rows of products. Its accumulator, as weigher.parts has it, begins with the destination
// itself, with the weight 1.
type pullAttention struct {
	*attentionProducts
	group int
}

// pull sets the shape of p.
func (a *attentionProducts) pull(p *Pull) pulling {
	p.Row, p.Wide = a.stride, a.heads*(a.part+1)
	p.Acc = a.accumulatorLen()
	p.Maps, p.First, p.Last, p.Loops = true, true, a.residual.size > 0, true
	if a.weights != nil {
		a.extend()
	}
	return &pullAttention{a, p.Group}
}

func (a *pullAttention) Map(_ int, to, x []float32, _ uint32, _ int) {
	a.net.blas.Sgemm(false, false, a.group, a.stride, a.in, 1, x, a.in, a.extended, a.stride, 0, to, a.stride)
}

func (a *pullAttention) Begin(worker int, acc, x []float32, n int, _ *prepare.Lists) {
	rows := a.products[worker*a.group*a.stride:][:a.group*a.stride]
	a.Map(worker, rows, x, 0, n)
	columns, width := a.heads*a.part, a.accumulatorLen()
	for i := range n {
		row := rows[i*a.stride:][:a.stride]
		sums, sum, top, own := a.parts(acc[i*width:])
		copy(sums, row)
		fill(sum, 1)
		copy(own, row[columns+a.heads:])
		for h, s := range row[columns : columns+a.heads] {
			top[h] = leaky(s + own[h])
		}
	}
}

func (a *pullAttention) Add(worker int, acc []float32, wide []float64, x []float32, idx []uint32, _ int) {
	a.addWeighed(a, worker, acc, wide, x, idx, 0)
}

func (a *pullAttention) rowScores(w, x []float32, some []uint32, _ int) {
	scores := a.heads * a.part
	for i, s := range some {
		copy(w[i*a.heads:(i+1)*a.heads], x[int(s)*a.stride+scores:])
	}
}

func (a *pullAttention) gatherRows(sums, x []float32, some []uint32, w []float32) {
	kernel.GatherParts(sums, x, a.part, a.stride, some, w, a.heads, true)
}

func (a *pullAttention) sums(worker int, z, acc, x []float32, nodes []uint32, _ *prepare.Lists) {
	width := a.accumulatorLen()
	for i := range nodes {
		row := z[i*a.width : (i+1)*a.width]
		parts, sum, _, _ := a.parts(acc[i*width:])
		for h, v := range sum {
			scale(parts[h*a.part:(h+1)*a.part], 1/v)
		}
		if a.mean {
			a.average(row, parts)
		} else {
			copy(row, parts)
		}
	}
	if r := &a.residual; r.size > 0 {
		a.net.blas.Sgemm(false, false, a.group, a.width, a.in, 1, x, a.in, r.weights, a.width, 1, z, a.width)
	}
}
