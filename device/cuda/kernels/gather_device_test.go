package kernels_test

import (
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/device/cuda/kernels/plain"
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

var dtypes = []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8, dtype.Int4}

func TestGatherOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, width, rows int) {
		for _, of := range dtypes {
			g.reset()
			const tableRows = 50
			table, index := r.table(g, of, tableRows, width), r.indices(rows, tableRows)
			count, stride := most(g, rows), width+4*r.IntN(2)
			a := kernels.Gather{Out: g.empty(4 * count.Most * stride), Stride: stride, Table: put(g, table), Type: of, Width: width,
				Index: put(g, append(index, make([]uint32, count.Most-rows)...)), Rows: count}
			check(g, a.Launch(g.Stream))
			want := nans(count.Most * stride)
			plain.Gather(want, stride, table, nil, 0, of, width, index, rows)
			same(g, "gather "+string(of), get[float32](g, a.Out), want)

			// Without an index, all rows in order.
			a.Out, a.Index, a.Rows = g.empty(4*tableRows*stride), cuda.Buffer{}, kernels.Rows(tableRows)
			check(g, a.Launch(g.Stream))
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
			a := kernels.Gather{Out: g.empty(4 * rows * width), Stride: width, Table: put(g, table[:cut]), Far: far, Near: near, Type: of, Width: width,
				Index: put(g, index), Rows: kernels.Rows(rows)}
			check(g, a.Launch(g.Stream))
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
	check(g, kernels.Gather{Out: out.Slice(4, 4*rows*width), Stride: width, Table: put(g, table).Slice(4, 4*rows*width),
		Type: dtype.Float32, Width: width, Rows: kernels.Rows(rows)}.Launch(g.Stream))
	same(g, "gather", get[float32](g, out)[1:], table[1:])

	// As rows lie behind an odd number of others.
	for _, of := range dtypes {
		packed, x := r.table(g, of, rows, width), g.empty(4*(rows-1)*width)
		first := of.RowBytes(width)
		check(g, kernels.Gather{Out: x, Stride: width, Table: put(g, packed).Slice(int64(first), int64(len(packed)-first)),
			Type: of, Width: width, Rows: kernels.Rows(rows - 1)}.Launch(g.Stream))
		want := nans((rows - 1) * width)
		plain.Gather(want, width, packed[first:], nil, 0, of, width, nil, rows-1)
		same(g, "gather "+string(of), get[float32](g, x), want)
	}
}

func TestZeroPaddingOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, width, rows int) {
		count, stride := most(g, rows), width+r.IntN(5)
		x := r.floats(count.Most * stride)
		a := kernels.ZeroPadding{X: put(g, x), Stride: stride, Width: width, Rows: count}
		check(g, a.Launch(g.Stream))
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
			{Outer: dst, OwnX: x, Place: scattered, Beside: true},
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

// aggregated compares an aggregation on the device with its twin; transposed, also that
// which goes on through a tail. Rows of x and of the own rows are put some way apart.
func aggregated(g *gpu, r random, x []float32, width int, b *plain.Block, rows int) {
	g.Helper()
	count, stride := most(g, rows), width+4*r.IntN(2)
	more := count.Most - rows
	pad := r.IntN(2) == 0
	b.Gap = width + 4*r.IntN(2)
	x, b.OwnX = apart(x, width, b.Gap), apart(b.OwnX, width, b.Gap)
	stored := width // of a row
	if b.Beside {
		stride, stored = 2*width+4*r.IntN(2), 2*width
	}
	a := kernels.Aggregate{Stride: stride, X: put(g, append(x, 0)), Gap: b.Gap, Width: width, Indptr: put(g, append(b.Indptr, make([]uint32, more)...)),
		Indices: put(g, append(b.Indices, 0)), Edges: len(b.Indices), Transposed: b.Transposed, Add: b.Add, Beside: b.Beside, Pad: pad, Rows: count,
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
	check(g, a.Launch(g.Stream))
	plain.Aggregate(want, stride, x, width, b, rows)
	if pad {
		plain.ZeroPadding(want, stride, stored, rows, count.Most)
	}
	same(g, "aggregate", get[float32](g, a.Out), want)
	if b.Transposed && !b.Add {
		scattered(g, r, a, x, b, rows)
	}
}

// apart returns rows with room between them.
func apart(x []float32, width, gap int) []float32 {
	if x == nil || gap == width {
		return x
	}
	y := nans(len(x) / width * gap)
	for i := range len(x) / width {
		copy(y[i*gap:], x[i*width:][:width])
	}
	return y
}

func scattered(g *gpu, r random, a kernels.Aggregate, x []float32, b *plain.Block, rows int) {
	g.Helper()
	most, width := a.Rows.Most, a.Width
	for name, activation := range map[string]kernels.Activation{"relu": kernels.ReLU, "elu": kernels.ELU} {
		for _, rate := range []float64{0, 0.5, kernel.MaxDropout} {
			d := plain.Dropout{Rate: kernel.NewDropout(rate), Stream: kernel.NewStream(r.Uint64(), 0, 3, 1)}
			if r.IntN(2) == 0 {
				d.IDs = r.indices(most, 1<<30)
			}
			y := r.floats(most * width)
			a.Stride, a.Out = width, g.empty(4*most*width)
			s := kernels.Scatter{Aggregate: a, Y: put(g, y), Sums: g.empty(4 * width * kernels.SumRows(most)), DBias: g.empty(4 * width), Activation: activation,
				Dropout: kernels.Dropout{Rate: d.Rate, Stream: put(g, []uint64{uint64(d.Stream)}), IDs: put(g, d.IDs)}}
			check(g, s.Launch(g.Stream))
			want := nans(most * width)
			sums := plain.Scatter(want, x, width, b, y, activation, &d, rows, most)
			same(g, "scatter "+name, get[float32](g, s.Out), want)
			same(g, "scatter "+name+" sums", get[float32](g, s.DBias), sums)
		}
	}
}
