package cpu

import (
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// pullAttention is attention over rows of products. An accumulator is
//
//	sums of the heads' parts | sum of the weights, for every head | largest score | destination's part of the scores
//
// It begins with the destination itself, with the weight 1. Every neighbour is weighed against the
// largest score so far, itself included; where that rises, the sums are first scaled down to it. So
// the result does not depend on the runs that the neighbours come in.
type pullAttention struct {
	*attentionProducts
	group int
}

// pull sets the shape of p.
func (a *attentionProducts) pull(p *Pull) pulling {
	p.Row, p.Wide = a.stride, a.heads*(a.part+1)
	p.Acc = p.Wide + 2*a.heads
	p.Maps, p.First, p.Last, p.Loops = true, true, a.residual.size > 0, true
	if a.weights != nil {
		a.extend()
	}
	return pullAttention{a, p.Group}
}

func (a pullAttention) Map(_ int, to, x []float32, _ uint32, _ int) {
	a.net.blas.Sgemm(false, false, a.group, a.stride, a.in, 1, x, a.in, a.extended, a.stride, 0, to, a.stride)
}

// split returns the parts of an accumulator.
func (a pullAttention) split(acc []float32) (sums, sum, top, own []float32) {
	columns, h := a.heads*a.part, a.heads
	return acc[:columns], acc[columns : columns+h], acc[columns+h : columns+2*h], acc[columns+2*h : columns+3*h]
}

func (a pullAttention) Begin(worker int, acc, x []float32, n int) {
	rows := a.products[worker*a.group*a.stride:][:a.group*a.stride]
	a.Map(worker, rows, x, 0, n)
	columns, width := a.heads*a.part, a.heads*(a.part+3)
	for i := range n {
		row := rows[i*a.stride:][:a.stride]
		sums, sum, top, own := a.split(acc[i*width:])
		copy(sums, row)
		fill(sum, 1)
		copy(own, row[columns+a.heads:])
		for h, s := range row[columns : columns+a.heads] {
			top[h] = leaky(s + own[h])
		}
	}
}

func (a pullAttention) Add(worker int, acc []float32, wide []float64, x []float32, idx []uint32) {
	sums, sum, top, own := a.split(acc)
	_, unused, factor, run := a.perHead(worker)
	scores := a.heads * a.part
	for len(idx) > 0 {
		some := idx[:min(edgeRun, len(idx))]
		idx = idx[len(some):]
		w := run[:len(some)*a.heads]
		for i, s := range some {
			copy(w[i*a.heads:(i+1)*a.heads], x[int(s)*a.stride+scores:])
		}
		kernel.LeakyScores(w, w, own, unused, model.LeakySlope)
		from := 0
		for i := range some {
			if above(w[i*a.heads:(i+1)*a.heads], top) {
				a.weighSome(sums, sum, top, x, some[from:i], w[from*a.heads:i*a.heads])
				a.rise(sums, sum, top, factor, w[i*a.heads:(i+1)*a.heads], wide)
				from = i
			}
		}
		a.weighSome(sums, sum, top, x, some[from:], w[from*a.heads:])
	}
}

// above reports whether one of the scores is above its head's largest so far.
func above(scores, top []float32) bool {
	for h, s := range scores {
		if s > top[h] {
			return true
		}
	}
	return false
}

// weighSome adds neighbours with scores up to the largest so far.
func (a pullAttention) weighSome(sums, sum, top, x []float32, some []uint32, w []float32) {
	subtract(w, top)
	kernel.Exp(w)
	addRows(sum, w)
	kernel.GatherParts(sums, x, a.part, a.stride, some, w, a.heads, true)
}

// rise raises top to the scores, and scales the sums down.
func (a pullAttention) rise(sums, sum, top, factor, scores []float32, wide []float64) {
	for h, s := range scores {
		factor[h] = top[h] - max(top[h], s)
		top[h] = max(top[h], s)
	}
	kernel.Exp(factor)
	for h, f := range factor {
		if f == 1 {
			continue
		}
		sum[h] *= f
		scale(sums[h*a.part:(h+1)*a.part], f)
		if wide != nil {
			scaleWide(wide[h*a.part:(h+1)*a.part], f)
			scaleWide(wide[a.heads*a.part+h:][:1], f)
		}
	}
}

func (a pullAttention) sums(worker int, z, acc, x []float32, nodes []uint32) {
	width := a.heads * (a.part + 3)
	for i := range nodes {
		row := z[i*a.width : (i+1)*a.width]
		parts, sum, _, _ := a.split(acc[i*width:])
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
