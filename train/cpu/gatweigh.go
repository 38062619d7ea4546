package cpu

import (
	"math"

	"diskgnn/internal/kernel"
	"diskgnn/train/model"
)

// attend stores the weighted sums over a fan's sources; zeros if it has none.
func (a *weigher) attend(row []float32, worker int, f fan) {
	switch {
	case len(f.sources) == 0:
		clear(row)
	case a.coefficients != nil:
		a.weigh(worker, f)
		a.sum(row, worker, f)
	case len(f.sources) > longSum:
		a.weighLong(row, worker, f)
	default:
		a.weighOnline(row, worker, f)
	}
}

// sum does the same with the kept coefficients.
func (a *weigher) sum(row []float32, worker int, f fan) {
	switch w := a.coefficients[f.lo:f.hi]; {
	case len(f.sources) == 0:
		clear(row)
	case len(f.sources) > longSum:
		a.sumLong(row, worker, f.sources, w)
	default:
		a.of.gather(row, f.sources, w, false)
	}
}

// weigh computes the scores of a fan's edges, and their softmax.
func (a *weigher) weigh(worker int, f fan) {
	scores, w := a.scores[f.lo:f.hi], a.coefficients[f.lo:f.hi]
	own, top, sum, _ := a.perHead(worker)
	a.of.sourceScores(scores, f.sources, f.relation)
	a.of.ownScores(own, f.self, f.relation)
	fill(top, float32(math.Inf(-1)))
	kernel.LeakyScores(w, scores, own, top, model.LeakySlope)
	subtract(w, top)
	kernel.Exp(w)
	if clear(sum); len(f.sources) > longSum {
		a.addLong(sum, worker, w)
	} else {
		addRows(sum, w)
	}
	for h, v := range sum {
		sum[h] = 1 / v
	}
	multiplyRows(w, sum)
}

// weighOnline sums over a fan's sources without keeping their weights: each run of edges
// is weighed against the largest score so far, and earlier sums are scaled down to it.
func (a *weigher) weighOnline(row []float32, worker int, f fan) {
	sources := f.sources
	own, top, sum, run := a.begins(worker, f)
	for from := 0; from < len(sources); from += edgeRun {
		some := sources[from:min(from+edgeRun, len(sources))]
		w := run[:len(some)*a.heads]
		a.of.sourceScores(w, some, f.relation)
		if from > 0 {
			a.lower(row, w, own, top, sum, nil)
		}
		a.weighRun(row, some, w, own, top, sum, from > 0)
	}
	for h, v := range sum {
		scale(row[h*a.columns:][:a.columns], 1/v)
	}
}

// begins returns the worker's small memory, prepared for the edges of a fan.
func (a *weigher) begins(worker int, f fan) (own, top, sum, run []float32) {
	own, top, sum, run = a.perHead(worker)
	a.of.ownScores(own, f.self, f.relation)
	fill(top, float32(math.Inf(-1)))
	clear(sum)
	return own, top, sum, run
}

// weighRun weighs a run of edges, with the sources' scores in w, against the largest score so far,
// and adds them to the sums.
func (a *weigher) weighRun(row []float32, some []uint32, w, own, top, sum []float32, add bool) {
	kernel.LeakyScores(w, w, own, top, model.LeakySlope)
	subtract(w, top)
	kernel.Exp(w)
	addRows(sum, w)
	a.of.gather(row, some, w, add)
}

// lower raises top to the scores of a run and scales earlier sums down, including the wide sums,
// which are nil except for long ones.
func (a *weigher) lower(row, scores, own, top, sum []float32, wide []float64) {
	for h, was := range top {
		for e := h; e < len(scores); e += a.heads {
			top[h] = max(top[h], leaky(scores[e]+own[h]))
		}
		if f := [1]float32{was - top[h]}; f[0] < 0 {
			kernel.Exp(f[:])
			sum[h] *= f[0]
			scale(row[h*a.columns:][:a.columns], f[0])
			if wide != nil {
				scaleWide(wide[h*a.columns:][:a.columns], f[0])
				scaleWide(wide[len(row)+h:][:1], f[0])
			}
		}
	}
}

func leaky(v float32) float32 {
	if v > 0 {
		return v
	}
	return v * model.LeakySlope
}

// addScores adds to row the gradients of the scores that depend on source s: as a source, and then,
// with all edges together, as their destination.
func (a *attention) addScores(row []float32, s int) {
	e := a.edges
	for t := e.TIndptr[s]; t < e.TIndptr[s+1]; t++ {
		at := int(e.TEdges[t]) * a.heads
		addRows(row[:a.heads], a.scores[at:at+a.heads])
		if f := a.fan(int(e.TIndices[t])); at+a.heads == f.hi {
			addRows(row[a.heads:], a.scores[f.lo:f.hi]) // the edge from the destination to itself
		}
	}
}

// Of these, w has a row for every edge and v a number for every head.

func subtract(w, v []float32) {
	for ; len(w) >= len(v); w = w[len(v):] {
		for h, t := range v {
			w[h] -= t
		}
	}
}

func addRows(v, w []float32) {
	for ; len(w) >= len(v); w = w[len(v):] {
		for h, t := range w[:len(v)] {
			v[h] += t
		}
	}
}

func addProducts(v, w, d []float32) {
	for ; len(w) >= len(v); w, d = w[len(v):], d[len(v):] {
		d := d[:len(v)]
		for h, t := range w[:len(v)] {
			v[h] += float32(t * d[h])
		}
	}
}

func multiplyRows(w, v []float32) {
	for ; len(w) >= len(v); w = w[len(v):] {
		for h, t := range v {
			w[h] *= t
		}
	}
}

func fill(v []float32, value float32) {
	for h := range v {
		v[h] = value
	}
}

func scale(row []float32, f float32) {
	for c := range row {
		row[c] *= f
	}
}

func scaleWide(row []float64, f float32) {
	for c := range row {
		row[c] *= float64(f)
	}
}

// sumLong stores the weighted sums over the sources as sum does, block by block.
func (a *weigher) sumLong(row []float32, worker int, sources []uint32, w []float32) {
	wide := a.net.workerWide(worker, len(row))
	for len(sources) > 0 {
		n := min(sumBlock, len(sources))
		a.of.gather(row, sources[:n], w[:n*a.heads], false)
		addWide(wide, row)
		sources, w = sources[n:], w[n*a.heads:]
	}
	for c, v := range wide {
		row[c] = float32(v)
	}
}

// addLong adds the rows of w to sum as addRows does, block by block.
func (a *weigher) addLong(sum []float32, worker int, w []float32) {
	wide := a.net.workerWide(worker, len(sum))
	for len(w) > 0 {
		block := w[:min(sumBlock*a.heads, len(w))]
		clear(sum)
		addRows(sum, block)
		addWide(wide, sum)
		w = w[len(block):]
	}
	for h, v := range wide {
		sum[h] = float32(v)
	}
}

// weighLong is weighOnline, block by block.
func (a *weigher) weighLong(row []float32, worker int, f fan) {
	sources := f.sources
	own, top, sum, run := a.begins(worker, f)
	wide := a.net.workerWide(worker, len(row)+a.heads) // of the rows, then of the weights
	for len(sources) > 0 {
		block := sources[:min(sumBlock, len(sources))]
		sources = sources[len(block):]
		for from := 0; from < len(block); from += edgeRun {
			some := block[from:min(from+edgeRun, len(block))]
			w := run[:len(some)*a.heads]
			a.of.sourceScores(w, some, f.relation)
			a.lower(row, w, own, top, sum, wide)
			a.weighRun(row, some, w, own, top, sum, from > 0)
		}
		addWide(wide[:len(row)], row)
		addWide(wide[len(row):], sum)
		clear(sum)
	}
	for h, v := range wide[len(row):] {
		for c := h * a.columns; c < (h+1)*a.columns; c++ {
			row[c] = float32(wide[c] / v)
		}
	}
}
