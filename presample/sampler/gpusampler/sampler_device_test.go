package gpusampler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/samplertest"
)

const all = mbfile.AllNeighbours

// unguarded is the guard of a graph in memory.
func unguarded(fn func() error) error { return fn() }

// onDevices runs a test on an emulated device, on late ones, and on a real one.
func onDevices(t *testing.T, test func(t *testing.T, d *cuda.Device)) {
	cudatest.Everywhere(t, 2, test)
}

// tb is what tests and properties have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
}

// split chooses lists of at most the given number of edges, without a bound of the room for records.
func split(g *graph.CSC, draws []uint32, fanout int, edges int64) *Placement {
	p := &Placement{draws: draws, fanout: int64(fanout), room: edges}
	p.choose(g)
	return p
}

// placements are all kinds of placements of a graph: near, pinned, and split with no lists, with some of the nodes,
// and with all.
func placements(g *graph.CSC) map[string]*Placement {
	draws := make([]uint32, g.NumNodes())
	for v := range draws {
		draws[v] = uint32(v * 7 % 3)
	}
	records, edges := recordBytes(g.NumNodes()), int64(len(g.Indices))
	return map[string]*Placement{
		"near": Choose(g, nil, 0, records+listBytes(edges)), "pinned": Choose(g, draws, 0, records-1), "no lists": Choose(g, nil, 0, records),
		"some lists": split(g, draws, 2, edges/2), "drawn lists": split(g, draws, 2, edges), "all lists": split(g, slices.Repeat([]uint32{1}, g.NumNodes()), 2, edges),
	}
}

// place places a graph, which the caller frees.
func place(t tb, d *cuda.Device, g *graph.CSC, p *Placement) *Topology {
	t.Helper()
	topology, err := Place(context.Background(), d, g, p, unguarded)
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// newSampler returns a sampler, which the caller frees.
func newSampler(t tb, of *Topology, sizes graph.Sizes, fanout []int) *Sampler {
	t.Helper()
	s, err := New(of, sizes, fanout)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sizesOf covers batches.
func sizesOf(batches ...*graph.Batch) (s graph.Sizes) {
	for _, b := range batches {
		s.Cover(b)
	}
	return s
}

// tinyGraph returns the hand-drawn graph of testdata/tiny, for tests that run far from it.
func tinyGraph() *graph.CSC {
	return &graph.CSC{Indptr: []int64{0, 3, 5, 6, 10, 14, 15, 17, 17}, Indices: []uint32{1, 2, 7, 0, 3, 0, 0, 1, 2, 4, 3, 5, 6, 7, 4, 4, 5}}
}

// TestTinyWhole draws all neighbours of the hand-drawn graph: 6 ← 4, 5; then 6 ← 4, 5 again,
// 4 ← 3, 5, 6, 7 and 5 ← 4.
func TestTinyWhole(t *testing.T) {
	g := tinyGraph()
	want := &graph.Batch{
		Blocks: []graph.Block{
			{NumSrc: 5, NumDst: 3, Indptr: []uint32{0, 2, 6, 7}, Indices: []uint32{1, 2, 3, 2, 0, 4, 1}},
			{NumSrc: 3, NumDst: 1, Indptr: []uint32{0, 2}, Indices: []uint32{1, 2}},
		},
		Input:  []uint32{6, 4, 5, 3, 7},
		Degree: []uint32{2, 4, 1, 4, 0},
	}
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		for name, p := range placements(g) {
			topology := place(t, d, g, p)
			for _, fanout := range [][]int{{all, all}, {4, 2}, {9, all}} {
				s := newSampler(t, topology, sizesOf(want), fanout)
				if err := s.sample([]uint32{6}, 1); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, &s.batch); d != "" {
					t.Errorf("%s, fanout %v: %s", name, fanout, d)
				}
				s.Free()
			}
			topology.Free()
		}
	})
}

// drawGraph draws a graph: in-neighbours ascend, some come more than once.
func drawGraph(t *rapid.T) *graph.CSC {
	n := rapid.IntRange(1, 40).Draw(t, "nodes")
	g := &graph.CSC{Indptr: []int64{0}, Indices: []uint32{}}
	for range n {
		list := rapid.SliceOfN(rapid.Uint32Range(0, uint32(n-1)), 0, rapid.SampledFrom([]int{0, 4, 100}).Draw(t, "most")).Draw(t, "neighbours")
		slices.Sort(list)
		g.Indices = append(g.Indices, list...)
		g.Indptr = append(g.Indptr, int64(len(g.Indices)))
	}
	return g
}

// drawPlacement draws one of a graph.
func drawPlacement(t *rapid.T, g *graph.CSC) *Placement {
	draws := rapid.SliceOfN(rapid.Uint32Range(0, 5), g.NumNodes(), g.NumNodes()).Draw(t, "draws")
	if rapid.Bool().Draw(t, "split") {
		return split(g, draws, rapid.IntRange(0, 9).Draw(t, "widest"), rapid.Int64Range(0, int64(len(g.Indices))).Draw(t, "edges"))
	}
	return Choose(g, draws, 0, rapid.Int64Range(0, 2*(recordBytes(g.NumNodes())+listBytes(int64(len(g.Indices))))).Draw(t, "room"))
}

// Batches that a sampler draws, one after the other, are those of the definition, wherever
// the graph lies.
func TestBatchesAreTheDefinitions(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		rapid.Check(t, func(t *rapid.T) {
			g := drawGraph(t)
			fanout := rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 3, 31, 33, 70, all}), 1, 3).Draw(t, "fanout")
			var keys []uint64
			var seeds [][]uint32
			var want []*graph.Batch
			for range rapid.IntRange(1, 3).Draw(t, "batches") {
				list := rapid.Permutation(identity(g.NumNodes())).Draw(t, "seeds")
				seeds = append(seeds, list[:rapid.IntRange(1, len(list)).Draw(t, "number")])
				keys = append(keys, rapid.Uint64().Draw(t, "key"))
				want = append(want, samplertest.Sample(g, seeds[len(want)], fanout, keys[len(want)]))
			}
			topology := place(t, d, g, drawPlacement(t, g))
			defer topology.Free()
			s := newSampler(t, topology, sizesOf(want...), fanout)
			defer s.Free()
			for i := range want {
				if err := s.sample(seeds[i], keys[i]); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want[i], &s.batch, cmpopts.EquateEmpty()); d != "" {
					t.Fatalf("batch %d: %s", i, d)
				}
			}
		})
	})
}

func identity(n int) []uint32 {
	list := make([]uint32, n)
	for i := range list {
		list[i] = uint32(i)
	}
	return list
}

// A batch that is larger than the sizes, by one of anything, is refused, and the next one
// that is not is drawn.
func TestRoom(t *testing.T) {
	g := tinyGraph()
	fanout := []int{all, all}
	large, small := samplertest.Sample(g, []uint32{6}, fanout, 1), samplertest.Sample(g, []uint32{7}, fanout, 1)
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		topology := place(t, d, g, Choose(g, nil, 0, 0))
		defer topology.Free()
		for _, c := range []struct {
			what string
			less func(s *graph.Sizes)
		}{
			{"edges of the seed nodes", func(s *graph.Sizes) { s.Edges[1]-- }},
			{"their sources", func(s *graph.Sizes) { s.Src[1]--; s.Dst[0]-- }},
			{"edges of the outermost layer", func(s *graph.Sizes) { s.Edges[0]-- }},
			{"input nodes", func(s *graph.Sizes) { s.Src[0]-- }},
		} {
			sizes := sizesOf(large)
			c.less(&sizes)
			s := newSampler(t, topology, sizes, fanout)
			if err := s.sample([]uint32{6}, 1); !errors.Is(err, ErrRoom) {
				t.Errorf("%s: %v", c.what, err)
			}
			if err := s.sample([]uint32{7, 6}, 1); !errors.Is(err, ErrRoom) {
				t.Errorf("two seed nodes: %v", err)
			}
			if err := s.sample([]uint32{7}, 1); err != nil {
				t.Errorf("%s: a smaller batch: %v", c.what, err)
			} else if d := cmp.Diff(small, &s.batch, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%s: a smaller batch: %s", c.what, d)
			}
			s.Free()
		}
		two := sizesOf(samplertest.Sample(g, []uint32{6, 7}, fanout, 1))
		s := newSampler(t, topology, two, fanout)
		defer s.Free()
		if err := s.sample([]uint32{6, 6}, 1); !errors.Is(err, fault.ErrInput) {
			t.Errorf("a seed node twice: %v", err)
		}
	})
}

// A layer that is beyond what is numbered is refused before memory is taken.
func TestRefusesTheImpossible(t *testing.T) {
	sizes := graph.Sizes{Src: []int{5}, Dst: []int{5}, Edges: []int{kernels.SampleMost - 4}}
	if _, err := DeviceBytes(sizes, []int{all}); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("%v", err)
	}
	sizes.Edges[0]--
	if _, err := DeviceBytes(sizes, []int{all}); err != nil {
		t.Errorf("%v", err)
	}
}

// What a topology and a sampler take is what was counted.
func TestMemory(t *testing.T) {
	g := &graph.CSC{Indptr: make([]int64, 1001), Indices: make([]uint32, 3000)}
	for v := range 1001 {
		g.Indptr[v] = int64(3 * v)
	}
	sizes, fanout := graph.Sizes{Src: []int{900, 300}, Dst: []int{300, 100}, Edges: []int{700, 200}}, []int{3, all}
	d := cudatest.Open(t)
	device, err := DeviceBytes(sizes, fanout)
	if err != nil {
		t.Fatal(err)
	}
	// Words of the counts, of the seed nodes, of input nodes and their degrees, of index
	// pointers and of indices.
	const host = 4 * (6 + 100 + 2*900 + 301 + 101 + 700 + 200)
	if n := HostBytes(sizes); n != host {
		t.Errorf("%d bytes of the host's, want %d", n, host)
	}
	const records, lists, ram, half = 12032, 12032, 24576, 6144 // of 12000 bytes each, and 12032 + 12000 in whole pages
	draws := slices.Repeat([]uint32{1}, 1000)
	for room, want := range map[int64][2]int64{
		records - 1: {0, ram}, records: {records, 12288}, records + 255: {records, 12288}, records + half: {records + half, 12288},
		records + lists - 1: {records + 46*256, 12288}, records + lists: {records + lists, 0}, 1 << 40: {records + lists, 0},
	} {
		p := Choose(g, draws, 0, room)
		topology := place(t, d, g, p)
		onDevice, pinned := d.Held()
		if got := [2]int64{p.GPU, p.RAM}; got != want || onDevice != p.GPU || pinned != p.RAM {
			t.Errorf("room for %d bytes: %v are counted, want %v; %d of the device's are held, %d pinned", room, got, want, onDevice, pinned)
		}
		s := newSampler(t, topology, sizes, fanout)
		if a, b := d.Held(); a-onDevice != device || b-pinned != host {
			t.Errorf("a sampler takes %d bytes of the device's and %d pinned ones, not %d and %d", a-onDevice, b-pinned, device, host)
		}
		s.Free()
		topology.Free()
	}
}

// Whatever the device fails in, drawing says so, and what was taken is given back.
func TestFaults(t *testing.T) {
	g := tinyGraph()
	fanout := []int{2, 2}
	want := samplertest.Sample(g, []uint32{6, 1}, fanout, 1)
	for name, p := range placements(g) {
		calls := 0
		for failing := 1; ; failing++ {
			calls = 0
			d := cudatest.OpenFaulty(t, cuda.Options{}, func(string) *cuda.Fault {
				if calls++; calls == failing {
					return &cuda.Fault{Why: "injected"}
				}
				return nil
			})
			err := func() error {
				topology, err := Place(t.Context(), d, g, p, unguarded)
				if err != nil {
					return err
				}
				defer topology.Free()
				s, err := New(topology, sizesOf(want), fanout)
				if err != nil {
					return err
				}
				defer s.Free()
				return s.sample([]uint32{6, 1}, 1)
			}()
			if calls < failing {
				if err != nil {
					t.Errorf("nothing failed: %v", err)
				}
				break
			}
			if !errors.Is(err, fault.ErrDevice) {
				t.Errorf("%s, call %d: %v", name, failing, err)
			}
		}
		if calls < 20 {
			t.Errorf("%d calls", calls)
		}
	}
}

// A graph that cannot be read any more is its guard's error, and copying ends with the
// context.
func TestPlaceEnds(t *testing.T) {
	g := &graph.CSC{Indptr: []int64{0, 1}, Indices: []uint32{0}}
	d := cudatest.Open(t)
	gone := errors.New("gone")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, p := range placements(g) {
		if _, err := Place(t.Context(), d, g, p, func(func() error) error { return gone }); !errors.Is(err, gone) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Place(ended, d, g, p, unguarded); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Place(t.Context(), d, g, &Placement{RAM: 1 << 60}, unguarded); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("more memory than the host has: %v", err)
	}
	small := cudatest.OpenFaulty(t, cuda.Options{DeviceBytes: 4096, PinnedBytes: 4096}, func(string) *cuda.Fault { return nil })
	large := &graph.CSC{Indptr: []int64{0, 2000}, Indices: make([]uint32, 2000)}
	for name, p := range placements(large) {
		if _, err := Place(t.Context(), small, large, p, unguarded); !errors.Is(err, fault.ErrBudget) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A mapped graph may change after its lists were chosen: index pointers out of range, and lists beyond the memory
// that was taken for them, are refused.
func TestPlaceOfAChangedGraph(t *testing.T) {
	d := cudatest.Open(t)
	for _, indptr := range [][]int64{{0, 3, 1}, {0, -1, 1}, {0, 0, 2000}} {
		was := &graph.CSC{Indptr: []int64{0, 1, 1}, Indices: make([]uint32, 1000)}
		for name, p := range map[string]*Placement{"near": Choose(was, nil, 0, 1<<40), "pinned": Choose(was, nil, 0, 0), "split": split(was, []uint32{1, 1}, 0, 1)} {
			if _, err := Place(t.Context(), d, &graph.CSC{Indptr: indptr, Indices: was.Indices}, p, unguarded); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s, %v: %v", name, indptr, err)
			}
		}
	}
	was := &graph.CSC{Indptr: []int64{0, 1, 2000}, Indices: make([]uint32, 2000)}
	p := split(was, []uint32{1, 0}, 0, 2000)
	was.Indptr[1] = 1000
	if _, err := Place(t.Context(), d, was, p, unguarded); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a longer list: %v", err)
	}
	if onDevice, pinned := d.Held(); onDevice+pinned != 0 {
		t.Errorf("%d bytes are held", onDevice+pinned)
	}
}

// Graphs larger than what is copied at a time arrive whole.
func TestPlaceInSteps(t *testing.T) {
	const edges = 3*step/4 + 5
	nodes := nodesAtOnce + 3
	g := &graph.CSC{Indptr: make([]int64, nodes+1), Indices: make([]uint32, edges)}
	for i := range g.Indices {
		g.Indices[i] = uint32(int64(i) * int64(nodes) / edges)
	}
	for v := range g.Indptr { // the middle one has all but a list of three for every other node
		g.Indptr[v] = int64(3 * v)
		if v > nodes/2 {
			g.Indptr[v] = edges - int64(3*(nodes-v))
		}
	}
	fanout, seeds := []int{40}, []uint32{0, uint32(nodes / 2), uint32(nodes - 2), uint32(nodes - 1)}
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		for name, p := range placements(g) {
			want := samplertest.Sample(g, seeds, fanout, 3)
			topology := place(t, d, g, p)
			s := newSampler(t, topology, sizesOf(want), fanout)
			if err := s.sample(seeds, 3); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, &s.batch); d != "" {
				t.Errorf("%s: %s", name, d)
			}
			s.Free()
			topology.Free()
		}
	})
}

// By hand, with the fanout 2: a draw from ten neighbours moves two sectors of the two that they take, one from four
// the one, one from twenty two of three. So for a neighbour the draws from nodes 0, 1 and 7 move one sector, from
// node 2 and node 4 two, from node 6 four. Nodes 3 and 5 have no neighbours, or no draws.
func TestChooseByHand(t *testing.T) {
	g := &graph.CSC{Indptr: []int64{0}, Indices: make([]uint32, 139)}
	for v, degree := range []int64{10, 1, 4, 0, 100, 3, 20, 1} {
		g.Indptr = append(g.Indptr, g.Indptr[v]+degree)
	}
	draws := []uint32{5, 1, 8, 9, 100, 0, 40, 1}
	for room, want := range map[int64][]int{
		0: nil, 1: {1}, 3: {1, 7}, 4: {2}, 5: {1, 2}, 15: {0, 2, 1}, 16: {0, 1, 2, 7}, 19: {0, 1, 2, 7}, 20: {6}, 24: {2, 6}, 25: {1, 2, 6},
		26: {1, 2, 6, 7}, 34: {0, 2, 6}, 36: {0, 1, 2, 6, 7}, 99: {0, 1, 2, 6, 7}, 100: {2, 6}, 124: {2, 4, 6}, 134: {0, 2, 4, 6}, 1000: {0, 1, 2, 4, 6, 7},
	} {
		slices.Sort(want)
		p := split(g, draws, 2, room)
		near := p.near()
		var got []int
		edges, drawn := int64(0), uint32(0)
		for v := range draws {
			if n := int64(g.Degree(uint32(v))); near(v, n) {
				got, edges, drawn = append(got, v), edges+n, drawn+draws[v]
			}
		}
		if !slices.Equal(got, want) || p.Lists != int64(len(want)) || p.edges != edges || p.Share != float64(drawn)/155 {
			t.Errorf("room for %d: %v, want %v; %d lists, %d edges, %g of the draws", room, got, want, p.Lists, p.edges, p.Share)
		}
	}
	// Draws of whole lists move three sectors of twenty neighbours, and thirteen of a hundred.
	if p := split(g, draws, 0, 104); p.edges != 100 || p.Lists != 1 {
		t.Errorf("%d lists, %d edges", p.Lists, p.edges)
	}
}

// benchGraph is a generated graph with its seed nodes, for as long as the process.
var benchGraph = sync.OnceValues(func() (*dataset.Dataset, error) {
	dir, err := os.MkdirTemp("", "graph")
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, "dataset")
	if _, err := dataset.Generate(context.Background(), vfs.Unsynced(vfs.OS), dir, dataset.GenerateOptions{Nodes: 2_000_000, AvgDegree: 20, Dim: 1, Classes: 2, TrainRatio: 0.5}, progress.Discard); err != nil {
		return nil, err
	}
	return dataset.Open(vfs.OS, dir)
})

// BenchmarkDraw draws training batches of 1024 seed nodes by the host's sampler, on one
// goroutine, and by the GPU's, of a graph in its memory, in the host's, and in both: there
// with no list in its memory, and with the lists of half of the draws.
func BenchmarkDraw(b *testing.B) {
	data, err := benchGraph()
	if err != nil {
		b.Fatal(err)
	}
	topology, err := data.Topology(b.Context(), progress.Discard, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer topology.Close()
	for _, fanout := range [][]int{{10, 10}, {10, 15, 20}} {
		p := mbfile.Params{BatchSize: 1024, Fanout: fanout, EvalFanout: fanout, Epochs: 1, TrainRatio: 1, Order: sampler.Random, Sampler: sampler.Version}
		seeds, err := sampler.Load(b.Context(), data, p, progress.Discard)
		if err != nil {
			b.Fatal(err)
		}
		host := sampler.New(&topology.CSC, fanout, sampler.Options{Hash: true})
		id := func(i int) sampler.ID { return sampler.ID{Index: i % seeds.Batches(sampler.Train)} }
		var sizes graph.Sizes
		draws := make([]uint32, topology.NumNodes())
		for i := range 20 {
			batch, err := host.Draw(b.Context(), seeds, id(i))
			if err != nil {
				b.Fatal(err)
			}
			sizes.Cover(batch)
			for l := range batch.Blocks {
				for _, v := range batch.Input[:batch.Blocks[l].NumDst] {
					draws[v]++
				}
			}
		}
		// As much more room as a batch that was not looked at may need.
		for l := range sizes.Src {
			sizes.Src[l], sizes.Edges[l] = sizes.Src[l]+sizes.Src[l]/20, sizes.Edges[l]+sizes.Edges[l]/20
			if l > 0 {
				sizes.Dst[l-1] = sizes.Src[l]
			}
		}
		run := func(b *testing.B, draw func(ctx context.Context, from *sampler.Seeds, id sampler.ID) (*graph.Batch, error)) {
			edges, i := 0, 0
			for b.Loop() {
				batch, err := draw(b.Context(), seeds, id(i%20))
				if err != nil {
					b.Fatal(err)
				}
				edges += batch.NumEdges()
				i++
			}
			b.ReportMetric(float64(edges)/b.Elapsed().Seconds()/1e6, "Medges/s")
			b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "batches/s")
		}
		name := sampler.FormatFanout(fanout)
		b.Run(name+"/host", func(b *testing.B) { run(b, host.Draw) })
		g := &topology.CSC
		some := func(edges int) *Placement { return split(g, draws, sampler.Widest(fanout), int64(edges)) }
		half := sort.Search(len(g.Indices), func(edges int) bool { return some(edges).Share >= 0.5 })
		for _, c := range []struct {
			place string
			at    *Placement
		}{{"near", Choose(g, nil, 0, 1<<40)}, {"half", some(half)}, {"records", some(0)}, {"pinned", Choose(g, nil, 0, 0)}} {
			b.Run(fmt.Sprintf("%s/gpu/%s", name, c.place), func(b *testing.B) {
				t := place(b, cudatest.Real(b, cuda.Options{}), g, c.at)
				defer t.Free()
				s := newSampler(b, t, sizes, fanout)
				defer s.Free()
				run(b, s.Draw)
				b.ReportMetric(float64(c.at.GPU)/1e6, "GPU-MB")
			})
		}
	}
}
