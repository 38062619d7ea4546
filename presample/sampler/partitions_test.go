package sampler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler/samplertest"
	"diskgnn/presample/walk"
)

// bufferParams draws an order with a buffer over a graph of so many nodes.
func bufferParams(t *rapid.T, nodes int) mbfile.Params {
	p := mbfile.Params{
		BatchSize: rapid.IntRange(1, 40).Draw(t, "batch"), Fanout: []int{2}, Epochs: 2, Seed: rapid.Uint64().Draw(t, "seed"),
		Order: rapid.SampledFrom([]string{Dispersed, Sequential}).Draw(t, "order"), Partitions: rapid.IntRange(2, min(nodes, 30)).Draw(t, "partitions"),
	}
	p.Buffer = rapid.IntRange(2, p.Partitions).Draw(t, "buffer")
	if p.Order == Dispersed {
		p.Walk = rapid.SampledFrom([]string{walk.Sweep, walk.Beta, walk.Comet}).Draw(t, "walk")
	}
	return p
}

// bufferSeeds returns seeds whose training nodes are the given ones, with two nodes to
// validate and none to test.
func bufferSeeds(p mbfile.Params, nodes int, train []uint32) (*Seeds, error) {
	s := &Seeds{params: p, split: [3]split{
		{nodes: train, labels: make([]int32, len(train))}, {nodes: []uint32{0, 1}, labels: make([]int32, 2)}, {},
	}}
	s.orders.init(len(train), &p)
	var err error
	s.orders.parts, err = partition(p, int64(nodes), train)
	return s, err
}

// TestBufferEpochs: every seed node is in exactly one batch of every epoch; its partition and
// those of all input nodes are in the buffer; the states of an epoch's batches ascend along
// its walk; under sequential there is one. Evaluation batches are of the whole graph. What
// is drawn is samplertest.Within.
func TestBufferEpochs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, fanout := genGraph(t), genFanout(t)
		n := g.NumNodes()
		if n < 2 {
			return
		}
		p := bufferParams(t, n)
		train := rapid.Permutation(identity(make([]uint32, n))).Draw(t, "train")[:rapid.IntRange(1, n).Draw(t, "training nodes")]
		s, err := bufferSeeds(p, n, slices.Clone(train))
		if kept := (len(train)-1)*p.Partitions/n + 1; p.Order == Sequential && kept > p.Buffer {
			if !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--order sequential") {
				t.Fatalf("%d partitions of training nodes: %v", kept, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		of := s.Partitions()
		by := New(g, fanout, Options{Hash: rapid.Bool().Draw(t, "hash")})
		held := make([]bool, p.Partitions)
		for epoch := range 2 {
			var visited []uint32
			before := 0
			for index := range s.Batches(Train) {
				id := ID{Train, epoch, index}
				state := s.State(id, held)
				if state < before || state >= s.orders.parts.states || p.Order == Sequential && state != 0 {
					t.Fatalf("state %d after %d", state, before)
				}
				before = state
				if in := len(slices.DeleteFunc(slices.Clone(held), func(in bool) bool { return !in })); in > p.Buffer {
					t.Fatalf("%d partitions in a buffer of %d", in, p.Buffer)
				}
				b, err := by.Draw(t.Context(), s, id)
				if err != nil {
					t.Fatal(err)
				}
				seeds := b.Input[:len(b.Labels)]
				if len(seeds) < 1 || len(seeds) > p.BatchSize {
					t.Fatalf("a batch of %d seed nodes", len(seeds))
				}
				visited = append(visited, seeds...)
				for _, v := range b.Input {
					if !held[of[v]] {
						t.Fatalf("node %d of partition %d is not in the buffer %v", v, of[v], held)
					}
				}
				key := rng.Key(p.Seed, forDraws, uint64(epoch), uint64(index))
				want := samplertest.Within(g, seeds, fanout, key, func(v uint32) bool { return held[of[v]] })
				want.Labels = b.Labels
				if d := cmp.Diff(want, b, cmpopts.EquateEmpty()); d != "" {
					t.Fatal(d)
				}
			}
			slices.Sort(visited)
			if want := slices.Sorted(slices.Values(train)); !slices.Equal(visited, want) {
				t.Fatalf("epoch %d visits %v, want %v", epoch, visited, want)
			}
		}
		valid := ID{Split: Valid}
		if state := s.State(valid, held); state != -1 {
			t.Fatalf("a validation batch in state %d", state)
		}
		if b, err := by.Draw(t.Context(), s, valid); err != nil {
			t.Fatal(err)
		} else if err := samplertest.Check(g, b, b.Input[:len(b.Labels)], fanout); err != nil {
			t.Fatal(err)
		}
	})
}

// TestWholeBuffer: where the buffer holds the whole graph, batches of equal seed nodes are
// those of any other order.
func TestWholeBuffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, fanout := genGraph(t), genFanout(t)
		n := g.NumNodes()
		if n < 2 {
			return
		}
		p := bufferParams(t, n)
		p.Buffer = p.Partitions
		s, err := bufferSeeds(p, n, identity(make([]uint32, n)))
		if err != nil {
			t.Fatal(err)
		}
		b, err := New(g, fanout, Options{}).Draw(t.Context(), s, ID{Train, 1, 0})
		if err != nil {
			t.Fatal(err)
		}
		want := samplertest.Sample(g, b.Input[:len(b.Labels)], fanout, rng.Key(p.Seed, forDraws, 1, 0))
		want.Labels = b.Labels
		if d := cmp.Diff(want, b, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

// TestBufferShuffles: every epoch has another walk, and visits the seed nodes of a state in
// another order.
func TestBufferShuffles(t *testing.T) {
	p := mbfile.Params{Order: Sequential, Partitions: 4, Buffer: 4, BatchSize: 100, Seed: 6}
	s, err := bufferSeeds(p, 100, identity(make([]uint32, 100)))
	if err != nil {
		t.Fatal(err)
	}
	var one, two Picked
	s.Pick(ID{Train, 0, 0}, &one)
	s.Pick(ID{Train, 1, 0}, &two)
	if slices.Equal(one.Nodes, two.Nodes) || slices.IsSorted(one.Nodes) || slices.IsSorted(two.Nodes) {
		t.Errorf("epochs visit %v and %v", one.Nodes, two.Nodes)
	}
	p.Order, p.Walk, p.Partitions, p.Buffer = Dispersed, walk.Sweep, 50, 10
	if s, err = bufferSeeds(p, 100, identity(make([]uint32, 100))); err != nil {
		t.Fatal(err)
	}
	was, is := make([]bool, 50), make([]bool, 50)
	s.State(ID{Train, 0, 0}, was)
	s.State(ID{Train, 1, 0}, is)
	if slices.Equal(was, is) {
		t.Errorf("two epochs begin with the partitions %v", is)
	}
}

// TestPartition: partitions of ten nodes by hand. Three have 4, 3 and 3; under sequential
// the training nodes 7, 2, 9, 4 and 0 fill partition 0 and one place of partition 1.
func TestPartition(t *testing.T) {
	train := []uint32{7, 2, 9, 4, 0}
	p := mbfile.Params{Order: Dispersed, Walk: walk.Sweep, Partitions: 3, Buffer: 2, BatchSize: 2, Seed: 6}
	sizes := func(of []uint16) []int {
		n := make([]int, 3)
		for _, in := range of {
			n[in]++
		}
		return n
	}
	q, err := partition(p, 10, train)
	if err != nil || !slices.Equal(sizes(q.of), []int{4, 3, 3}) {
		t.Fatal(q, err)
	}
	other := p
	other.Seed++
	if r, err := partition(other, 10, train); err != nil || slices.Equal(r.of, q.of) {
		t.Error("another seed, the same partitions", err)
	}
	p.Order, p.Walk = Sequential, ""
	if q, err = partition(p, 10, train); err != nil || q.kept != 2 || !slices.Equal(sizes(q.of), []int{4, 3, 3}) {
		t.Fatal(q, err)
	}
	for i, v := range train {
		if want := uint16(i / 4); q.of[v] != want {
			t.Errorf("node %d lies in partition %d, want %d", v, q.of[v], want)
		}
	}
	p.Partitions, p.Buffer = 5, 2 // of two nodes each: training nodes in three
	if _, err := partition(p, 10, train); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "all 5 training nodes in the buffer, 3 of 5 partitions, but --buffer is 2") {
		t.Error(err)
	}
	p.Partitions, p.Buffer = 11, 11
	if _, err := partition(p, 10, train); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--partitions 11: the graph has only 10 nodes") {
		t.Error(err)
	}
}

// TestCutStates: batches of up to 4 seed nodes of states with 9, 0, 4 and 1, by hand. Five are
// needed; a sixth goes to the first state, a seventh to the third, as the fourth can have no
// more.
func TestCutStates(t *testing.T) {
	for batches, want := range map[int][]cut{
		5: {{3, 0}, {6, 0}, {9, 0}, {13, 2}, {14, 3}},
		6: {{2, 0}, {4, 0}, {6, 0}, {9, 0}, {13, 2}, {14, 3}},
		7: {{2, 0}, {4, 0}, {6, 0}, {9, 0}, {11, 2}, {13, 2}, {14, 3}},
	} {
		if got := cutStates(nil, []int{9, 0, 4, 1}, 4, batches); !slices.Equal(got, want) {
			t.Errorf("%d batches: %v, want %v", batches, got, want)
		}
	}
}

// TestBatchesAreEnough: however seed nodes fall to states, the batches of an epoch are
// enough, and no more than there are seed nodes.
func TestBatchesAreEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seeds := rapid.SliceOfN(rapid.IntRange(0, 30), 1, 12).Draw(t, "seeds")
		size := rapid.IntRange(1, 12).Draw(t, "batch")
		n := 0
		for _, k := range seeds {
			n += k
		}
		if n == 0 {
			return
		}
		q := &partitions{params: mbfile.Params{BatchSize: size}, train: make([]uint32, n), states: len(seeds)}
		cuts := cutStates(nil, seeds, size, q.batches())
		if len(cuts) != q.batches() || len(cuts) > n {
			t.Fatalf("%d batches of %d", len(cuts), q.batches())
		}
		at := 0
		for _, c := range cuts {
			if got := int(c.end) - at; got < 1 || got > size {
				t.Fatalf("a batch of %d seed nodes of %v", got, seeds)
			}
			seeds[c.state] -= int(c.end) - at
			at = int(c.end)
		}
		for _, left := range seeds {
			if left != 0 {
				t.Fatalf("%v seed nodes are left", seeds)
			}
		}
	})
}

// TestBufferMemory holds visits to what is reckoned with.
func TestBufferMemory(t *testing.T) {
	p := mbfile.Params{Order: Dispersed, Walk: walk.Comet, Partitions: 50, Buffer: 10, BatchSize: 8, Epochs: 3, Fanout: []int{1}}
	s, err := bufferSeeds(p, 1000, identity(make([]uint32, 500)))
	if err != nil {
		t.Fatal(err)
	}
	states := walk.States(walk.Comet, 50, 10)
	held, assignment := walk.Memory(50, states)
	if got, want := s.orders.visitMemory(), 4*500+held+8*int64(s.Batches(Train)); got != want {
		t.Errorf("a visit of %d bytes, want %d", got, want)
	}
	if got, want := s.orders.memory(), 2*1000+4*500+16*int64(states+1)+assignment; got != want {
		t.Errorf("%d bytes beside visits, want %d", got, want)
	}
	if got, want := s.Memory(0)-s.orders.memory(), 2*s.orders.visitMemory()+8*502; got != want {
		t.Errorf("%d bytes of seeds and visits, want %d", got, want)
	}
	for epoch := range 3 {
		s.Pick(ID{Train, epoch, 0}, new(Picked))
		v := s.orders.of[epoch]
		if got := 4*cap(v.order) + 8*len(v.cuts); int64(got)+held > s.orders.visitMemory() {
			t.Errorf("%d bytes are held", got)
		}
	}
	for order, want := range map[string]int64{Dispersed: 2000, Sequential: 4000, Random: 0, Overlap: 0} {
		if got := PartitionMemory(mbfile.Params{Order: order}, 1000); got != want {
			t.Errorf("%s: %d bytes to divide the graph, want %d", order, got, want)
		}
	}
}

// TestBufferLongLists has more neighbours in the buffer, and out of it, than a chunk holds,
// drawn and taken whole.
func TestBufferLongLists(t *testing.T) {
	const n = 5*chunkEdges + 7
	g := &graph.CSC{Indptr: make([]int64, n+1)}
	for v := range uint32(n) {
		if v == 5 || v == 9 {
			for u := range uint32(n) {
				g.Indices = append(g.Indices, (u*7+v)%n)
			}
		}
		g.Indptr[v+1] = int64(len(g.Indices))
	}
	w := within{of: make([]uint16, n), held: []bool{true, false, true}, on: true}
	for v := range w.of {
		w.of[v] = uint16(rng.Join(1, uint64(v)) % 3)
	}
	seeds := []uint32{9, 1, 5}
	for _, fanout := range [][]int{{all, 2 * chunkEdges}, {chunkEdges + 1, all}, {1, chunkEdges}, {all, n}} {
		for name, table := range tables(g) {
			var b graph.Batch
			s := with(g, table, fanout)
			s.within = w
			if err := s.sample(t.Context(), &b, seeds, 3); err != nil {
				t.Fatal(err)
			}
			want := samplertest.Within(g, seeds, fanout, 3, func(v uint32) bool { return w.held[w.of[v]] })
			if d := cmp.Diff(want, &b); d != "" {
				t.Errorf("%s, fanout %v: %.400s", name, fanout, d)
			}
		}
	}
}

// TestTinyBuffer draws all neighbours of 6 and their neighbours in the hand-drawn graph while
// 5 is on disk: 6 ← 4; 6 ← 4 again and 4 ← 3, 6, 7. Degrees are those of the whole graph.
func TestTinyBuffer(t *testing.T) {
	g := tinyGraph(t)
	s := New(g, []int{all, all}, Options{})
	s.within = within{of: []uint16{0, 0, 0, 0, 0, 1, 0, 0}, held: []bool{true, false}, on: true}
	var b graph.Batch
	if err := s.sample(t.Context(), &b, []uint32{6}, 1); err != nil {
		t.Fatal(err)
	}
	want := &graph.Batch{
		Blocks: []graph.Block{
			{NumSrc: 4, NumDst: 2, Indptr: []uint32{0, 1, 4}, Indices: []uint32{1, 2, 0, 3}},
			{NumSrc: 2, NumDst: 1, Indptr: []uint32{0, 1}, Indices: []uint32{1}},
		},
		Input:  []uint32{6, 4, 3, 7},
		Degree: []uint32{2, 4, 4, 0},
	}
	if d := cmp.Diff(want, &b); d != "" {
		t.Error(d)
	}
}

// TestBufferCancelled: a destination with very many edges is given up when the context ends.
func TestBufferCancelled(t *testing.T) {
	g := &graph.CSC{Indptr: []int64{0, 3 * edgesAtOnce, 3 * edgesAtOnce}, Indices: make([]uint32, 3*edgesAtOnce)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := within{of: []uint16{0, 1}, held: []bool{true, false}, on: true}
	if _, err := w.count(ctx, g.Neighbors(0)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	w.left = 0
	w.begin([]int64{3*edgesAtOnce - 1})
	if _, err := w.take(ctx, make([]uint32, 1), g.Neighbors(0)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestBufferedMemory: what is planned covers what is held, and is not far from it.
func TestBufferedMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 3000).Draw(t, "nodes")
		p := bufferParams(t, n)
		train := identity(make([]uint32, rapid.IntRange(1, n).Draw(t, "training nodes")))
		s, err := bufferSeeds(p, n, train)
		if err != nil {
			return // more training nodes than the buffer holds
		}
		facts := dataset.Facts{Nodes: int64(n), Train: int64(len(train)), Valid: 2}
		planned, held := BufferedMemory(&p, facts, 0), s.Memory(0)
		if loads := 4*int64(n) + PartitionMemory(p, int64(n)); planned < held+loads || planned > 3*(held+loads)+2048 {
			t.Fatalf("%d bytes are planned, %d held after loading with %d", planned, held, loads)
		}
	})
}
