package beacon

import "diskgnn/simulate/kernel"

// product is a matrix product: M×K by K×N.
type product struct{ m, n, k int64 }

// products returns what training computes of a batch whose hops have so many nodes, with
// vectors of so many numbers, forward and backward, and the multiplications in it. Layer l turns the nodes of all hops but the l
// last into vectors of the next width. Vectors of a node's neighbours are summed before, by
// an array of adders that is not modelled.
func (p *Params) products(hops []int64, vector int) (all []product, macs float64) {
	layers := len(hops) - 1
	width := int64(vector)
	for l := range layers {
		var rows int64
		for _, n := range hops[:layers-l] {
			rows += n
		}
		out := int64(p.Model.Hidden)
		if l == layers-1 {
			out = int64(p.Model.Out)
		}
		all = append(all, product{rows, out, width}, product{width, out, rows})
		if l > 0 {
			all = append(all, product{rows, width, out}) // the features get no gradient
		}
		width = out
	}
	for _, q := range all {
		macs += float64(q.m) * float64(q.n) * float64(q.k)
	}
	return all, macs
}

// compute returns how long an array takes for products: of each S×S part of the result, the
// inner dimension, and filling and draining (2S − 2), in cycles.
func (a *Array) compute(all []product) kernel.Time {
	s := int64(a.Side)
	var cycles int64
	for _, q := range all {
		cycles += ((q.m + s - 1) / s) * ((q.n + s - 1) / s) * (q.k + 2*s - 2)
	}
	return a.Clock.For(cycles)
}
