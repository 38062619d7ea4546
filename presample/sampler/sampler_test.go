package sampler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/mapped"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler/samplertest"
)

const all = mbfile.AllNeighbours

func tinyGraph(t *testing.T) *graph.CSC {
	raw := datasettest.Tiny(t)
	return &graph.CSC{Indptr: raw.Indptr, Indices: raw.Indices}
}

// TestTinyWhole draws all neighbours of the hand-drawn graph, where no chance is
// involved: 6 ← 4, 5; then 6 ← 4, 5 again, 4 ← 3, 5, 6, 7 and 5 ← 4.
func TestTinyWhole(t *testing.T) {
	g := tinyGraph(t)
	want := &graph.Batch{
		Blocks: []graph.Block{
			{NumSrc: 5, NumDst: 3, Indptr: []uint32{0, 2, 6, 7}, Indices: []uint32{1, 2, 3, 2, 0, 4, 1}},
			{NumSrc: 3, NumDst: 1, Indptr: []uint32{0, 2}, Indices: []uint32{1, 2}},
		},
		Input:  []uint32{6, 4, 5, 3, 7},
		Degree: []uint32{2, 4, 1, 4, 0},
	}
	for name, table := range tables(g) {
		var b graph.Batch
		for _, fanout := range [][]int{{all, all}, {4, 2}, {9, all}} { // no more than there are: the same
			if err := with(g, table, fanout).sample(t.Context(), &b, []uint32{6}, 1); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, &b); d != "" {
				t.Errorf("%s, fanout %v: %s", name, fanout, d)
			}
		}
	}
}

// TestTinyDrawn draws one of several. Which one chance takes is written down
// here, so that no change of the method passes unnoticed: the same seed must
// give the same samples in all versions to come.
func TestTinyDrawn(t *testing.T) {
	g := tinyGraph(t)
	s := New(g, []int{1, 2}, Options{})
	var b graph.Batch
	if err := s.sample(t.Context(), &b, []uint32{3, 4}, rng.Key(0, forDraws, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(tinyDrawn, &b); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(samplertest.Sample(g, []uint32{3, 4}, []int{1, 2}, rng.Key(0, forDraws, 0, 0)), &b); d != "" {
		t.Error(d)
	}
}

// tinyDrawn: 3 ← 2, 0 and 4 ← 3, 7; then 3 ← 1, 4 ← 5, 2 ← 0, 0 ← 1 and 7 ← nobody.
var tinyDrawn = &graph.Batch{
	Blocks: []graph.Block{
		{NumSrc: 7, NumDst: 5, Indptr: []uint32{0, 1, 2, 3, 4, 4}, Indices: []uint32{5, 6, 3, 5}},
		{NumSrc: 5, NumDst: 2, Indptr: []uint32{0, 2, 4}, Indices: []uint32{2, 3, 0, 4}},
	},
	Input:  []uint32{3, 4, 2, 0, 7, 1, 5},
	Degree: []uint32{4, 4, 1, 3, 0, 2, 1},
}

// with returns a sampler with the given table.
func with(g *graph.CSC, t table, fanout []int) *Sampler {
	s := New(g, fanout, Options{Hash: true})
	s.table = t
	return s
}

func tables(g *graph.CSC) map[string]table {
	return map[string]table{"array": newArrayTable(int64(g.NumNodes()), false), "hash": newHashTable(0, false)}
}

// genGraph draws a graph with parallel edges, self-loops, hubs and nodes without
// neighbours.
func genGraph(t *rapid.T) *graph.CSC {
	raw := datasettest.Params{
		Nodes:     rapid.IntRange(1, 300).Draw(t, "nodes"),
		AvgDegree: rapid.Float64Range(0, 40).Draw(t, "degree"),
		Seed:      rapid.Uint64().Draw(t, "graph"),
	}.Raw()
	return &graph.CSC{Indptr: raw.Indptr, Indices: raw.Indices}
}

func genFanout(t *rapid.T) []int {
	one := rapid.OneOf(rapid.IntRange(1, 8), rapid.IntRange(1, 100), rapid.Just(all))
	return rapid.SliceOfN(one, 1, 4).Draw(t, "fanout")
}

func genSeeds(t *rapid.T, g *graph.CSC) []uint32 {
	return rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(g.NumNodes()-1)), 1, min(g.NumNodes(), 40), rapid.ID[uint32]).Draw(t, "seeds")
}

// TestSampleProperties compares with the reference, and checks by themselves the
// promises that the reference might break too.
func TestSampleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := genGraph(t)
		var b graph.Batch
		samplers := map[string]*Sampler{}
		for name, table := range tables(g) {
			samplers[name] = with(g, table, []int{all, 100, 100, 100})
		}
		for range 2 { // reusing everything
			fanout, seeds, key := genFanout(t), genSeeds(t, g), rapid.Uint64().Draw(t, "key")
			want := samplertest.Sample(g, seeds, fanout, key)
			for name, s := range samplers {
				s.fanout = fanout
				if err := s.sample(context.Background(), &b, seeds, key); err != nil {
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

// TestLongLists has more neighbours than a chunk holds, drawn and taken whole.
func TestLongLists(t *testing.T) {
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
	for _, fanout := range [][]int{{all, 2 * chunkEdges}, {chunkEdges + 1, all}, {1, chunkEdges}} {
		for name, table := range tables(g) {
			var b graph.Batch
			if err := with(g, table, fanout).sample(t.Context(), &b, []uint32{9, 1, 5}, 3); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(samplertest.Sample(g, []uint32{9, 1, 5}, fanout, 3), &b); d != "" {
				t.Errorf("%s, fanout %v: %.400s", name, fanout, d)
			}
		}
	}
}

func TestSampleRefusals(t *testing.T) {
	g := tinyGraph(t)
	var b graph.Batch
	refuse := fault.New(fault.ErrBudget, "too large")
	s := New(g, []int{all}, Options{})
	if err := s.sample(t.Context(), &b, []uint32{3, 3}, 1); !errors.Is(err, fault.ErrInput) {
		t.Errorf("a seed node twice: %v", err)
	}
	s.check = func(x Extent, table int64) error {
		if x.Nodes < 1 || x.Dst < 1 || table != 32 {
			t.Errorf("%+v with a table of %d bytes", x, table)
		}
		return refuse
	}
	if err := s.sample(t.Context(), &b, []uint32{3}, 1); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("a batch that is refused: %v", err)
	}
	huge := &graph.CSC{Indptr: []int64{0, 1 << 33}, Indices: manyEdges(t, 1<<33)}
	if err := New(huge, []int{1}, Options{}).sample(t.Context(), &b, []uint32{0}, 1); !errors.Is(err, fault.ErrInput) {
		t.Errorf("a degree beyond 32 bits: %v", err)
	}
}

// manyEdges returns the sources of so many edges, all zero, of a file that takes no room.
func manyEdges(t *testing.T, n int64) []uint32 {
	name := filepath.Join(t.TempDir(), "indices")
	err := os.WriteFile(name, nil, 0o666)
	if err == nil {
		err = os.Truncate(name, 4*n)
	}
	if err != nil {
		t.Skipf("no file of %d bytes: %v", 4*n, err)
	}
	f, err := mapped.Open(name)
	if err != nil {
		t.Skipf("no mapping of %d bytes: %v", 4*n, err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return binio.View[uint32](f.Data())
}

func TestSampleStopsWhenCancelled(t *testing.T) {
	const n = 4 * chunkEdges
	g := &graph.CSC{Indptr: make([]int64, n+1)}
	seeds := make([]uint32, n)
	for v := range n {
		seeds[v] = uint32(v)
		g.Indices = append(g.Indices, uint32(v))
		g.Indptr[v+1] = int64(len(g.Indices))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b graph.Batch
	if err := New(g, []int{1}, Options{}).sample(ctx, &b, seeds, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestSampleAllocatesNothing(t *testing.T) {
	raw := datasettest.Params{Nodes: 3000, AvgDegree: 20, Seed: 1}.Raw()
	g := &graph.CSC{Indptr: raw.Indptr, Indices: raw.Indices}
	fanout, ctx := []int{5, 5, 5}, context.Background()
	seeds := []uint32{1, 20, 300, 77, 2000}
	for name, table := range tables(g) {
		s := with(g, table, fanout)
		key := uint64(0)
		draw := func() {
			if err := s.sample(ctx, &s.batch, seeds, key); err != nil {
				t.Fatal(err)
			}
			key = (key + 1) % 8
		}
		for range 8 {
			draw()
		}
		if n := testing.AllocsPerRun(40, draw); n > 0 {
			t.Errorf("%s: %v allocations a batch", name, n)
		}
	}
}

// TestDraw draws the batches of more epochs than the parameters have in another order, on
// several goroutines, from seeds that were loaded anew: they are equal, and those of the
// plain reference.
func TestDraw(t *testing.T) {
	for _, order := range []string{Random, Overlap} {
		d := datasettest.Create(t, t.TempDir(), datasettest.Params{Nodes: 300, AvgDegree: 6, Seed: 2}.Raw())
		topology, err := d.Topology(t.Context(), progress.Discard, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer topology.Close()
		p := mbfile.Params{BatchSize: 8, Fanout: []int{3, 2}, Epochs: 1, TrainRatio: 0.8, Order: order, Seed: 5}
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
			key := from.Pick(id, &seeds)
			plain := samplertest.Sample(&topology.CSC, seeds.Nodes, p.Fanout, key)
			plain.Labels = seeds.Labels
			if d := cmp.Diff(plain, b, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("%s, %+v: %s", order, id, d)
			}
			want[id] = plain
		}
		if n := testing.AllocsPerRun(20, func() { _, err = one.Draw(t.Context(), from, ids[0]) }); n > 0 || err != nil {
			t.Errorf("%s: %v allocations a batch: %v", order, n, err)
		}
		if cmp.Equal(want[ID{Train, 0, 0}], want[ID{Train, 2, 0}]) {
			t.Errorf("%s: two epochs draw the same batch", order)
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
						return fmt.Errorf("%s, %+v: %s", order, ids[k], d)
					}
					again.Forget(ids[k].Epoch) // orders that are needed again are made again
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
}
