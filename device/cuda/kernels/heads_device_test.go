package kernels_test

import (
	"slices"
	"testing"

	"diskgnn/device/cuda/kernels"
	"diskgnn/device/cuda/kernels/plain"
)

func TestHeadsOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, width, rows int) {
		heads := 1 + r.IntN(9)
		if width > 200 {
			heads = 1 + r.IntN(3)
		}
		b := r.block(rows, rows+20, 5)
		count, edges := most(g, rows), len(b.indices)
		x, weights := r.floats(b.columns*width), r.floats(edges*heads)
		indptr := put(g, append(b.indptr, make([]uint32, count.Most-rows)...))
		indices := put(g, append(b.indices, 0))
		on, w := put(g, x), put(g, weights)

		sum := kernels.AggregateHeads{Out: g.empty(4 * count.Most * heads * width), X: on, Width: width, Heads: heads, Weights: w,
			Indptr: indptr, Indices: indices, Edges: edges, Rows: count}
		check(g, sum.Launch(g.Stream))
		want := nans(count.Most * heads * width)
		plain.AggregateHeads(want, x, width, heads, weights, b.indptr, b.indices, rows)
		same(g, "aggregate heads", get[float32](g, sum.Out), want)

		y := r.floats(count.Most * heads * width)
		dots := kernels.EdgeDots{Out: g.empty(4 * edges * heads), X: on, Y: put(g, y), Width: width, Heads: heads,
			Indptr: indptr, Indices: indices, Edges: edges, Rows: count}
		check(g, dots.Launch(g.Stream))
		want = nans(edges * heads)
		plain.EdgeDots(want, x, y, width, heads, b.indptr, b.indices, rows)
		same(g, "edge dots", get[float32](g, dots.Out), want)

		sources := most(g, b.columns)
		back := kernels.CombineHeads{Out: g.empty(4 * sources.Most * width), Y: dots.Y, Width: width, Heads: heads, Weights: w,
			Indptr: put(g, append(b.tindptr, make([]uint32, sources.Most-b.columns)...)), Indices: put(g, append(b.tindices, 0)),
			Edges: put(g, append(b.tedges, 0)), Entries: edges, Rows: sources}
		check(g, back.Launch(g.Stream))
		want = nans(sources.Most * width)
		plain.CombineHeads(want, y, width, heads, weights, b.tindptr, b.tindices, b.tedges, b.columns)
		same(g, "combine heads", get[float32](g, back.Out), want)
	})
}

func TestMaximumOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, width, rows int) {
		b := r.block(rows, rows+20, 5)
		x := r.floats(b.columns * width)
		for i := range x {
			if r.IntN(3) == 0 {
				x[i] = 1 // equals
			}
		}
		for _, add := range []bool{false, true} {
			g.reset()
			count, stride := most(g, rows), width+4*r.IntN(2)
			a := kernels.Maximum{Out: g.empty(4 * count.Most * stride), Stride: stride, Chosen: g.empty(4 * count.Most * width), X: put(g, x), Width: width,
				Indptr: put(g, append(b.indptr, make([]uint32, count.Most-rows)...)), Indices: put(g, append(b.indices, 0)), Edges: len(b.indices), Rows: count}
			check(g, a.Launch(g.Stream))
			want, chosen := nans(count.Most*stride), make([]uint32, count.Most*width)
			for i := range chosen {
				chosen[i] = 1<<32 - 1
			}
			plain.Maximum(want, stride, chosen, x, width, b.indptr, b.indices, rows)
			same(g, "maximum", get[float32](g, a.Out), want)
			if got := get[uint32](g, a.Chosen); !slices.Equal(got, chosen) {
				g.Fatalf("chosen: %v, want %v", got, chosen)
			}

			sources := most(g, b.columns)
			grads, out := r.floats(count.Most*width), r.floats(sources.Most*width)
			back := kernels.MaximumBackward{Out: put(g, out), G: put(g, grads), Chosen: a.Chosen, Width: width, Add: add,
				Indptr: put(g, append(b.tindptr, make([]uint32, sources.Most-b.columns)...)), Indices: put(g, append(b.tindices, 0)),
				Edges: len(b.tindices), Rows: sources}
			check(g, back.Launch(g.Stream))
			plain.MaximumBackward(out, grads, chosen, width, b.tindptr, b.tindices, add, b.columns)
			same(g, "maximum backward", get[float32](g, back.Out), out)
		}
	})
}
