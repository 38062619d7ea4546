package kernels_test

import (
	"slices"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/device/cuda/kernels/plain"
)

// tileLists are ascending lists of sources below nodes, some of them long, on the host and on a device.
type tileLists struct {
	plain.Lists
	on    kernels.Lists
	nodes int
}

// lists draws lists. Rows have wide sums of width values.
func (r random) lists(g *gpu, rows, nodes, fold, width int) *tileLists {
	l := &tileLists{nodes: nodes, Lists: plain.Lists{Starts: []uint64{0}, From: make([]uint32, rows), To: make([]uint32, rows), Fold: uint32(fold)}}
	for i := range rows {
		n := r.IntN(6)
		if r.IntN(8) == 0 {
			n = r.IntN(5 * fold)
		}
		list := r.indices(n, nodes)
		slices.Sort(list)
		l.Sources = append(l.Sources, list...)
		l.Starts = append(l.Starts, uint64(len(l.Sources)))
		if n > fold {
			l.Long = append(l.Long, uint32(i))
		}
	}
	l.Wide = make([]float64, len(l.Long)*width)
	l.on = kernels.Lists{Starts: put(g, l.Starts), Sources: put(g, append(l.Sources, 0)), From: put(g, l.From), To: put(g, l.To), Fold: uint32(fold),
		Rows: rows, Many: len(l.Long)}
	if len(l.Long) > 0 {
		l.on.Wide, l.on.Long = put(g, l.Wide), put(g, l.Long)
	}
	return l
}

// blocks calls do for each block of nodes, with the lists' parts in it.
func (l *tileLists) blocks(g *gpu, length int, do func(first, n int)) {
	bad := put(g, []uint32{0})
	for first := 0; first < l.nodes; first += length {
		end := min(first+length, l.nodes)
		check(g, kernels.PullSeek{Lists: &l.on, Begin: int64(first), End: int64(end), Bad: bad}.Launch(g.Stream))
		if !plain.PullSeek(&l.Lists, int64(first), int64(end), l.on.Rows) {
			g.Fatal("the lists do not ascend")
		}
		if got := get[uint32](g, l.on.To); !slices.Equal(got, l.To) {
			g.Fatalf("nodes %d to %d: positions %v, want %v", first, end, got, l.To)
		}
		l.First, l.on.First = uint32(first), uint32(first)
		do(first, end-first)
		l.From, l.To = l.To, l.From
		l.on.From, l.on.To = l.on.To, l.on.From
	}
	if get[uint32](g, bad)[0] != 0 {
		g.Fatal("the lists do not ascend on the device")
	}
}

// sameWide compares wide sums.
func (l *tileLists) sameWide(g *gpu) {
	g.Helper()
	if got := get[float64](g, l.on.Wide); len(l.Long) > 0 && !slices.Equal(got, l.Wide) {
		g.Fatalf("wide sums %v, want %v", got, l.Wide)
	}
}

func TestPullOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, width, rows int) {
		if rows > 33 && width > 200 {
			return
		}
		nodes := rows + 20
		x := r.floats(nodes * width)
		for _, largest := range []bool{false, true} {
			stride := width + 4*r.IntN(2)
			l := r.lists(g, rows, nodes, 7, width)
			acc := r.floats(rows * stride)
			p := kernels.Pull{Acc: put(g, acc), Stride: stride, Width: width, Max: largest}
			l.blocks(g, 1+r.IntN(nodes), func(first, n int) {
				block := x[first*width : (first+n)*width]
				p.Lists, p.X = l.on, put(g, block)
				check(g, p.Launch(g.Stream))
				plain.Pull(acc, stride, block, width, largest, &l.Lists, rows)
				same(g, "sums", get[float32](g, p.Acc), acc)
			})
			l.sameWide(g)
			if len(l.Long) == 0 || largest {
				continue
			}
			check(g, kernels.PullUnfold{Acc: p.Acc, Stride: stride, Wide: l.on.Wide, Width: width, Long: l.on.Long, Many: len(l.Long)}.Launch(g.Stream))
			plain.PullUnfold(acc, stride, l.Wide, width, l.Long)
			same(g, "unfolded sums", get[float32](g, p.Acc), acc)
		}
		factors, owns, own, acc := r.floats(rows), r.floats(rows), r.floats(rows*width), r.floats(rows*width)
		for i := range factors {
			if r.IntN(4) == 0 {
				factors[i] = 0
			}
		}
		for _, with := range []bool{false, true} {
			s := kernels.Settle{Out: g.empty(4 * rows * (width + 4)), Stride: width + 4, Acc: put(g, acc), Gap: width, Width: width, Factors: put(g, factors), Rows: rows}
			want, ownRows, ownFactors := nans(rows*(width+4)), []float32(nil), []float32(nil)
			if with {
				s.Own, s.Owns, ownRows, ownFactors = put(g, own), put(g, owns), own, owns
			}
			if rows > 0 {
				check(g, s.Launch(g.Stream))
				plain.Settle(want, width+4, acc, width, width, factors, ownRows, ownFactors, rows)
				same(g, "settle", get[float32](g, s.Out), want)
			}
		}
		scale := kernels.ScaleRows{X: put(g, acc), Width: width, Factors: put(g, factors), Rows: rows}
		check(g, scale.Launch(g.Stream))
		plain.ScaleRows(acc, width, factors, rows)
		same(g, "scaled rows", get[float32](g, scale.X), acc)
		check(g, kernels.FillFloats{X: scale.X, Value: -3, Count: rows * width}.Launch(g.Stream))
		same(g, "filled floats", get[float32](g, scale.X), slices.Repeat([]float32{-3}, rows*width))
	})
}

func TestPullHeadsOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	shapes(g, func(r random, part, rows int) {
		if rows > 33 && part > 47 {
			return
		}
		heads, nodes := 1+r.IntN(4), rows+20
		columns, slope := heads*part, float32(0.2)
		x, acc := r.floats(nodes*(columns+2*heads)), make([]float32, rows*(columns+3*heads))
		begin := kernels.PullBegin{Acc: put(g, acc), Own: put(g, x[:rows*(columns+2*heads)]), Heads: heads, Part: part, Slope: slope, Rows: rows}
		check(g, begin.Launch(g.Stream))
		plain.PullBegin(acc, x, heads, part, slope, rows)
		same(g, "begun", get[float32](g, begin.Acc), acc)
		l := r.lists(g, rows, nodes, 7, columns+heads)
		p := kernels.PullHeads{Acc: begin.Acc, Heads: heads, Part: part, Slope: slope, Base: 3}
		of := func(i int) uint32 { return uint32(i) + 3 }
		if listed := r.indices(rows, nodes); r.IntN(2) == 0 && rows > 0 {
			p.Nodes, of = put(g, listed), func(i int) uint32 { return listed[i] }
		}
		l.blocks(g, 1+r.IntN(nodes), func(first, n int) {
			block := x[first*(columns+2*heads) : (first+n)*(columns+2*heads)]
			p.Lists, p.X = l.on, put(g, block)
			check(g, p.Launch(g.Stream))
			plain.PullHeads(acc, block, heads, part, slope, of, &l.Lists, rows)
			near(g, "sums of heads", get[float32](g, p.Acc), acc, 1e-6)
		})
		for i := range 4 {
			mean, add, width := i%2 == 1, i/2 == 1, columns
			if mean {
				width = part
			}
			want := r.floats(rows * width)
			s := kernels.SettleHeads{Out: put(g, want), Acc: put(g, acc), Heads: heads, Part: part, Mean: mean, Add: add, Rows: rows}
			check(g, s.Launch(g.Stream))
			plain.SettleHeads(want, acc, heads, part, mean, add, rows)
			same(g, "settled heads", get[float32](g, s.Out), want)
		}
		begin.Own = cuda.Buffer{}
		check(g, begin.Launch(g.Stream))
		plain.PullBegin(acc, nil, heads, part, slope, rows)
		same(g, "begun without own rows", get[float32](g, begin.Acc), acc)
	})
}

// Lists that do not ascend are found, and no source outside of the block is taken.
func TestPullSeekByDefinition(t *testing.T) {
	byDefinition(t, func(g *gpu) {
		for _, c := range []struct {
			list       []uint32
			from       uint32
			begin, end int64
			to, bad    uint32
		}{
			{[]uint32{1, 3, 3, 9}, 0, 0, 4, 3, 0},
			{[]uint32{1, 3, 3, 9}, 3, 4, 9, 3, 0},
			{[]uint32{1, 3, 3, 9}, 3, 9, 10, 4, 0},
			{[]uint32{5, 3, 9}, 1, 4, 8, 1, 1},
			{[]uint32{5, 6, 2, 7}, 0, 4, 8, 2, 1},
			{[]uint32{1<<32 - 1}, 0, 1 << 32, 1 << 33, 0, 1},
			{[]uint32{}, 0, 1 << 32, 1 << 33, 0, 0},
		} {
			g.reset()
			l := kernels.Lists{Starts: put(g, []uint64{0, uint64(len(c.list))}), Sources: put(g, append(c.list, 0)), From: put(g, []uint32{c.from}), To: g.empty(4), Rows: 1}
			bad := put(g, []uint32{0})
			check(g, kernels.PullSeek{Lists: &l, Begin: c.begin, End: c.end, Bad: bad}.Launch(g.Stream))
			if to, bad := get[uint32](g, l.To)[0], get[uint32](g, bad)[0]; to != c.to || bad != c.bad {
				t.Errorf("%v from %d on, for %d to %d: up to %d, wrong %d; want %d, %d", c.list, c.from, c.begin, c.end, to, bad, c.to, c.bad)
			}
		}
	})
}
