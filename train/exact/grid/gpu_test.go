package grid

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/train/gpu"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
	"diskgnn/train/recipe"
)

// onGPU moves a problem to a GPU.
func (p *problem) onGPU(on *gpu.Inference) {
	layer := 0
	if p.Graph == nil {
		layer = model.InputLayer
	}
	p.GPU = &GPU{On: on, Model: &p.model, Layer: layer, Weights: p.weights, Shape: gpu.TileShape(&p.model, layer, Group),
		Graph: &prepare.Whole{Graph: p.Graph, Weighing: p.model.Weighing()}}
	s := &GPUSizes{Memory: math.MaxInt64, Bytes: func(t gpu.TileSizes) int64 { return gpu.TileBytes(&p.model, layer, t) }}
	if p.Graph != nil {
		parts := p.Parts
		if parts == nil {
			parts = untyped(p.targets())
		}
		s.Lists = make([]int64, (p.targets()+Group-1)/Group)
		_ = EachList(context.Background(), parts, p.Targets, p.Graph, 0, p.targets(), func(l List) error {
			s.Lists[l.Target/Group] += int64(len(l.Sources))
			return nil
		})
	}
	p.sizes.Shape, p.sizes.GPU = p.GPU.Shape, s
}

func inference(t *testing.T, d *cuda.Device) *gpu.Inference {
	on, err := gpu.NewInference(d)
	check(t, err)
	t.Cleanup(on.Close)
	return on
}

// compute runs a plan.
func (p *problem) compute(t interface{ Fatalf(string, ...any) }) (rows []float32) {
	p.Passed = func(int64) {}
	_, err := p.Run(context.Background(), func(_ context.Context, lo int, some []float32) error {
		if p.Graph != nil && lo*p.GPU.Shape.Out != len(rows) {
			t.Fatalf("rows from %d on after %d values", lo, len(rows))
		}
		rows = append(rows, some...)
		return nil
	})
	if err != nil {
		t.Fatalf("%+v: %v", p.Plan, err)
	}
	return rows
}

// A GPU computes the rows of the plain computation on the CPU, up to the products' rounding, with the same bits for
// any memory of the host and of the GPU, and takes the memory of its plan.
func TestGridOnGPU(t *testing.T) {
	testOnGPU(t, (*kit).draw, (*problem).plain)
}

func TestTypedGridOnGPU(t *testing.T) {
	testOnGPU(t, (*kit).drawTyped, (*problem).plainTyped)
}

func testOnGPU(t *testing.T, draw func(*kit, *rapid.T) *problem, plain func(*problem) []float32) {
	set(t)
	cudatest.Everywhere(t, 2, func(t *testing.T, d *cuda.Device) {
		k, on := newKit(t), inference(t, d)
		tiles, spans, kept := 0, 0, 0
		rapid.Check(t, func(t *rapid.T) {
			Group, Fold = 1<<rapid.IntRange(0, 4).Draw(t, "group"), rapid.SampledFrom([]int{3, 8, 1 << 12}).Draw(t, "fold")
			p := draw(k, t)
			want := plain(p)
			p.onGPU(on)
			if cpu := p.Pull.PullShape; p.GPU.Shape != cpu && p.Graph != nil && p.model.Kind != model.RGAT { // which adds rows of products
				t.Fatalf("the shape is %+v, on the CPU %+v", p.GPU.Shape, cpu)
			}
			var first []float32
			endless, _ := p.sizes.Choose(math.MaxInt64 / 2)
			p.sizes.GPU.Memory = p.sizes.MostGPU()
			if most, ok := p.sizes.Choose(p.sizes.Most()); !ok || most.Read() != endless.Read() {
				t.Fatalf("with the most memory %+v, %t; with more %+v", most, ok, endless)
			}
			for i := range 2 {
				least, _ := p.sizes.Choose(0)
				room, roomOnGPU := rapid.Int64Range(0, 20_000).Draw(t, "room"), rapid.Int64Range(0, 20_000).Draw(t, "room on the GPU")
				p.sizes.GPU.Memory = least.GPU + roomOnGPU
				var ok bool
				if p.Plan, ok = p.sizes.Choose(least.Memory + room); !ok || p.Plan.Memory > least.Memory+room || p.Plan.GPU > p.sizes.GPU.Memory {
					t.Fatalf("of %d bytes and %d on the GPU: %+v, %t; least %+v", room, roomOnGPU, p.Plan, ok, least)
				}
				got := p.compute(t)
				if len(got) != len(want) {
					t.Fatalf("%+v: %d values, want %d", p.Plan, len(got), len(want))
				}
				for c, v := range got {
					if d := math.Abs(float64(v) - float64(want[c])); !(d <= 1e-5*max(1, math.Abs(float64(want[c])))) {
						t.Fatalf("%+v: value %d is %v, want %v", p.Plan, c, v, want[c])
					}
				}
				if i == 0 {
					first = got
				} else if !slices.Equal(binio.Bytes(got), binio.Bytes(first)) {
					t.Fatalf("%+v: other bits", p.Plan)
				}
				if p.Plan.Tiles > 1 {
					tiles++
				}
				if p.Plan.Span > p.Plan.Block {
					spans++
				}
				if p.Plan.Keep {
					kept++
				}
				p.sizes.GPU.Memory = math.MaxInt64
			}
		})
		if tiles < 5 || spans < 5 || kept < 5 {
			t.Errorf("%d with several tiles, %d with several windows in a block, %d with kept rows", tiles, spans, kept)
		}
	})
}

// tinyOnGPU is a sum on a GPU, in one tile, with room for two sources of each of three targets, and one long list.
func (k *kit) tinyOnGPU(t *testing.T, on *gpu.Inference, g *graph.CSC, listed bool) *problem {
	t.Helper()
	p := k.tiny(t, &graph.CSC{Indptr: []int64{0, 0, 0, 0}})
	p.model = model.Model{Kind: model.SAGE, Aggregator: model.Sum, Dims: []int{1, 1}, Orders: []model.Order{model.Aggregate}}
	p.weights = make([]float32, 3)
	p.Long, p.sizes.Long = 1, 1
	if listed {
		p.Targets = []uint32{0, 1, 2}
		p.sizes.IDs = p.Targets
	}
	p.onGPU(on)
	p.Graph, p.GPU.Graph.Graph, p.sizes.GPU.Lists = g, g, []int64{2, 2, 2}
	p.Plan = p.sizes.count(Plan{Tile: 3, Block: 1, Span: 1})
	return p
}

// Lists that changed after they were counted are refused on a GPU, too.
func TestChangedListsOnGPU(t *testing.T) {
	set(t)
	Group, Fold = 1, 2
	k, on := newKit(t), inference(t, cudatest.Open(t))
	for lists, g := range map[string]*graph.CSC{
		"an id out of range":        {Indptr: []int64{0, 1, 1, 1}, Indices: []uint32{3}},
		"the largest id":            {Indptr: []int64{0, 1, 1, 1}, Indices: []uint32{math.MaxUint32}},
		"a list that descends":      {Indptr: []int64{0, 2, 2, 2}, Indices: []uint32{2, 0}},
		"an offset out of range":    {Indptr: []int64{0, 1, 9, 9}, Indices: []uint32{1}},
		"a descending offset":       {Indptr: []int64{0, 1, 0, 1}, Indices: []uint32{1}},
		"more sources than were":    {Indptr: []int64{0, 3, 5, 7}, Indices: []uint32{0, 1, 2, 0, 1, 0, 1}},
		"more long lists than were": {Indptr: []int64{0, 3, 6, 6}, Indices: []uint32{0, 1, 2, 0, 1, 2}},
	} {
		for _, listed := range []bool{false, true} {
			p := k.tinyOnGPU(t, on, g, listed)
			if _, err := p.Run(t.Context(), func(context.Context, int, []float32) error { return nil }); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s, listed %t: %v", lists, listed, err)
			}
		}
	}
}

// By hand: the most sources of some groups next to each other. Longer tiles never have fewer.
func TestSourcesOfTiles(t *testing.T) {
	s := GPUSizes{Lists: []int64{5, 1, 9, 7, 0, 2}}
	for groups, want := range []int64{1: 9, 2: 16, 3: 17, 4: 22, 5: 22, 6: 24, 7: 24} {
		if groups > 0 && s.sources(groups) != want {
			t.Errorf("a tile of %d groups has up to %d sources, want %d", groups, s.sources(groups), want)
		}
	}
	if n := new(GPUSizes).sources(3); n != 0 {
		t.Errorf("%d sources without groups", n)
	}
}

// Whichever look at the graph fails, a layer on a GPU ends with its error.
func TestLooksFailOnGPU(t *testing.T) {
	set(t)
	Group, Fold = 1, 2
	k, on := newKit(t), inference(t, cudatest.Open(t))
	boom := errors.New("boom")
	for _, listed := range []bool{false, true} {
		p := k.tinyOnGPU(t, on, &graph.CSC{Indptr: []int64{0, 3, 5, 5}, Indices: []uint32{0, 1, 2, 0, 1}}, listed)
		looks := 0
		for n := 1; ; n++ {
			looks = 0
			p.Guard = func(fn func() error) error {
				if looks++; looks == n {
					return boom
				}
				return fn()
			}
			_, err := p.Run(t.Context(), func(context.Context, int, []float32) error { return nil })
			if looks < n {
				check(t, err)
				break
			}
			if !errors.Is(err, boom) {
				t.Errorf("listed %t, look %d: %v", listed, n, err)
			}
		}
		if looks < 5 {
			t.Errorf("listed %t: %d looks", listed, looks)
		}
	}
}

// By hand: rows of 4·(2·3+5) = 44 bytes in a block, which doubles from 4 rows on up to all nodes, or to a quarter of the
// memory. A window that waits counts as 256 KiB, on the way to the GPU and back.
func TestSpanByHand(t *testing.T) {
	s := Sizes{Nodes: 64, Shape: prepare.PullShape{In: 3, Row: 5}, GPU: &GPUSizes{}}
	for memory, want := range map[int64]int{0: 4, 4*8*44 - 1: 4, 4 * 8 * 44: 8, 4*32*44 + 3: 32, 1 << 40: 64} {
		if s.GPU.Memory = memory; s.span(4) != want {
			t.Errorf("%d bytes: a block of %d rows, want %d", memory, s.span(4), want)
		}
	}
	s.Nodes = 1 << 40
	if s.GPU.Memory = 1 << 50; s.span(4) != 1<<24 { // 2²⁴ rows of 44 bytes are less than 2³⁰ bytes, 2²⁵ are more
		t.Errorf("a block of %d rows", s.span(4))
	}
	if p := (Plan{Tiles: 3, Blocks: 5, TableBytes: 7, OwnBytes: 11}); p.Cost(&s) != 18+2*15*262144 {
		t.Errorf("the cost is %d", p.Cost(&s))
	}
}

// A long list of a tile's second type is folded, by hand: 2²⁴ + 1 is 2²⁴ in float32, and with 1 + 1 in the next block of two the
// sum is 2²⁴ + 2, of which the mean of four is 2²² + ½.
func TestTypedFoldsOnGPU(t *testing.T) {
	set(t)
	Group, Fold = 1, 2
	types := &graph.Types{Nodes: []graph.NodeType{{Name: "a", Count: 2, Features: true}, {Name: "b", Count: 2}},
		Relations: []graph.Relation{{Source: 0, Name: "p", Destination: 0}, {Source: 0, Name: "q", Destination: 1}}}
	check(t, types.Check())
	k, on := newKit(t), inference(t, cudatest.Open(t))
	p := k.tiny(t, &graph.CSC{Indptr: []int64{0, 1, 1, 1, 5}, Indices: []uint32{1, 0, 1, 1, 1}})
	p.model = model.Model{Kind: model.RSAGE, Dims: []int{1, 1}, Types: recipe.Types(types, 1)}
	layout := p.model.Layout()
	p.weights = make([]float32, layout.Count())
	lo, hi := layout.Span(0, model.Neighbour, model.Neighbour)
	for i := lo; i < hi; i++ {
		p.weights[i] = 1
	}
	for kind := range types.Nodes {
		link := Link{Relation: kind, Hi: 2}
		p.Parts = append(p.Parts, Part{Lo: 2 * kind, Hi: 2*kind + 2, Node: uint32(2 * kind), Begin: int64(2 * kind), Rows: 1, Own: -1, Links: []Link{link},
			Lists: &prepare.Lists{Kind: kind, Relations: []int{kind}}})
	}
	p.Table = Table{Rows: 2, Width: 1, DType: dtype.Float32, Held: binio.Bytes([]float32{1 << 24, 1})}
	p.Long = 1
	p.sizes = Sizes{Nodes: 2, Targets: 4, Parts: p.Parts, Long: 1, Edges: true, Threads: p.Threads, Table: &p.Table, Lists: 20}
	p.onGPU(on)
	for tile := 1; tile <= 4; tile++ {
		p.Plan = p.sizes.count(Plan{Tile: tile, Block: 1, Span: 1})
		if got := p.compute(t); !slices.Equal(got, []float32{1, 0, 0, 1<<22 + 0.5}) {
			t.Errorf("tiles of %d: %v", tile, got)
		}
	}
}
