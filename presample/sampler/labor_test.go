package sampler

import (
	cmpstd "cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler/samplertest"
)

// laborSeeds knows so many training batches of one seed node each, and nothing of the nodes.
func laborSeeds(p mbfile.Params, batches int) *Seeds {
	p.Method, p.BatchSize = mbfile.Labor, 1
	return &Seeds{params: p, split: [3]split{Train: {nodes: make([]uint32, batches)}}}
}

// byLabor returns a sampler that draws as a batch is drawn.
func byLabor(s *Sampler, from *Seeds, id ID) *Sampler {
	s.labor = from.labor(id)
	s.chooser.prepare(s.fanout)
	return s
}

// which says to the reference which batch it is.
func which(from *Seeds, id ID) samplertest.Which {
	switch id.Split {
	case Valid:
		return samplertest.Which{Epoch: math.MaxUint64, Index: id.Index}
	case Test:
		return samplertest.Which{Epoch: math.MaxUint64 - 1, Index: id.Index}
	}
	return samplertest.Which{Epoch: uint64(id.Epoch), Index: id.Index, PerEpoch: from.Batches(Train)}
}

// TestTinyLabor pins the lots of the hand-drawn graph's nodes, and has by hand what follows
// from them: the same seed must give the same samples in all versions to come.
func TestTinyLabor(t *testing.T) {
	g := tinyGraph(t)
	for name, c := range map[string]struct {
		dependency int
		order      [2][]uint32 // of the nodes, by their lots in each hop
		want       *graph.Batch
	}{
		// 3 ← 1, 4 of 0, 1, 2, 4, and 4 ← 5, 6 of 3, 5, 6, 7; then 3 ← 1, 4 ← 6, 1 ← 3, 5 ← 4
		// and 6 ← 5.
		"independent": {0, [2][]uint32{{4, 5, 6, 1, 2, 7, 3, 0}, {6, 7, 3, 1, 0, 2, 5, 4}}, &graph.Batch{
			Blocks: []graph.Block{
				{NumSrc: 5, NumDst: 5, Indptr: []uint32{0, 1, 2, 3, 4, 5}, Indices: []uint32{2, 4, 0, 1, 3}},
				{NumSrc: 5, NumDst: 2, Indptr: []uint32{0, 2, 4}, Indices: []uint32{2, 1, 3, 4}},
			},
			Input: []uint32{3, 4, 1, 5, 6}, Degree: []uint32{4, 4, 2, 1, 2},
		}},
		// 3 ← 0, 4 and 4 ← 6, 7; then 3 ← 1, 4 ← 3, 0 ← 1, 6 ← 5 and 7 ← nobody.
		"dependent": {3, [2][]uint32{{7, 0, 6, 4, 2, 1, 3, 5}, {3, 5, 6, 1, 0, 2, 4, 7}}, &graph.Batch{
			Blocks: []graph.Block{
				{NumSrc: 7, NumDst: 5, Indptr: []uint32{0, 1, 2, 3, 4, 4}, Indices: []uint32{5, 0, 5, 6}},
				{NumSrc: 5, NumDst: 2, Indptr: []uint32{0, 2, 4}, Indices: []uint32{2, 1, 3, 4}},
			},
			Input: []uint32{3, 4, 0, 6, 7, 1, 5}, Degree: []uint32{4, 4, 3, 2, 0, 2, 1},
		}},
	} {
		from, id := laborSeeds(mbfile.Params{BatchDependency: c.dependency}, 5), ID{Train, 1, 0}
		l := from.labor(id)
		for hop := range 2 {
			nodes, lot := []uint32{0, 1, 2, 3, 4, 5, 6, 7}, make([]uint64, 8)
			h := l.hop(hop)
			h.lots(lot, nodes)
			slices.SortFunc(nodes, func(a, b uint32) int { return cmpstd.Compare(lot[a], lot[b]) })
			if !slices.Equal(nodes, c.order[hop]) {
				t.Errorf("%s: nodes by their lots in hop %d: %v, want %v", name, hop, nodes, c.order[hop])
			}
		}
		var b graph.Batch
		if err := byLabor(New(g, []int{1, 2}, Options{}), from, id).sample(t.Context(), &b, []uint32{3, 4}, 0); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, &b); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func genLabor(t *rapid.T) mbfile.Params {
	return mbfile.Params{
		Seed:            rapid.Uint64().Draw(t, "seed"),
		BatchDependency: rapid.SampledFrom([]int{0, 0, 2, 3, 16, 1000, mbfile.MaxBatchDependency}).Draw(t, "batch dependency"),
		LayerDependency: rapid.Bool().Draw(t, "layer dependency"),
	}
}

func genID(t *rapid.T, from *Seeds) ID {
	split := rapid.SampledFrom([]Split{Train, Train, Valid, Test}).Draw(t, "split")
	id := ID{Split: split, Index: rapid.IntRange(0, from.Batches(Train)-1).Draw(t, "index")}
	if split == Train {
		id.Epoch = rapid.IntRange(0, 1000).Draw(t, "epoch")
	}
	return id
}

// TestLaborProperties compares with the reference, and checks by themselves the promises
// that the reference might break too.
func TestLaborProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := genGraph(t)
		var b graph.Batch
		samplers := map[string]*Sampler{}
		for name, table := range tables(g) {
			samplers[name] = with(g, table, []int{all, 100, 100, 100})
		}
		for range 2 { // reusing everything
			from := laborSeeds(genLabor(t), rapid.IntRange(1, 40).Draw(t, "batches"))
			fanout, seeds, id := genFanout(t), genSeeds(t, g), genID(t, from)
			want := samplertest.Labor(g, seeds, fanout, samplertest.LotsOf(from.params, which(from, id)))
			for name, s := range samplers {
				byLabor(s, from, id).fanout = fanout
				if err := s.sample(context.Background(), &b, seeds, 0); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, &b, cmpopts.EquateEmpty()); d != "" {
					t.Fatalf("%s: %s", name, d)
				}
				b.Labels = make([]int32, len(seeds))
				if err := samplertest.Check(g, &b, seeds, fanout); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				b.Labels = nil
			}
		}
	})
}

// TestDrawByLabor draws the batches of several epochs in another order, on several goroutines,
// from seeds that were loaded anew: they are equal, those of the plain reference, and cost no
// allocation.
func TestDrawByLabor(t *testing.T) {
	d := datasettest.Create(t, t.TempDir(), datasettest.Params{Nodes: 300, AvgDegree: 6, Seed: 2}.Raw())
	topology, err := d.Topology(t.Context(), progress.Discard, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer topology.Close()
	for _, p := range []mbfile.Params{{}, {Order: Overlap, BatchDependency: 5}, {BatchDependency: 64, LayerDependency: true}} {
		p.BatchSize, p.Fanout, p.Epochs, p.TrainRatio, p.Seed, p.Method = 8, []int{3, 2}, 1, 0.8, 5, mbfile.Labor
		load := func() *Seeds {
			s, err := Load(t.Context(), d, p, progress.Discard)
			if err == nil {
				err = s.Localize(t.Context(), topology, 2, progress.Discard)
			}
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		from, again := load(), load()
		var ids []ID
		for e := range 3 {
			for i := range from.Batches(Train) {
				ids = append(ids, ID{Train, e, i})
			}
		}
		for split := Valid; split <= Test; split++ {
			for i := range from.Batches(split) {
				ids = append(ids, ID{Split: split, Index: i})
			}
		}
		want := map[ID]*graph.Batch{}
		one := New(&topology.CSC, p.Fanout, Options{})
		for _, id := range ids {
			b, err := one.Draw(t.Context(), from, id)
			if err != nil {
				t.Fatal(err)
			}
			var seeds Picked
			from.Pick(id, &seeds)
			plain := samplertest.Labor(&topology.CSC, seeds.Nodes, p.Fanout, samplertest.LotsOf(p, which(from, id)))
			plain.Labels = seeds.Labels
			if d := cmp.Diff(plain, b, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("%+v: %s", id, d)
			}
			want[id] = plain
		}
		if n := testing.AllocsPerRun(20, func() { _, err = one.Draw(t.Context(), from, ids[0]) }); n > 0 || err != nil {
			t.Errorf("%v allocations a batch: %v", n, err)
		}
		var g errgroup.Group
		for w := range 3 {
			g.Go(func() error {
				s := New(&topology.CSC, p.Fanout, Options{Hash: w == 0})
				for k := len(ids) - 1 - w; k >= 0; k -= 3 {
					b, err := s.Draw(t.Context(), again, ids[k])
					if err != nil {
						return err
					}
					if d := cmp.Diff(want[ids[k]], b, cmpopts.EquateEmpty()); d != "" {
						return fmt.Errorf("%+v: %s", ids[k], d)
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		// Samplers may go from one way of drawing to another.
		uniform := p
		uniform.Method = ""
		other, err := Load(t.Context(), d, uniform, progress.Discard)
		if err == nil {
			err = other.Localize(t.Context(), topology, 1, progress.Discard)
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := one.Draw(t.Context(), other, ids[0])
		if err != nil {
			t.Fatal(err)
		}
		var seeds Picked
		key := other.Pick(ids[0], &seeds)
		plain := samplertest.Sample(&topology.CSC, seeds.Nodes, p.Fanout, key)
		plain.Labels = seeds.Labels
		if d := cmp.Diff(plain, b, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("uniform again: %s", d)
		}
	}
}

// choose returns the positions of the edges that a destination takes, the first of which is
// at start, and checks that their sources are what is put out.
func choose(ctx context.Context, c *chooser, pos []int64, sources []uint32, start int64, l *labor) error {
	c.begin(len(pos))
	if err := c.add(ctx, sources, l); err != nil {
		return err
	}
	out := make([]uint32, len(pos))
	c.end(out)
	for i, e := range c.kept {
		if pos[i] = start + int64(e.at); out[i] != sources[e.at] {
			return fmt.Errorf("edge %d comes from node %d, not %d", e.at, sources[e.at], out[i])
		}
	}
	return nil
}

// TestParallelEdges: node 0 has in-neighbours 0, 0, 5, 5, 5, 9. By hand, edges have the lots of the
// keys that the package's comment lists, and the two least are taken, however the list is cut into
// pieces. A destination that shares neighbours 0, 5, 9 has their first lots.
func TestParallelEdges(t *testing.T) {
	list, nth := []uint32{0, 0, 5, 5, 5, 9}, []uint64{0, 1, 0, 1, 2, 0}
	var c chooser
	c.prepare([]int{2})
	seen := map[[2]int64]bool{}
	for seed := range uint64(500) {
		for _, dependency := range []int{0, 2} {
			batch := laborSeeds(mbfile.Params{BatchDependency: dependency, Seed: seed}, 1).labor(ID{Train, 1, 0})
			l := batch.hop(4)
			key := func(words []uint64, i int) uint64 {
				if words = append(words, 4, uint64(list[i])); nth[i] > 0 {
					words = append(words, nth[i])
				}
				return rng.Key(words...)
			}
			lot := make([]uint64, len(list))
			for i := range list {
				if lot[i] = key([]uint64{seed, 5, 1, 0}, i); dependency > 0 { // batch 1 of 2: an eighth of a turn
					a, b := normal(key([]uint64{seed, 6, 0, 0}, i)), normal(key([]uint64{seed, 6, 0, 1}, i))
					lot[i] = uint64(11863283*a+11863283*b) ^ 1<<63
				}
			}
			at := []int64{0, 1, 2, 3, 4, 5}
			slices.SortFunc(at, func(i, j int64) int { return cmpstd.Compare(lot[i], lot[j]) })
			want := [2]int64{min(at[0], at[1]), max(at[0], at[1])}
			for cut := range list {
				c.begin(2)
				if err := errors.Join(c.add(t.Context(), list[:cut], &l), c.add(t.Context(), list[cut:], &l)); err != nil {
					t.Fatal(err)
				}
				c.end(make([]uint32, 2))
				if got := [2]int64{int64(c.kept[0].at), int64(c.kept[1].at)}; got != want {
					t.Fatalf("seed %d, dependency %d, cut at %d: %v, want %v", seed, dependency, cut, got, want)
				}
			}
			seen[want] = true

			l.lots(c.lot, []uint32{0, 5, 9})
			if c.lot[0] != lot[0] || c.lot[1] != lot[2] || c.lot[2] != lot[5] {
				t.Fatalf("seed %d: nodes without parallel edges have other lots", seed)
			}
		}
	}
	if len(seen) != 15 {
		t.Errorf("only %v were there", seen)
	}
}

// TestEqualLots: of nodes with equal lots, those of lower id are taken. A weight of which only
// odd numbers leave anything makes two different lots.
func TestEqualLots(t *testing.T) {
	l := labor{cos: math.MinInt64, on: true}
	var c chooser
	c.prepare([]int{12})
	src := rng.New(0)
	for range 50 {
		nodes, at, lot := make([]uint32, 40), make([]int64, 40), make([]uint64, 40)
		for i := range nodes {
			nodes[i], at[i] = uint32(i%2)+2*src.Uint32n(500), int64(i) // no two beside each other are equal
		}
		l.lots(lot, nodes)
		slices.SortStableFunc(at, func(i, j int64) int {
			return cmpstd.Or(cmpstd.Compare(lot[i], lot[j]), cmpstd.Compare(nodes[i], nodes[j]))
		})
		want := slices.Sorted(slices.Values(at[:12]))
		if distinct := len(slices.Compact(slices.Sorted(slices.Values(lot)))); distinct != 2 {
			t.Fatalf("%d different lots", distinct)
		}
		pos := make([]int64, 12)
		if err := choose(t.Context(), &c, pos, nodes, 0, &l); err != nil || !slices.Equal(pos, want) {
			t.Fatalf("%v, want %v; %v", pos, want, err)
		}
	}
	a, b := edge{3, 9, 0}, edge{3, 4, 1}
	if a.before(b) || !b.before(a) || a.before(a) || !(edge{2, 9, 5}).before(b) || !(edge{3, 4, 0}).before(b) || b.before(edge{3, 4, 0}) {
		t.Error("edges are not taken by lot, node and position")
	}
}

// TestLaborLongLists chooses from more neighbours than are looked at at once.
func TestLaborLongLists(t *testing.T) {
	const n = 3*chunkEdges + 7
	g := &graph.CSC{Indptr: make([]int64, n+1)}
	for v := range uint32(n) {
		if v == 5 || v == 9 {
			for u := range uint32(n) {
				g.Indices = append(g.Indices, (u*7+v)%n)
			}
		}
		g.Indptr[v+1] = int64(len(g.Indices))
	}
	from, id := laborSeeds(mbfile.Params{Seed: 1}, 1), ID{}
	for _, fanout := range [][]int{{all, 2 * chunkEdges}, {chunkEdges + 1, all}, {1, chunkEdges}} {
		for name, table := range tables(g) {
			var b graph.Batch
			if err := byLabor(with(g, table, fanout), from, id).sample(t.Context(), &b, []uint32{9, 1, 5}, 3); err != nil {
				t.Fatal(err)
			}
			lots := samplertest.LotsOf(from.params, which(from, id))
			if d := cmp.Diff(samplertest.Labor(g, []uint32{9, 1, 5}, fanout, lots), &b); d != "" {
				t.Errorf("%s, fanout %v: %.400s", name, fanout, d)
			}
		}
	}
}

func TestLaborStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hub := make([]uint32, edgesAtOnce+1)
	var c chooser
	c.prepare([]int{1})
	if err := choose(ctx, &c, make([]int64, 1), hub, 0, &labor{on: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("in one hub: %v", err)
	}
	// Many destinations of some neighbours each, of which so few are drawn that they fit in
	// one look-up.
	c.left = 0
	if err := choose(t.Context(), &c, make([]int64, 1), hub[:100], 0, &labor{on: true}); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := 0; err == nil && i <= edgesAtOnce/100; i++ {
		err = choose(ctx, &c, make([]int64, 1), hub[:100], 0, &labor{on: true})
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("in many: %v", err)
	}
}

// TestLaborIsUniform counts how often each position is chosen, over batches that do not depend
// on each other; for the smallest case also how often each set is.
func TestLaborIsUniform(t *testing.T) {
	const draws = 10000
	for _, dependency := range []int{0, 2, 7} { // of 2, batches at half of a turn: both parts count alike
		from := laborSeeds(mbfile.Params{BatchDependency: dependency, Seed: 3}, 1)
		at := func(i int) ID { return ID{Train, max(dependency, 1)*2*i + dependency/2, 0} }
		for _, c := range []struct{ n, k int }{{3, 1}, {21, 20}, {64, 10}, {300, 15}} {
			var d chooser
			d.prepare([]int{c.k})
			list := make([]uint32, c.n)
			for i := range list {
				list[i] = uint32(i * 3)
			}
			count, pos := make([]int, c.n), make([]int64, c.k)
			for i := range draws {
				batch := from.labor(at(i))
				l := batch.hop(i % 3)
				if err := choose(t.Context(), &d, pos, list, 0, &l); err != nil {
					t.Fatal(err)
				}
				for _, p := range pos {
					count[p]++
				}
			}
			p := float64(c.k) / float64(c.n)
			chi := 0.0
			for _, got := range count {
				chi += math.Pow(float64(got)-draws*p, 2) / (draws * p * (1 - p)) * float64(c.n-1) / float64(c.n)
			}
			checkChi(t, c.n-1, chi)
		}
		var d chooser
		d.prepare([]int{3})
		sets := map[[3]int64]int{}
		for i := range draws {
			var pos [3]int64
			l := from.labor(at(i))
			if err := choose(t.Context(), &d, pos[:], []uint32{8, 3, 5, 0, 100, 7}, 0, &l); err != nil {
				t.Fatal(err)
			}
			sets[pos]++
		}
		chi := 0.0
		for _, got := range sets {
			chi += math.Pow(float64(got)-draws/20.0, 2) / (draws / 20.0)
		}
		if len(sets) != 20 {
			t.Errorf("%d of 20 sets of three drawn", len(sets))
		}
		checkChi(t, 19, chi)
	}
}

// TestLaborOfParallelEdges: of seven edges, three of them from node 0 and two from node 1, three
// are taken. By hand each edge is taken in 3/7 of the batches, and each of the 35 sets of three in
// one of 35.
func TestLaborOfParallelEdges(t *testing.T) {
	const draws, p = 20000, 3. / 7
	list := []uint32{0, 0, 0, 1, 1, 2, 3}
	for _, dependency := range []int{0, 2, 7} {
		from := laborSeeds(mbfile.Params{BatchDependency: dependency, Seed: 3}, 1)
		var d chooser
		d.prepare([]int{3})
		sets, count := map[[3]int64]int{}, [7]int{}
		for i := range draws {
			batch := from.labor(ID{Train, max(dependency, 1)*2*i + dependency/2, 0})
			l := batch.hop(i % 3)
			var pos [3]int64
			if err := choose(t.Context(), &d, pos[:], list, 0, &l); err != nil {
				t.Fatal(err)
			}
			sets[pos]++
			for _, at := range pos {
				count[at]++
			}
		}
		for at, got := range count {
			if share := float64(got) / draws; math.Abs(share-p) > 4*math.Sqrt(p*(1-p)/draws) {
				t.Errorf("dependency %d: edge %d in %.4f of the batches, want %.4f", dependency, at, share, p)
			}
		}
		chi := 0.0
		for _, got := range sets {
			chi += math.Pow(float64(got)-draws/35., 2) / (draws / 35.)
		}
		if len(sets) != 35 {
			t.Errorf("dependency %d: %d of 35 sets of three drawn", dependency, len(sets))
		}
		checkChi(t, 34, chi)
	}
}

// TestNormal compares the first moments, and the distribution function at some points, with
// the normal distribution's, to six standard errors; the shape differs by less than 0.01.
func TestNormal(t *testing.T) {
	const n = 200_000
	sd := math.Sqrt(16+1./6) * (1 << 32)
	var mean, variance float64
	below := map[float64]float64{-2: 0.02275, -1: 0.15866, 0: 0.5, 1: 0.84134, 2: 0.97725}
	count := map[float64]int{}
	for i := range uint64(n) {
		x := float64(normal(rng.Key(1, i))) / sd
		mean += x / n
		variance += x * x / n
		if math.Abs(x) > 33/math.Sqrt(16+1./6) {
			t.Fatalf("%g", x)
		}
		for z := range below {
			if x < z {
				count[z]++
			}
		}
	}
	if math.Abs(mean) > 6/math.Sqrt(n) || math.Abs(variance-1) > 6*math.Sqrt(2./n) {
		t.Errorf("mean %g, variance %g", mean, variance)
	}
	for z, want := range below {
		if got := float64(count[z]) / n; math.Abs(got-want) > 0.01 {
			t.Errorf("below %g: %g, want %g", z, got, want)
		}
	}
}

// correlation returns that of two batches' lots in their first hop.
func correlation(from *Seeds, a, b ID) float64 {
	const n = 20_000
	nodes := make([]uint32, n)
	for i := range nodes {
		nodes[i] = uint32(i)
	}
	lots := func(id ID) []uint64 {
		l := from.labor(id)
		l = l.hop(0)
		to := make([]uint64, n)
		l.lots(to, nodes)
		return to
	}
	var x, y, xx, yy, xy float64
	as, bs := lots(a), lots(b)
	for i := range as {
		u, v := float64(int64(as[i]^1<<63)), float64(int64(bs[i]^1<<63))
		x, y, xx, yy, xy = x+u/n, y+v/n, xx+u*u/n, yy+v*v/n, xy+u*v/n
	}
	return (xy - x*y) / math.Sqrt((xx-x*x)*(yy-y*y))
}

// TestBatchDependency: the correlation of two batches' lots, in a group of k batches, where a
// group or an epoch ends, in groups that do not follow each other, and in other splits.
func TestBatchDependency(t *testing.T) {
	const k, six = 8, 6.0 / 141 // six standard errors of 20,000 pairs
	from := laborSeeds(mbfile.Params{BatchDependency: k}, 6)
	nth := func(i int) ID { return ID{Train, i / 6, i % 6} }
	for _, i := range []int{0, 3, 5, 7, 12} {
		for d := range k {
			j := i + d
			want := math.Cos(math.Pi / 2 * float64(d) / k)
			if i/k != j/k { // x and the next group's, which has the part B in common
				f, g := float64(i%k)/k, float64(j%k)/k
				want = math.Sin(math.Pi/2*f) * math.Cos(math.Pi/2*g)
			}
			if got := correlation(from, nth(i), nth(j)); math.Abs(got-want) > six {
				t.Errorf("batches %d and %d: correlation %.3f, want %.3f", i, j, got, want)
			}
		}
		if got := correlation(from, nth(i), nth(i+2*k)); math.Abs(got) > six {
			t.Errorf("batches %d and %d: correlation %.3f", i, i+2*k, got)
		}
	}
	for name, id := range map[string]ID{"validation": {Split: Valid}, "test": {Split: Test}} {
		if got := correlation(from, nth(0), id); math.Abs(got) > six {
			t.Errorf("training and %s: correlation %.3f", name, got)
		}
	}
	if got := correlation(from, ID{Split: Valid, Index: 1}, ID{Split: Valid, Index: 3}); math.Abs(got-math.Cos(math.Pi/8)) > six {
		t.Errorf("validation batches 1 and 3: correlation %.3f", got)
	}
}

// TestLayerDependency: hops have the same lots or others.
func TestLayerDependency(t *testing.T) {
	for _, k := range []int{0, 4} {
		for _, same := range []bool{false, true} {
			l := laborSeeds(mbfile.Params{BatchDependency: k, LayerDependency: same}, 9).labor(ID{Train, 0, 7})
			var a, b [3]uint64
			first, second := l.hop(0), l.hop(1)
			first.lots(a[:], []uint32{1, 2, 3})
			second.lots(b[:], []uint32{1, 2, 3})
			if (a == b) != same {
				t.Errorf("batch dependency %d, layer dependency %t: %v and %v", k, same, a, b)
			}
		}
	}
}

// TestLaborNeedsFewerNodes: fewer input nodes than uniform sampling, and with dependencies
// fewer still, in a batch or in several that follow each other.
func TestLaborNeedsFewerNodes(t *testing.T) {
	raw := datasettest.Params{Nodes: 5000, AvgDegree: 25, Seed: 1}.Raw()
	g := &graph.CSC{Indptr: raw.Indptr, Indices: raw.Indices}
	seeds := make([]uint32, 100)
	for i := range seeds {
		seeds[i] = uint32(i * 50)
	}
	const batches = 16
	// draw returns the input nodes of all batches, and how many different ones they are.
	draw := func(p *mbfile.Params) (sum, distinct int) {
		s, seen := New(g, []int{5, 5}, Options{}), map[uint32]bool{}
		for i := range batches {
			if p != nil {
				byLabor(s, laborSeeds(*p, batches), ID{Train, 0, i})
			}
			if err := s.sample(t.Context(), &s.batch, seeds, uint64(i)); err != nil {
				t.Fatal(err)
			}
			sum += len(s.batch.Input)
			for _, v := range s.batch.Input {
				seen[v] = true
			}
		}
		return sum, len(seen)
	}
	uniform, _ := draw(nil)
	labor, distinct := draw(&mbfile.Params{})
	layers, _ := draw(&mbfile.Params{LayerDependency: true})
	dependent, fewer := draw(&mbfile.Params{BatchDependency: 64})
	t.Logf("input nodes: uniform %d, labor %d, layers %d, batches %d; distinct %d, %d", uniform, labor, layers, dependent, distinct, fewer)
	if labor > uniform*95/100 || layers > labor*95/100 || math.Abs(float64(dependent-labor)) > 0.05*float64(labor) || fewer > distinct*9/10 {
		t.Error("they are not as few as expected")
	}
}

// TestLaborMemory: a sampler holds what LaborMemory says.
func TestLaborMemory(t *testing.T) {
	for _, fanout := range [][]int{{all}, {5, 1}, {1, 3000}} {
		var c chooser
		c.prepare(fanout)
		if got, want := int64(8*cap(c.lot)+16*cap(c.kept)+8*cap(c.lots)+4*cap(c.places)), LaborMemory(fanout); got != want {
			t.Errorf("fanout %v: %d bytes, want %d", fanout, got, want)
		}
	}
}

// TestCosine compares with floating-point numbers, and has the ends by hand.
func TestCosine(t *testing.T) {
	if c := cosine(0, 7); c != 1<<24 {
		t.Errorf("cos 0 = %d", c)
	}
	for _, k := range []int{1, 2, 3, 16, 64, 1000, 4096, mbfile.MaxBatchDependency} {
		if c := cosine(k, k); c != 0 {
			t.Errorf("cos(π/2·%d/%d) = %d", k, k, c)
		}
		for j := 0; j <= k; j += max(1, k/1000) {
			if c, want := cosine(j, k), math.Round(math.Cos(math.Pi/2*float64(j)/float64(k))*(1<<24)); float64(c) != want {
				t.Errorf("cos(π/2·%d/%d) = %d, want %.0f", j, k, c, want)
			}
		}
		if k > 1 && cosine(k-1, k) <= 0 {
			t.Errorf("a batch dependency of %d ends without a weight", k)
		}
	}
}

// A bound leaves n of d lots and three standard deviations: 1 + 3 + 3 of 14 is a half.
func TestEnough(t *testing.T) {
	for _, c := range []struct {
		n, d int
		want uint64
	}{{1, 14, 1 << 63}, {1, 28, 1 << 62}, {4, 26, 1 << 63}, {1, 7, math.MaxUint64}, {9, 10, math.MaxUint64}, {0, 3, math.MaxUint64}, {0, 6, 1 << 63}} {
		if got := enough(c.n, c.d); got != c.want {
			t.Errorf("%d of %d: %#x, want %#x", c.n, c.d, got, c.want)
		}
	}
}

// TestAddAll takes the same edges of a list at once as with a heap of all edges, also where a bound leaves too few of
// them, and of lists with parallel edges.
func TestAddAll(t *testing.T) {
	var c chooser
	c.prepare([]int{10})
	var few, more int
	for key := range uint64(20_000) {
		n, d := int(1+key%3), int(4+key%106)
		list := make([]uint32, d)
		for i := range list {
			list[i] = uint32(i / int(1+key/7%4))
		}
		l := labor{first: key, on: true}
		if key%5 == 0 {
			l.second, l.cos, l.sin = key+1, cosine(1, 3), cosine(2, 3)
		}
		got, want := make([]uint32, n), make([]uint32, n)
		c.begin(n)
		if err := c.add(t.Context(), list, &l); err != nil {
			t.Fatal(err)
		}
		if l.cos == 0 {
			if c.last > enough(n, d) {
				few++
			} else {
				more++
			}
		}
		c.end(want)
		c.begin(n)
		if err := c.addAll(t.Context(), list, &l); err != nil {
			t.Fatal(err)
		}
		c.end(got)
		if !slices.Equal(got, want) {
			t.Fatalf("key %d: %v of %d, want %v", key, got, d, want)
		}
	}
	if few == 0 || few > more/50 {
		t.Errorf("a bound leaves too few edges %d times, enough %d times", few, more)
	}
}

// TestGreatest: n lots are at most the greatest of the n least, of even and crowded lots.
func TestGreatest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.OneOf(rapid.Uint64(), rapid.Just(uint64(math.MaxUint64)), rapid.Uint64Range(0, 100)).Draw(t, "bound")
		least := rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(0, bound)).Draw(t, "least")
		lots := rapid.SliceOfNDistinct(rapid.Uint64Range(least, bound), 1, 80, rapid.ID[uint64]).Draw(t, "lots")
		n := rapid.IntRange(1, len(lots)).Draw(t, "n")
		sorted := slices.Sorted(slices.Values(lots))
		got := greatest(lots, n, bound, make([]uint64, len(lots)))
		if got < sorted[n-1] || n < len(lots) && got >= sorted[n] {
			t.Fatalf("%#x for the %d least of %#x", got, n, sorted)
		}
		if got := nth(slices.Clone(lots), n-1); got != sorted[n-1] {
			t.Fatalf("number %d is %#x of %#x", n-1, got, sorted)
		}
	})
}

// TestCrowdedLots: the heap takes over where the choice has no room: of a long list with lots that have no
// bound.
func TestCrowdedLots(t *testing.T) {
	var c chooser
	c.prepare([]int{3})
	list := identity(make([]uint32, 3*chunkEdges))
	l := labor{first: 5, on: true}
	c.begin(3)
	if done, err := c.choose(t.Context(), list, &l, math.MaxUint64); done || err != nil {
		t.Errorf("%t, %v", done, err)
	}
	if len(c.kept) > 0 {
		t.Errorf("%d edges are taken", len(c.kept))
	}
	c.begin(3)
	if done, err := c.choose(t.Context(), list[:3], &l, 0); done || err != nil {
		t.Errorf("a bound below all lots: %t, %v", done, err)
	}
}
