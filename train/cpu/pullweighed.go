package cpu

import (
	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// An accumulator of attention is
//
//	sums of rows, for every head | sum of the weights, for every head | largest score | destination's part of the scores
//
// Every neighbour is weighed against the largest score so far, itself included; where that rises, the sums are first
// scaled down to it. So the result does not depend on the runs that the neighbours come in.

// weighedRows are rows that are added with weights.
type weighedRows interface {
	// rowScores stores the rows' parts of their scores.
	rowScores(w, x []float32, some []uint32, relation int)
	// gatherRows adds the rows, weighted by w, to the heads' sums.
	gatherRows(sums, x []float32, some []uint32, w []float32)
}

// accumulatorLen returns the elements of an accumulator.
func (a *weigher) accumulatorLen() int { return a.heads * (a.columns + 3) }

// parts returns the parts of an accumulator.
func (a *weigher) parts(acc []float32) (sums, sum, top, own []float32) {
	columns, h := a.heads*a.columns, a.heads
	return acc[:columns], acc[columns : columns+h], acc[columns+h : columns+2*h], acc[columns+2*h : columns+3*h]
}

// addWeighed adds the rows of x that idx lists to an accumulator: see pulling.
func (a *weigher) addWeighed(rows weighedRows, worker int, acc []float32, wide []float64, x []float32, idx []uint32, relation int) {
	sums, sum, top, own := a.parts(acc)
	_, unused, factor, run := a.perHead(worker)
	for len(idx) > 0 {
		some := idx[:min(edgeRun, len(idx))]
		idx = idx[len(some):]
		w := run[:len(some)*a.heads]
		rows.rowScores(w, x, some, relation)
		kernel.LeakyScores(w, w, own, unused, model.LeakySlope)
		from := 0
		for i := range some {
			if above(w[i*a.heads:(i+1)*a.heads], top) {
				weighSome(rows, sums, sum, top, x, some[from:i], w[from*a.heads:i*a.heads])
				a.rise(sums, sum, top, factor, w[i*a.heads:(i+1)*a.heads], wide)
				from = i
			}
		}
		weighSome(rows, sums, sum, top, x, some[from:], w[from*a.heads:])
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
func weighSome(rows weighedRows, sums, sum, top, x []float32, some []uint32, w []float32) {
	subtract(w, top)
	kernel.Exp(w)
	addRows(sum, w)
	rows.gatherRows(sums, x, some, w)
}

// rise raises top to the scores, and scales the sums down.
func (a *weigher) rise(sums, sum, top, factor, scores []float32, wide []float64) {
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
		scale(sums[h*a.columns:(h+1)*a.columns], f)
		if wide != nil {
			scaleWide(wide[h*a.columns:(h+1)*a.columns], f)
			scaleWide(wide[a.heads*a.columns+h:][:1], f)
		}
	}
}
