package feed

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/train/traintest"
)

// TestRanges: the ranges have the ranks below a bound, and end where others follow.
func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.SliceOfN(rapid.Uint32Range(0, 5), 0, 12).Draw(t, "ranks")
		held := rapid.Int64Range(0, 6).Draw(t, "held")
		in := make([]bool, len(ranks)+2) // with a row before and after that is not held
		for _, r := range appendRanges(nil, ranks, held) {
			if r.Rows < 1 || in[r.First] || in[r.First+1] {
				t.Fatalf("%+v is no whole range of %v below %d", r, ranks, held)
			}
			for k := range r.Rows {
				in[1+r.First+k] = true
			}
		}
		for i, rank := range ranks {
			if in[1+i] != (int64(rank) < held) {
				t.Fatalf("row %d of %v below %d: %v", i, ranks, held, in[1+i])
			}
		}
	})
}

// TestBytes: a batch as large as the sizes fills the memory of its slot, and no two arrays overlap.
func TestBytes(t *testing.T) {
	if n := Bytes(&graph.Sizes{}, 3, true); n != 0 {
		t.Errorf("%d bytes without layers", n)
	}
	rapid.Check(t, func(t *rapid.T) {
		sizes, b := graph.Sizes{}, graph.Batch{}
		for range rapid.IntRange(1, 3).Draw(t, "layers") {
			src, edges := rapid.IntRange(1, 40).Draw(t, "sources"), rapid.IntRange(0, 99).Draw(t, "edges")
			dst := rapid.IntRange(1, src).Draw(t, "destinations")
			sizes.Src, sizes.Dst, sizes.Edges = append(sizes.Src, src), append(sizes.Dst, dst), append(sizes.Edges, edges)
			k := graph.Block{NumSrc: src, NumDst: dst, Indptr: make([]uint32, dst+1), Indices: make([]uint32, edges)}
			k.Indptr[dst] = uint32(edges)
			if rapid.Bool().Draw(t, "renumbered") || len(b.Blocks) == 0 {
				k.Dst = make([]uint32, dst)
			}
			b.Blocks = append(b.Blocks, k)
		}
		seeds, width := sizes.Dst[len(sizes.Dst)-1], rapid.IntRange(0, 9).Draw(t, "target bytes")
		b.Input, b.Degree = make([]uint32, sizes.Inputs()), make([]uint32, sizes.Inputs())
		b.Labels, b.Targets = make([]int32, seeds), make([]byte, seeds*width)

		named := rapid.Bool().Draw(t, "named")
		bytes, offset := Bytes(&sizes, width, named), int64(4096)
		s := slot{more: make([]byte, bytes), offset: offset, named: named, message: Batch{Blocks: make([]Block, len(b.Blocks))}}
		for range 2 { // the next batch begins anew
			if named {
				s.input(b.Input)
			}
			if err := s.Prepare(&b); err != nil {
				t.Fatal(err)
			}
		}
		m := &s.message
		type span struct{ at, end int64 }
		spans := []span{{0, offset}, {m.Rank, m.Rank + 8*int64(m.Rows)}, {m.Degree, m.Degree + 8*int64(m.Rows)},
			{m.Labels, m.Labels + 8*int64(m.Seeds)}, {m.Targets, m.Targets + int64(width*m.Seeds)}}
		if named {
			spans = append(spans, span{m.IDs, m.IDs + 8*int64(m.Rows)})
		}
		unused := int64(0) // places of destinations that are not renumbered
		for i, k := range m.Blocks {
			spans = append(spans, span{k.EdgeIndex, k.EdgeIndex + 16*int64(k.Edges)})
			if k.DstPos >= 0 {
				spans = append(spans, span{k.DstPos, k.DstPos + 8*int64(k.Dst)})
			} else {
				var p places
				p.take(8 * sizes.Dst[i])
				unused += p.at
			}
		}
		slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.end, b.end)) })
		for i, s := range spans {
			if i > 0 && s.at < spans[i-1].end || s.at%line != 0 {
				t.Errorf("spans %v", spans)
			}
		}
		if last := spans[len(spans)-1]; m.Arrays[0] != spans[1].at || m.Arrays[1] < last.end || m.Arrays[1] >= last.end+line {
			t.Errorf("all arrays lie between %d, in spans %v", m.Arrays, spans)
		}
		if s.at.at+unused != bytes {
			t.Errorf("%d bytes and %d for destinations, of %d", s.at.at, unused, bytes)
		}
		if err := s.Prepare(&graph.Batch{}); err == nil {
			t.Error("a batch without blocks is prepared")
		}
	})
}

// TestNarrow: rows are rounded in place, but for those that the consumer holds, and a number beyond the type is an error.
func TestNarrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, dim := rapid.IntRange(0, 40).Draw(t, "rows"), rapid.IntRange(1, 40).Draw(t, "dim")
		s := &Server{dim: dim, dtype: rapid.SampledFrom([]dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16}).Draw(t, "type")}
		x, width := make([]float32, rows*dim), s.dtype.RowBytes(dim)
		for i := range x {
			x[i] = rapid.Float32Range(-70000, 70000).Draw(t, "x")
		}
		var held []Range
		for at := 0; at < rows; {
			first := at + rapid.IntRange(0, 9).Draw(t, "gap")
			end := first + rapid.IntRange(1, 9).Draw(t, "held")
			if at = end + 1; end <= rows {
				held = append(held, Range{first, end - first})
			}
		}
		want, finite := make([]byte, rows*width), true
		dtype.Convert(want, s.dtype, binio.Bytes(x), dtype.Float32)
		has := make([]bool, rows)
		for i := range has {
			has[i] = !slices.ContainsFunc(held, func(r Range) bool { return i >= r.First && i < r.First+r.Rows })
			for _, v := range x[i*dim : (i+1)*dim] {
				finite = finite && (!has[i] || s.dtype != dtype.Float16 || max(v, -v) < 65520)
			}
		}
		sl := &slot{matrix: binio.Bytes(slices.Concat(x, make([]float32, 3)))}
		if err := s.narrow(sl, rows, held); (err == nil) != finite || err != nil && !errors.Is(err, fault.ErrUsage) {
			t.Fatalf("finite: %t, %v", finite, err)
		}
		for i := range has {
			if at := i * width; finite && has[i] && string(sl.matrix[at:at+width]) != string(want[at:at+width]) {
				t.Errorf("row %d of %d, held %v", i, rows, held)
			}
		}
	})
}

// rank is the consumers' side of a socket.
type rank struct {
	*net.UnixConn
	in *bufio.Reader
}

// read reads a message.
func (r *rank) read(t *testing.T, m any) {
	t.Helper()
	text, err := r.in.ReadBytes('\n')
	if err := errors.Join(err, json.Unmarshal(text, m)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// serve returns a server of n consumers.
func serve(t *testing.T, n int) (s *Server, ranks []*rank) {
	var feeds []*net.UnixConn
	for range n {
		feed, consumer := traintest.Sockets(t)
		feeds, ranks = append(feeds, feed), append(ranks, &rank{consumer, bufio.NewReader(consumer)})
	}
	s = NewServer(feeds...)
	t.Cleanup(func() {
		for _, r := range ranks {
			_ = r.Close()
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, ranks
}

func (s *Server) slot() *slot {
	sl := &slot{used: make(chan struct{}, len(s.consumers))}
	s.slots = append(s.slots, sl)
	return sl
}

// TestUse: a batch is used when its consumers have said so, or gone, before the batch or after it.
func TestUse(t *testing.T) {
	for _, c := range []struct {
		before, used bool
		want         error
	}{{false, true, nil}, {false, false, ErrGone}, {true, false, ErrGone}} {
		s, ranks := serve(t, 1)
		s.slots = make([]*slot, MostSlots+1)
		if err := s.Greet(Hello{}); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%d slots: %v", len(s.slots), err)
		}
		if c.before {
			_ = ranks[0].Close()
			<-s.Gone().Done()
		}
		done, sl := make(chan error, 1), s.slot()
		go func() {
			err := s.Hand(t.Context(), sl, 5, 7, []int{0})
			if err == nil {
				err = s.Use(t.Context(), sl)
			}
			done <- err
		}()
		if !c.before {
			var b Batch
			if ranks[0].read(t, &b); b.Item != 7 || b.Read != 5 {
				t.Errorf("%+v", b)
			}
			if c.used {
				_, _ = ranks[0].Write([]byte{0})
			} else {
				_ = ranks[0].Close()
			}
		}
		if err := <-done; !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestRanks: batches go to their consumers, each when it has used the one before; a batch of several is used when all
// have used it; the state is told to the consumer that asks; the end of one ends the others' waiting.
func TestRanks(t *testing.T) {
	s, ranks := serve(t, 3)
	s.State = func() ([][]byte, error) { return [][]byte{[]byte("sta"), []byte("te")}, nil }
	a, b, c := s.slot(), s.slot(), s.slot()
	hand := func(sl *slot, item int, to ...int) {
		t.Helper()
		if err := s.Hand(t.Context(), sl, 0, item, to); err != nil {
			t.Fatal(err)
		}
	}
	var m Batch
	hand(a, 0, 0)
	hand(b, 0, 1, 2)
	for _, r := range ranks {
		r.read(t, &m)
	}
	next, used := make(chan error, 1), make(chan error, 1)
	go func() { next <- s.Hand(t.Context(), c, 0, 1, []int{0}) }()
	go func() { used <- errors.Join(s.Use(t.Context(), a), s.Use(t.Context(), b)) }()
	_, _ = ranks[2].Write([]byte("nn")) // the second byte is for no batch
	_, _ = ranks[1].Write([]byte{AskState})
	var state State
	ranks[1].read(t, &state)
	text := make([]byte, state.State)
	if _, err := io.ReadFull(ranks[1].in, text); err != nil || string(text) != "state" {
		t.Errorf("%q, %v", text, err)
	}
	_, _ = ranks[1].Write([]byte{'n'})
	if len(next)+len(used) > 0 {
		t.Error("a batch that is in use was used, or another one given to its consumer")
	}
	_, _ = ranks[0].Write([]byte{'n'})
	if err := errors.Join(<-next, <-used); err != nil {
		t.Error(err)
	}
	if ranks[0].read(t, &m); m.Item != 1 {
		t.Errorf("%+v", m)
	}
	hand(a, 1, 1) // both bytes of rank 2 have counted as one
	go func() { used <- s.Use(t.Context(), c) }()
	_ = ranks[2].Close()
	if err := <-used; !errors.Is(err, ErrGone) || !strings.HasPrefix(err.Error(), "rank 2 of 3: ") {
		t.Error(err)
	}
	if err := s.Hand(t.Context(), b, 0, 2, []int{0}); !errors.Is(err, ErrGone) {
		t.Error(err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	two, _ := serve(t, 2)
	sl := two.slot()
	if err := errors.Join(two.Hand(t.Context(), sl, 0, 0, []int{0}), two.Use(ended, sl)); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	if err := two.Hand(ended, sl, 0, 0, []int{0}); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	if err := s.End(io.ErrClosedPipe); !errors.Is(err, ErrGone) {
		t.Error(err)
	}
	var end End
	for _, r := range ranks[:2] {
		if end = (End{}); r == ranks[1] {
			r.read(t, &m)
		}
		if r.read(t, &end); !end.End || end.Error != io.ErrClosedPipe.Error() {
			t.Errorf("%+v", end)
		}
	}
}
