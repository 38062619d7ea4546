package cuda_test

import (
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/plain"
	"diskgnn/internal/dtype"
	"diskgnn/internal/kernel"
)

// table returns random rows of a dtype as packs have them.
func (r random) table(t testing.TB, of dtype.Type, rows, width int) []byte {
	table := make([]byte, rows*of.RowBytes(width))
	values := r.floats(rows * width)
	for i := range rows {
		size := of.RowBytes(width)
		if !kernel.Narrow(table[i*size:][:size], of, values[i*width:][:width], width) {
			t.Fatal("values that are not finite")
		}
	}
	return table
}

var dtypes = []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8}

func TestGatherOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, width, rows int) {
		for _, of := range dtypes {
			g.reset()
			const tableRows = 50
			table, index := r.table(g, of, tableRows, width), r.indices(rows, tableRows)
			count, stride := most(g, rows), width+4*r.IntN(2)
			a := cuda.Gather{Out: g.empty(4 * count.Most * stride), Stride: stride, Table: put(g, table), Type: of, Width: width,
				Index: put(g, append(index, make([]uint32, count.Most-rows)...)), Rows: count}
			check(g, g.Gather(&a))
			want := nans(count.Most * stride)
			plain.Gather(want, stride, table, nil, 0, of, width, index, rows)
			same(g, "gather "+string(of), get[float32](g, a.Out), want)

			// Without an index, all rows in order.
			a.Out, a.Index, a.Rows = g.empty(4*tableRows*stride), cuda.Buffer{}, cuda.Rows(tableRows)
			check(g, g.Gather(&a))
			want = nans(tableRows * stride)
			plain.Gather(want, stride, table, nil, 0, of, width, nil, tableRows)
			same(g, "widen "+string(of), get[float32](g, a.Out), want)
		}
	})
}

// TestGatherFar: a table whose other rows the device reads from pinned host memory.
func TestGatherFar(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, width, rows int) {
		for _, of := range dtypes {
			g.reset()
			const tableRows, near = 50, 20
			table, index := r.table(g, of, tableRows, width), r.indices(rows, tableRows)
			cut := near * of.RowBytes(width)
			p, err := g.NewPinned(int64(len(table) - cut))
			check(g, err)
			copy(p.Bytes(), table[cut:])
			far, err := p.Buffer()
			check(g, err)
			a := cuda.Gather{Out: g.empty(4 * rows * width), Stride: width, Table: put(g, table[:cut]), Far: far, Near: near, Type: of, Width: width,
				Index: put(g, index), Rows: cuda.Rows(rows)}
			check(g, g.Gather(&a))
			want := nans(rows * width)
			plain.Gather(want, width, table, nil, 0, of, width, index, rows)
			same(g, "gather "+string(of), get[float32](g, a.Out), want)
			p.Free()
		}
	})
}

// TestGatherOffAlignment: tables and outputs may begin anywhere.
func TestGatherOffAlignment(t *testing.T) {
	g := newGPU(t, testMemory)
	r := newRandom(1)
	const width, rows = 8, 20
	table := r.floats(rows*width + 1)
	out := g.empty(4 * (rows*width + 1))
	check(g, g.Gather(&cuda.Gather{Out: out.Slice(4, 4*rows*width), Stride: width, Table: put(g, table).Slice(4, 4*rows*width),
		Type: dtype.Float32, Width: width, Rows: cuda.Rows(rows)}))
	same(g, "gather", get[float32](g, out)[1:], table[1:])
}

func TestZeroPaddingOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, width, rows int) {
		count, stride := most(g, rows), width+r.IntN(5)
		x := r.floats(count.Most * stride)
		a := cuda.ZeroPadding{X: put(g, x), Stride: stride, Width: width, Rows: count}
		check(g, g.ZeroPadding(&a))
		plain.ZeroPadding(x, stride, width, rows, count.Most)
		same(g, "padded", get[float32](g, a.X), x)
	})
}

func TestAggregateOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, width, rows int) {
		b := r.block(rows, rows+20, 5)
		x, dst, src, own := r.floats(b.columns*width), r.floats(rows), r.floats(b.columns), r.floats(rows)
		scattered, other := r.indices(rows, b.columns), r.floats(len(x))
		for _, c := range []plain.Block{
			{},
			{Outer: dst},
			{Outer: dst, Inner: src, Own: own, OwnX: x},
			{Outer: dst, Own: own, OwnX: other, Place: scattered, Add: true},
		} {
			g.reset()
			c.Indptr, c.Indices = b.indptr, b.indices
			aggregated(g, r, x, width, &c, rows)
		}
	})
}

// TestAggregateTransposedOnDevice: gradients by destination, summed by source.
func TestAggregateTransposedOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, width, rows int) {
		b := r.block(rows, rows+20, 5)
		x, dst, src, own := r.floats(rows*width), r.floats(rows), r.floats(b.columns), r.floats(rows)
		place, other := make([]uint32, b.columns), r.floats(len(x))
		for i, s := range r.Perm(b.columns)[:rows] {
			place[s] = uint32(i) + 1
		}
		for _, c := range []plain.Block{
			{},
			{Inner: dst, Add: true},
			{Outer: src, Inner: dst, Own: own, OwnX: x, Places: rows},
			{Outer: src, Inner: dst, OwnX: other, Place: place},
		} {
			g.reset()
			c.Indptr, c.Indices, c.Transposed = b.tindptr, b.tindices, true
			aggregated(g, r, x, width, &c, b.columns)
		}
	})
}

// aggregated compares an aggregation on the device with its twin.
func aggregated(g *gpu, r random, x []float32, width int, b *plain.Block, rows int) {
	g.Helper()
	count, stride := most(g, rows), width+4*r.IntN(2)
	more := count.Most - rows
	a := cuda.Aggregate{Stride: stride, X: put(g, append(x, 0)), Width: width, Indptr: put(g, append(b.Indptr, make([]uint32, more)...)),
		Indices: put(g, append(b.Indices, 0)), Edges: len(b.Indices), Transposed: b.Transposed, Add: b.Add, Rows: count,
		Inner: put(g, b.Inner), Own: put(g, b.Own)}
	if b.OwnX != nil {
		a.OwnX = put(g, append(b.OwnX, 0))
	}
	if b.Outer != nil {
		a.Outer = put(g, append(b.Outer, make([]float32, more)...))
	}
	if b.Place != nil {
		a.Place = put(g, append(b.Place, make([]uint32, more)...))
	}
	if b.Places > 0 {
		a.Places = most(g, b.Places)
	}
	want := nans(count.Most * stride)
	if b.Add {
		copy(want, r.floats(len(want)))
	}
	a.Out = put(g, want)
	check(g, g.Aggregate(&a))
	plain.Aggregate(want, stride, x, width, b, rows)
	same(g, "aggregate", get[float32](g, a.Out), want)
}
