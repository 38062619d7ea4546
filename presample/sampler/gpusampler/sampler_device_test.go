package gpusampler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// place places a graph, which the caller frees.
func place(t tb, d *cuda.Device, g *graph.CSC, near bool) *Topology {
	t.Helper()
	topology, err := Place(context.Background(), d, g, near, unguarded)
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
		for _, near := range []bool{false, true} {
			topology := place(t, d, g, near)
			for _, fanout := range [][]int{{all, all}, {4, 2}, {9, all}} {
				s := newSampler(t, topology, sizesOf(want), fanout)
				if err := s.sample([]uint32{6}, 1); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, &s.batch); d != "" {
					t.Errorf("fanout %v: %s", fanout, d)
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
			topology := place(t, d, g, rapid.Bool().Draw(t, "near"))
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
		topology := place(t, d, g, false)
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
	const bytes = 16384 + 4096 // 8008 and 12000 bytes
	if n := Bytes(1000, 3000); n != bytes {
		t.Errorf("a topology takes %d bytes", n)
	}
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
	for _, near := range []bool{false, true} {
		topology := place(t, d, g, near)
		onDevice, pinned := d.Held()
		if near && (onDevice != bytes || pinned != 0) || !near && (onDevice != 0 || pinned != bytes) {
			t.Errorf("near %v: %d bytes of the device's, %d pinned", near, onDevice, pinned)
		}
		s := newSampler(t, topology, sizes, fanout)
		if a, b := d.Held(); a-onDevice != device || b-pinned != host {
			t.Errorf("near %v: a sampler takes %d bytes of the device's and %d pinned ones, not %d and %d", near, a-onDevice, b-pinned, device, host)
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
	for _, near := range []bool{false, true} {
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
				topology, err := Place(t.Context(), d, g, near, unguarded)
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
				t.Errorf("near %v, call %d: %v", near, failing, err)
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
	for _, near := range []bool{false, true} {
		if _, err := Place(t.Context(), d, g, near, func(func() error) error { return gone }); !errors.Is(err, gone) {
			t.Errorf("near %v: %v", near, err)
		}
		if _, err := Place(ended, d, g, near, unguarded); !errors.Is(err, context.Canceled) {
			t.Errorf("near %v: %v", near, err)
		}
	}
	small := cudatest.OpenFaulty(t, cuda.Options{DeviceBytes: 4096, PinnedBytes: 4096}, func(string) *cuda.Fault { return nil })
	for _, near := range []bool{false, true} {
		if _, err := Place(t.Context(), small, &graph.CSC{Indptr: []int64{0, 2000}, Indices: make([]uint32, 2000)}, near, unguarded); !errors.Is(err, fault.ErrBudget) {
			t.Errorf("near %v: %v", near, err)
		}
	}
}

// Graphs larger than what is copied at a time arrive whole.
func TestPlaceInSteps(t *testing.T) {
	const edges = 3*step/4 + 5
	g := &graph.CSC{Indptr: []int64{0, 0, edges}, Indices: make([]uint32, edges)}
	for i := range g.Indices {
		g.Indices[i] = uint32(i * 2 / edges)
	}
	fanout, seeds := []int{40}, []uint32{1}
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		for _, near := range []bool{false, true} {
			want := samplertest.Sample(g, seeds, fanout, 3)
			topology := place(t, d, g, near)
			s := newSampler(t, topology, sizesOf(want), fanout)
			if err := s.sample(seeds, 3); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, &s.batch); d != "" {
				t.Errorf("near %v: %s", near, d)
			}
			s.Free()
			topology.Free()
		}
	})
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
// goroutine, and by the GPU's, of a graph in its memory and in the host's. MB/s are those of
// the batches that come to the host.
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
		for i := range 20 {
			batch, err := host.Draw(b.Context(), seeds, id(i))
			if err != nil {
				b.Fatal(err)
			}
			sizes.Cover(batch)
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
		for _, near := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/gpu/near=%v", name, near), func(b *testing.B) {
				t := place(b, cudatest.Real(b, cuda.Options{}), &topology.CSC, near)
				defer t.Free()
				s := newSampler(b, t, sizes, fanout)
				defer s.Free()
				run(b, s.Draw)
			})
		}
	}
}
