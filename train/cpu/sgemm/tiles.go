package sgemm

// kernel multiplies a tile: c = alpha·a·b + beta·c, where c is not read if beta is zero.
// It takes k terms; rows of a are next bytes apart, elements of a row step, rows of b stepB,
// rows of c nextC. Of a masked kernel's last vector, the first last columns are read and
// written.
type kernel func(k int, a *float32, next, step int, b *float32, stepB int, c *float32, nextC int, alpha, beta float32, last int)

// tiles are the kernels of tiles of this height: with two whole vectors, with two of which the
// second is masked, and with a masked one.
type tiles struct {
	rows                  int
	whole, masked, narrow kernel
}

type instructions struct {
	name  string
	lanes int     // float32s in a vector
	tiles []tiles // the tallest first

	// copyA copies rows of up to together floats to rows of maxLanes; copyB copies rows of up to a
	// tile's width to rows of that width.
	together     int
	copyA, copyB func(dst, src *float32, next, rows, n int)
}

// run multiplies a tile of at most two vectors, the rest of columns.
func (t *tiles) run(lanes, k int, a *float32, next, step int, b *float32, stepB int, c *float32, nextC int, alpha, beta float32, columns int) {
	f, last := t.whole, lanes
	switch {
	case columns <= lanes:
		f, last = t.narrow, columns
	case columns < 2*lanes:
		f, last = t.masked, columns-lanes
	}
	f(k, a, 4*next, 4*step, b, 4*stepB, c, 4*nextC, alpha, beta, last)
}

// width returns the columns of a tile.
func (in *instructions) width() int { return 2 * in.lanes }

// tallest returns the kernels of the tallest tiles of at most rows rows.
func (in *instructions) tallest(rows int) *tiles {
	for i := range in.tiles {
		if in.tiles[i].rows <= rows {
			return &in.tiles[i]
		}
	}
	panic("sgemm: no rows")
}
