package packfile

import (
	"errors"
	"math"
	"slices"
	"testing"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
)

// TestCheckSizes gives the counts that buffers are made for one fault at a time.
func TestCheckSizes(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(sizes, means *graph.Sizes)
		ok     bool
	}{
		{"right", func(*graph.Sizes, *graph.Sizes) {}, true},
		{"all nodes", func(s, _ *graph.Sizes) { s.Src[0] = 100 }, true},
		{"as many destinations as sources", func(s, _ *graph.Sizes) { s.Dst[1] = 4 }, true},
		{"none at all", func(s, m *graph.Sizes) { s.Dst[1], m.Dst[1] = 0, 0 }, true},
		{"the most edges", func(s, _ *graph.Sizes) { s.Edges[1] = math.MaxUint32 }, true},
		{"fewer destinations than none", func(s, m *graph.Sizes) { s.Dst[1], m.Dst[1] = -1, -1 }, false},
		{"more destinations than sources", func(s, _ *graph.Sizes) { s.Dst[1] = 5 }, false},
		{"more sources than nodes", func(s, _ *graph.Sizes) { s.Src[0] = 101 }, false},
		{"other sources than the layer's before", func(s, m *graph.Sizes) { s.Src[1], m.Src[1] = 3, 3 }, false},
		{"fewer edges than none", func(s, m *graph.Sizes) { s.Edges[1], m.Edges[1] = -1, -1 }, false},
		{"more edges than can be", func(s, _ *graph.Sizes) { s.Edges[1] = math.MaxUint32 + 1 }, false},
		{"a mean of sources beyond the most", func(_, m *graph.Sizes) { m.Src[0] = 11 }, false},
		{"a mean of destinations beyond the most", func(_, m *graph.Sizes) { m.Dst[1] = 3 }, false},
		{"a mean of edges beyond the most", func(_, m *graph.Sizes) { m.Edges[0] = 6 }, false},
		{"a layer less", func(s, _ *graph.Sizes) { s.Src = s.Src[:1] }, false},
		{"a layer of destinations less", func(s, _ *graph.Sizes) { s.Dst = s.Dst[:1] }, false},
		{"a layer of edges less", func(s, _ *graph.Sizes) { s.Edges = s.Edges[:1] }, false},
	} {
		sizes := func() graph.Sizes { return graph.Sizes{Src: []int{10, 4}, Dst: []int{4, 2}, Edges: []int{5, 5}} }
		r := &Reader{facts: Facts{Nodes: 100, Fanout: []int{2, 2}, Train: 1, TrainSizes: sizes(), TrainMeans: sizes()}}
		c.change(&r.facts.TrainSizes, &r.facts.TrainMeans)
		if err := r.checkSizes(); (err == nil) != c.ok || err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestCheckGroup moves the parts of a group's files one at a time.
func TestCheckGroup(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(x *Index)
		ok     bool
	}{
		{"right", func(*Index) {}, true},
		{"a chunk after a gap", func(x *Index) { x.Train[1].ChunkOffset += 4096 }, false},
		{"a chunk inside the last page of another", func(x *Index) { x.Train[1].ChunkOffset-- }, false},
		{"a first chunk that is not at the beginning", func(x *Index) { x.Train[0].ChunkOffset = 4096 }, false},
		{"a chunk of fewer bytes than none", func(x *Index) { x.Train[0].ChunkBytes = -1 }, false},
		{"a chunk without end", func(x *Index) { x.Train[1].ChunkBytes = math.MaxInt64 }, false},
		{"a graph after a gap", func(x *Index) { x.Train[1].GraphOffset += 4096 }, false},
		{"a graph over another", func(x *Index) { x.Train[1].GraphOffset = 0 }, false},
		{"a graph that is too short", func(x *Index) { x.Train[0].Graph = []Section{{Bytes: 9}} }, false},
		{"a graph of an older version that is too short", func(x *Index) { x.Bytewise = true; x.Train[0].Graph = []Section{{Bytes: 70}} }, false},
		{"the shortest graph of an older version", func(x *Index) { x.Bytewise = true; x.Train[0].Graph = []Section{{Bytes: 71}} }, true},
		{"the shortest graph", func(x *Index) { x.Train[0].Graph = []Section{{Bytes: 4}, {Bytes: 6}} }, true},
		{"a segment that is not at the beginning", func(x *Index) { x.Segments[0].Offset = 4096 }, false},
		{"a segment of more rows than nodes", func(x *Index) { x.Segments[0].Rows = 101 }, false},
		{"a batch of all of its segment", func(x *Index) { x.Segments[0].Rows = 2 }, true},
		{"a batch of more than its segment", func(x *Index) { x.Segments[0].Rows = 1 }, false},
		{"a batch of no segment", func(x *Index) { x.Segments = nil }, false},
	} {
		x := sample()
		x.Segments[0].Offset = 0
		c.change(x)
		r := &Reader{index: x, part: Part{Lo: 0, Hi: 1}, facts: Facts{Nodes: 100, Train: 2, Segment: 2, Segments: 1, RowBytes: sampleRow}}
		r.params.Policy = PolicyStatic
		w := indexWalk{r: r}
		if err := w.group(0); (err == nil) != c.ok || err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.ok && (w.cold != 4 || w.ssd != int64(x.Segments[0].Rows) || w.chunk != 4*sampleRow) {
			t.Errorf("%s: %+v", c.name, w)
		}
	}
}

// TestCheckEvalChunks moves the chunks of validation batches one at a time.
func TestCheckEvalChunks(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(x *Index)
		ok     bool
	}{
		{"right", func(*Index) {}, true},
		{"all rows", func(x *Index) { x.Valid[0].Cold, x.Valid[1].ChunkOffset = 5, 503808 }, true},
		{"rows of eval.bin alone", func(x *Index) { x.Valid[1].Cold = 1 }, true},
		{"fewer rows than of eval.bin", func(x *Index) { x.Valid[0].Cold, x.Valid[1].ChunkOffset = 2, 200704 }, false},
		{"a chunk after a gap", func(x *Index) { x.Valid[1].ChunkOffset += 4096 }, false},
		{"a chunk over another", func(x *Index) { x.Valid[1].ChunkOffset = 0 }, false},
		{"a first chunk that is not at the beginning", func(x *Index) { x.Valid[0].ChunkOffset = 4096 }, false},
		{"rows of a test batch", func(x *Index) { x.Test[0].Cold = 1 }, false},
		{"a place of a test batch", func(x *Index) { x.Test[0].ChunkOffset = 4096 }, false},
		{"a chunk in a pack without them", func(x *Index) { x.EvalChunks = false }, false},
	} {
		x := chunked()
		c.change(x)
		r := &Reader{index: x, part: Part{Hi: 1, Common: true}, facts: Facts{Nodes: 100, RowBytes: sampleRow}}
		w := indexWalk{r: r}
		if err := w.evaluation(); (err == nil) != c.ok || err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", c.name, err)
		}
		rows := x.Valid[0].Cold + x.Valid[1].Cold
		if !c.ok {
			continue
		}
		size := x.Valid[1].ChunkOffset + binio.AlignUp(int64(x.Valid[1].Cold)*sampleRow, binio.Page)
		listed := slices.ContainsFunc(w.files, func(f stage.File) bool { return f.Name == EvalColdFile && f.Size == size })
		if w.evalCold != int64(rows) || !listed {
			t.Errorf("%s: %d rows, files %v", c.name, w.evalCold, w.files)
		}
	}
}

// TestAbsentByHand: an entry of another shard is zero, down to its sections.
func TestAbsentByHand(t *testing.T) {
	two := func(s Section) []Section { return []Section{{}, s} }
	for _, c := range []struct {
		train Train
		eval  Eval
		want  bool
	}{
		{Train{Graph: two(Section{})}, Eval{Graph: two(Section{})}, true},
		{Train{Graph: two(Section{Bytes: 1})}, Eval{Graph: two(Section{Bytes: 1})}, false},
		{Train{Graph: two(Section{CRC: 1})}, Eval{Graph: two(Section{CRC: 1})}, false},
		{Train{Edges: 1, Graph: two(Section{})}, Eval{Cold: 1, Graph: two(Section{})}, false},
		{Train{Bands: []int{0, 1}, Graph: two(Section{})}, Eval{ChunkOffset: 1, Graph: two(Section{})}, false},
		{Train{GraphOffset: 1, Graph: two(Section{})}, Eval{GraphOffset: 1, Graph: two(Section{})}, false},
	} {
		if c.train.absent() != c.want || c.eval.absent() != c.want {
			t.Errorf("%+v and %+v: absent %t and %t, want %t", c.train, c.eval, c.train.absent(), c.eval.absent(), c.want)
		}
	}
}

// TestCheckTypes gives the facts of types one fault at a time, and gives facts of types to a graph without any.
func TestCheckTypes(t *testing.T) {
	types := func() *graph.Types {
		g := &graph.Types{Nodes: []graph.NodeType{{Name: "paper", Count: 3, Features: true}, {Name: "author", Count: 5}}, Relations: []graph.Relation{{Source: 1, Name: "writes"}}}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		return g
	}
	for _, c := range []struct {
		name   string
		typed  bool
		change func(f *Facts)
		ok     bool
	}{
		{"right", true, func(*Facts) {}, true},
		{"seeds of the last type", true, func(f *Facts) { f.SeedType = 1 }, true},
		{"seeds of no type", true, func(f *Facts) { f.SeedType = 2 }, false},
		{"seeds before all types", true, func(f *Facts) { f.SeedType = -1 }, false},
		{"another number of rows", true, func(f *Facts) { f.Nodes = 8 }, false},
		{"no types", true, func(f *Facts) { f.Types = nil }, false},
		{"input nodes by type", true, func(f *Facts) { f.TypeInputs = []int64{2, 0} }, true},
		{"input nodes of a type", true, func(f *Facts) { f.TypeInputs = []int64{2} }, false},
		{"fewer input nodes than none", true, func(f *Facts) { f.TypeInputs = []int64{3, -1} }, false},
		{"more destinations than all nodes", true, func(f *Facts) { f.TrainSizes.Dst[0] = 9 }, false},
		{"destinations that share rows", true, func(f *Facts) { f.TrainSizes.Dst[0] = 8 }, true},
		{"no rows", true, func(f *Facts) { f.TrainSizes.Rows = nil }, false},
		{"untyped", false, func(*Facts) {}, true},
		{"types in an older format", false, func(f *Facts) { f.Types = types() }, false},
		{"a seed type without types", false, func(f *Facts) { f.SeedType = 1 }, false},
		{"input nodes by no type", false, func(f *Facts) { f.TypeInputs = []int64{2} }, false},
		{"rows without types", false, func(f *Facts) { f.TrainSizes.Rows = []int{1} }, false},
	} {
		sizes := func() graph.Sizes {
			s := graph.Sizes{Src: []int{2}, Dst: []int{1}, Edges: []int{1}}
			if c.typed {
				s.Rows = []int{1}
			}
			return s
		}
		r := &Reader{meta: new(stage.Meta), params: Params{Policy: PolicyStatic, Codec: CodecNone, DType: dtype.Float32}, version: version{typed: c.typed},
			facts: Facts{Nodes: 4, Classes: 2, Dim: 1, DType: dtype.Float32, RowBytes: 4, Train: 1, Epochs: 1, BatchesPerEpoch: 1, Segment: 1, Segments: 1,
				Fanout: []int{2}, EvalFanout: []int{2}, TrainSizes: sizes(), TrainMeans: sizes()}}
		if c.typed {
			r.facts.Types = types()
		}
		c.change(&r.facts)
		if err := r.checkFacts(); (err == nil) != c.ok || err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
