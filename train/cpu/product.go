package cpu

import "diskgnn/internal/kernel"

// groupedProduct computes c = aᵀ·b, which sums over rows, group by group. needPartial must have
// been called for it.
type groupedProduct struct {
	n       int // columns of b and c: the owner sets them
	net     *network
	c, a, b []float32
	order   []uint32 // where the rows of a lie in it; nil: one after the other
	m       int      // rows of c
	rows    int
	group   int // rows in a group
	tiles   int // of c's rows
}

// run sums over the given rows of a and b, at most most.
func (p *groupedProduct) run(n *network, c, a, b []float32, rows, most int) error {
	p.net, p.c, p.a, p.b, p.rows = n, c, a, b, rows
	p.m = len(c) / p.n
	p.group = groupRows(most, len(c))
	p.tiles = divUp(p.m, weightTile)
	if rows == 0 {
		clear(c)
		return nil
	}
	if err := p.net.each(p.groups()*p.tiles, 1, p); err != nil {
		return err
	}
	return p.net.each(len(c), updateGrain, (*groupSum)(p))
}

func (p *groupedProduct) groups() int { return divUp(p.rows, p.group) }

// chunk computes one tile of rows of one group's product.
func (p *groupedProduct) chunk(worker, task, _ int) {
	g, tile := task/p.tiles, task%p.tiles*weightTile
	width, lo := min(weightTile, p.m-tile), g*p.group
	hi, sum := min(lo+p.group, p.rows), p.net.partial[g*len(p.c)+tile*p.n:]
	if p.order == nil {
		p.net.blas.Sgemm(true, false, width, p.n, hi-lo, 1, p.a[lo*p.m+tile:], p.m, p.b[lo*p.n:], p.n, 0, sum, p.n)
		return
	}
	for from := lo; from < hi; from += chunkRows {
		to, beta := min(from+chunkRows, hi), float32(0)
		if from > lo {
			beta = 1
		}
		rows := p.net.workerScratch(worker, to-from, width)
		gatherColumns(rows, p.m, p.a, p.order[from:to], tile)
		p.net.blas.Sgemm(true, false, width, p.n, to-from, 1, rows, width, p.b[from*p.n:], p.n, beta, sum, p.n)
	}
}

// groupSum adds the groups' products in order, over a range of elements.
type groupSum groupedProduct

func (p *groupSum) chunk(_, lo, hi int) {
	partial, size := p.net.partial, len(p.c)
	copy(p.c[lo:hi], partial[lo:hi])
	for g := 1; g < (*groupedProduct)(p).groups(); g++ {
		kernel.Add(p.c[lo:hi], partial[g*size+lo:g*size+hi])
	}
}

// gatherColumns stores columns of the given rows of x, which have in elements: from the column from
// on, the width of a row of to.
func gatherColumns(to []float32, in int, x []float32, rows []uint32, from int) {
	width := len(to) / len(rows)
	for i, at := range rows {
		copy(to[i*width:(i+1)*width], x[int(at)*in+from:])
	}
}
