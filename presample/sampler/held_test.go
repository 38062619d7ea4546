package sampler

import (
	"runtime"
	"slices"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
)

// manySeeds are 1000 training nodes, 10 and 20 to evaluate with, of three bytes of classes.
func manySeeds(epochs int, order string) *Seeds {
	part := func(n int) split {
		return split{nodes: identity(make([]uint32, n)), labels: make([]int32, n), targets: make([]byte, 3*n), row: 3}
	}
	p := mbfile.Params{BatchSize: 100, Fanout: []int{1}, Epochs: epochs, Order: order}
	s := &Seeds{params: p, split: [3]split{part(1000), part(10), part(20)}}
	s.orders.init(1000, &p)
	if s.orders.mixed {
		s.orders.local, s.orders.scratch = identity(make([]uint32, 1000)), make([]uint32, 1000)
	}
	return s
}

// TestSeedsMemory compares what is reckoned with, by hand, with what is held while batches
// are under way.
func TestSeedsMemory(t *testing.T) {
	const nodes = (4 + 4 + 3) * (1000 + 10 + 20)
	for _, c := range []struct {
		epochs, underWay int
		order            string
		want             int64
	}{
		{5, 25, "", 4*4*1000 + nodes}, // two epochs' batches lie within three or four
		{2, 25, "", 3*4*1000 + nodes}, // no more than there are, and one to be used again
		{5, 4, "", 2*4*1000 + nodes},
		// The order of locality, a copy of it, and the runs: 64 of the one group.
		{5, 25, Overlap, 4*4*1000 + nodes + 4*(2*1000+64)},
	} {
		s := manySeeds(c.epochs, c.order)
		if got := s.Memory(c.underWay); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
		most := 0
		for i := range c.epochs * s.Batches(Train) {
			for k := max(i-c.underWay+1, 0); k <= i; k++ { // the slowest worker is this far behind
				s.Pick(s.Nth(k), new(Picked))
			}
			held := 0
			for _, v := range s.orders.of {
				held += 4 * len(v.order)
			}
			for _, v := range s.orders.free {
				held += 4 * len(v.order)
			}
			most = max(most, held)
			s.Forget(s.Nth(max(i-c.underWay+1, 0)).Epoch)
		}
		held := most + 4*len(s.orders.local) + 4*len(s.orders.scratch)
		for _, p := range s.split {
			held += 4*len(p.nodes) + 4*len(p.labels) + len(p.targets)
		}
		if int64(held) > c.want {
			t.Errorf("%+v: %d bytes are held", c, held)
		}
	}
}

// TestLocalityMemory compares the formula with what the search takes from Go's heap.
func TestLocalityMemory(t *testing.T) {
	if got := localityMemory(10, 3); got != 2*4*10+(16+4)*3 {
		t.Errorf("%d bytes", got)
	}
	const n = 40960
	topology := topologyOf(t, t.TempDir(), datasettest.Params{Nodes: n, AvgDegree: 2, Seed: 1}.Raw())
	nodes := identity(make([]uint32, n))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := locality(t.Context(), topology, nodes, 1, 1); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	// Beside it are the goroutines of each round.
	if got, said := int64(after.TotalAlloc-before.TotalAlloc), localityMemory(n, n); got < said || got > said+n/2 {
		t.Errorf("%d bytes were taken, %d reckoned with", got, said)
	}
}

// TestTableSizes: a hash table of a batch is the smallest power of two of twice its nodes,
// and grows beside the old one.
func TestTableSizes(t *testing.T) {
	for _, c := range []struct{ nodes, entries int64 }{{0, 1 << 10}, {511, 1 << 10}, {512, 1 << 11}, {3000, 1 << 13}, {1 << 20, 1 << 22}} {
		if got := int64(newHashTable(c.nodes, false).places()); got != c.entries {
			t.Errorf("%d nodes: %d entries, want %d", c.nodes, got, c.entries)
		}
		if got := hashTableBytes(c.nodes); got != 8*c.entries {
			t.Errorf("%d nodes: %d bytes, want %d", c.nodes, got, 8*c.entries)
		}
		if got := newArrayTable(1, false).memory(c.nodes); got != 4 {
			t.Errorf("an array of one node: %d bytes", got)
		}
		if got := newHashTable(0, false).memory(c.nodes); got != 8*c.entries+4*c.entries {
			t.Errorf("%d nodes: %d bytes while it grows, want %d", c.nodes, got, 12*c.entries)
		}
	}
	g := &graph.CSC{Indptr: make([]int64, 21)}
	if got := len(New(g, []int{2}, Options{Hash: true}).table.(*hashTable).entry) / 2; got != 1<<10 {
		t.Errorf("a table begins with %d places", got)
	}
	if got := len(New(g, []int{2}, Options{}).table.(*arrayTable).entry); got != g.NumNodes() {
		t.Errorf("an array of %d entries", got)
	}
}

// TestBeginCostsNothing: a table is emptied by numbers, not by writing to its entries,
// until numbers run out.
func TestBeginCostsNothing(t *testing.T) {
	array, hash := newArrayTable(10, false), newHashTable(10, false)
	for name, c := range map[string]struct {
		table
		base *uint32
	}{"array": {array, &array.base}, "hash": {hash, &hash.base}} {
		for batch := range uint32(5) {
			c.begin()
			if want := 1 + 3*batch; *c.base != want {
				t.Errorf("%s: batch %d counts from %d, want %d", name, batch, *c.base, want)
			}
			c.number(make([]uint32, 3), []uint32{7, 8, 9}, make([]uint32, 4), 0)
		}
	}
}

// TestLocalityIsItsDefinition compares the order with one that sorts by community, by the
// least hash two hops around, by the least hash around, and by position.
func TestLocalityIsItsDefinition(t *testing.T) {
	topology := topologyOf(t, t.TempDir(), datasettest.Params{Nodes: 500, AvgDegree: 6, Seed: 2}.Raw())
	const key = 77
	hashes := rng.Join(key, 1)
	one := make([]uint32, 500)
	around := func(v uint32, of func(u uint32) uint32) uint32 {
		least := of(v)
		for _, u := range topology.Neighbors(v) {
			least = min(least, of(u))
		}
		return least
	}
	for v := range one {
		one[v] = around(uint32(v), func(u uint32) uint32 { return uint32(rng.Join(hashes, uint64(u)) >> 32) })
	}
	label := communitiesOf(&topology.CSC, rng.Join(key, 0))
	var nodes []uint32
	for v := uint32(499); v > 2; v -= 3 {
		nodes = append(nodes, v)
	}
	want := identity(make([]uint32, len(nodes)))
	slices.SortStableFunc(want, func(a, b uint32) int {
		rank := func(at uint32) []uint32 {
			v := nodes[at]
			return []uint32{label[v], around(v, func(u uint32) uint32 { return one[u] }), one[v]}
		}
		return slices.Compare(rank(a), rank(b))
	})
	for workers := range 3 {
		got, err := locality(t.Context(), topology, nodes, key, workers+1)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d workers: %v\n%v, want\n%v", workers+1, err, got, want)
		}
	}
}
