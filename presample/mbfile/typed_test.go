package mbfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
)

// Three papers, of which 1 and 2 cite 0; two authors without features, which wrote them: row 3 of the features.
var typedTypes = func() *graph.Types {
	t := &graph.Types{
		Nodes:     []graph.NodeType{{Name: "paper", Count: 3, Features: true}, {Name: "author", Count: 2}},
		Relations: []graph.Relation{{Source: 0, Name: "cites"}, {Source: 1, Name: "writes"}, {Source: 0, Name: "wrote", Destination: 1}},
	}
	if err := t.Check(); err != nil {
		panic(err)
	}
	return t
}()

var typedParams = Params{BatchSize: 1, Fanout: []int{2, 2}, EvalFanout: []int{2, AllNeighbours}, Epochs: 2, TrainRatio: 1, Order: "random",
	RelationFanout: map[string][]int{"paper:cites:paper": {2, 1}, "author:writes:paper": {1, 2}, "paper:wrote:author": {2, 1}}}

// typedBatches are two training batches, one for validation and one for testing.
func typedBatches() []*graph.Batch {
	first := &graph.Batch{ // 0 ← cites 1, writes both authors; then 0 ← cites 1 and 2, writes one; 1 ← writes one; authors ← 0, and 1 and 2
		Types: typedTypes,
		Blocks: []graph.Block{
			{NumSrc: 4, NumDst: 4, Indptr: []uint32{0, 2, 3, 3, 4, 5, 7}, Indices: []uint32{1, 2, 3, 3, 0, 1, 2}, Dst: []uint32{0, 1, 3, 3}, Ends: []uint32{3, 4}},
			{NumSrc: 4, NumDst: 1, Indptr: []uint32{0, 1, 3}, Indices: []uint32{1, 2, 3}, Dst: []uint32{0}, Ends: []uint32{2, 4}},
		},
		Input: []uint32{0, 1, 2, 3}, Labels: []int32{1},
	}
	alone := &graph.Batch{ // 2 without neighbours
		Types: typedTypes,
		Blocks: []graph.Block{
			{NumSrc: 1, NumDst: 1, Indptr: []uint32{0, 0, 0}, Indices: []uint32{}, Dst: []uint32{0}, Ends: []uint32{1, 1}},
			{NumSrc: 1, NumDst: 1, Indptr: []uint32{0, 0, 0}, Indices: []uint32{}, Dst: []uint32{0}, Ends: []uint32{1, 1}},
		},
		Input: []uint32{2}, Labels: []int32{0},
	}
	return []*graph.Batch{first, alone, first, alone}
}

func writeTyped(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(vfstest.TempDir(t), "S")
	layout := Layout{Nodes: 4, Types: typedTypes, Layers: 2, Train: 2, Valid: 1, Test: 1, BatchesPerFile: 3}
	if _, err := writeBatches(disk, dir, TypedFormat, typedParams, layout, typedBatches(), progress.Discard); err != nil {
		t.Fatal(err)
	}
	return dir
}

var sameTyped = cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(graph.Types{})}

func TestTypedValues(t *testing.T) {
	r, err := Open(disk, writeTyped(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := r.Facts()
	want := Facts{Nodes: 4, Types: typedTypes, Layers: 2, Epochs: 2, BatchesPerEpoch: 1, TrainBatches: 2, ValidBatches: 1, TestBatches: 1,
		TypeInputs: []int64{4, 1},
		Train: Summary{SeedNodes: 2, InputNodes: 5, Edges: 10, Bytes: r.Info(0).Size + r.Info(1).Size,
			Max:  graph.Sizes{Src: []int{4, 4}, Dst: []int{4, 1}, Edges: []int{7, 3}, Rows: []int{6, 2}},
			Mean: graph.Sizes{Src: []int{3, 3}, Dst: []int{3, 1}, Edges: []int{4, 2}, Rows: []int{4, 2}}}}
	want.Eval = want.Train
	if d := cmp.Diff(want, f, sameTyped); d != "" {
		t.Error(d)
	}
	if info := r.Info(2); !slices.Equal(info.Rows, []uint32{6, 2}) || !slices.Equal(info.Edges, []uint32{7, 3}) || !slices.Equal(info.Nodes, []uint32{4, 4, 1}) {
		t.Errorf("%+v", info)
	}
	if hot, err := r.Hotness(); err != nil || !slices.Equal(hot, []uint32{1, 1, 2, 1}) {
		t.Errorf("hotness %v, %v", hot, err)
	}
	var buf []byte
	var b graph.Batch
	for i, want := range typedBatches() {
		if buf, err = r.Read(t.Context(), i, buf, &b); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, &b, sameTyped); d != "" {
			t.Errorf("batch %d: %s", i, d)
		}
		if nodes, _, err := r.Inputs(t.Context(), i, nil); err != nil || !slices.Equal(nodes, want.Input) {
			t.Errorf("batch %d: input nodes %v, %v", i, nodes, err)
		}
	}
	if err := r.Verify(t.Context(), progress.Discard); err != nil {
		t.Error(err)
	}
	d, err := r.Describe()
	if err != nil || d.Touched != 4 || !slices.Equal(d.Types, []TypeShare{{"paper", 3, 0.2 + 0.2 + 0.4}, {"author", 1, 0.2}}) {
		t.Errorf("%+v, %v", d, err)
	}
	if d := cmp.Diff([][]int{{2, 1}, {1, 2}, {2, 1}}, typedParams.ByRelation(typedTypes, false)); d != "" || typedParams.ByRelation(typedTypes, true) != nil {
		t.Error(d)
	}
}

// Most is the largest fanout of each layer; all neighbours are the most.
func TestMost(t *testing.T) {
	fanouts := [][]int{{2, 3, AllNeighbours}, {5, 1, 4}, {1, AllNeighbours, 2}}
	if got := Most(fanouts); !slices.Equal(got, []int{5, AllNeighbours, AllNeighbours}) || fanouts[0][0] != 2 {
		t.Error(got)
	}
}

// Typed samples with impossible facts are refused, whatever their checksums.
func TestForgedTypedSamples(t *testing.T) {
	dir := writeTyped(t)
	types := func(change func(types map[string]any)) func(*forgery) {
		return func(f *forgery) { change(f.facts["types"].(map[string]any)) }
	}
	relations := func(change func(by map[string]any)) func(*forgery) {
		return func(f *forgery) { change(f.params["relation_fanout"].(map[string]any)) }
	}
	for name, change := range map[string]func(*forgery){
		"no types":                               func(f *forgery) { delete(f.facts, "types") },
		"an older format":                        func(f *forgery) { f.format = Format },
		"multi-label":                            func(f *forgery) { f.format = MultiLabelFormat },
		"more rows":                              func(f *forgery) { f.facts["nodes"] = 5 },
		"more rows of the topology than numbers": types(func(t map[string]any) { t["node_types"].([]any)[1].(map[string]any)["nodes"] = graph.MaxNodes - 4 }),
		"no relations":                           types(func(t map[string]any) { t["relations"] = []any{} }),
		"no node types":                          types(func(t map[string]any) { delete(t, "node_types") }),
		"more authors":                           types(func(t map[string]any) { t["node_types"].([]any)[1].(map[string]any)["features"] = true }),
		"another order":                          types(func(t map[string]any) { slices.Reverse(t["relations"].([]any)) }),
		"fewer relations":                        types(func(t map[string]any) { t["relations"] = t["relations"].([]any)[:2] }),
		"a seed type too far":                    func(f *forgery) { f.facts["seed_type"] = 2 },
		"a seed type before":                     func(f *forgery) { f.facts["seed_type"] = -1 },
		"another seed type":                      func(f *forgery) { f.facts["seed_type"] = 1 },
		"labor":                                  func(f *forgery) { f.params["method"] = Labor },
		"partitions": func(f *forgery) {
			f.params["order"], f.params["partitions"], f.params["buffer"] = Sequential, 2, 2
		},
		"a relation's fanout is lost": relations(func(by map[string]any) { delete(by, "paper:cites:paper") }),
		"another relation's fanout":   relations(func(by map[string]any) { by["x"] = by["paper:cites:paper"]; delete(by, "paper:cites:paper") }),
		"a layer too few":             relations(func(by map[string]any) { by["paper:cites:paper"] = []int{2} }),
		"fanout 0":                    relations(func(by map[string]any) { by["paper:cites:paper"] = []int{0, 1} }),
		"a smaller fanout":            relations(func(by map[string]any) { by["author:writes:paper"] = []int{1, 1} }),
		"a row of too many": relations(func(by map[string]any) {
			by["author:writes:paper"], by["paper:wrote:author"] = []int{1, 1}, []int{2, 2}
		}),
		"merged too":                   func(f *forgery) { f.params["merged"] = true },
		"rows of a layer":              func(f *forgery) { f.counts(0)[5]-- },
		"rows beyond all":              func(f *forgery) { f.counts(0)[5] = 1 << 31 },
		"most rows":                    func(f *forgery) { f.facts["train"].(map[string]any)["max"].(map[string]any)["rows"] = []int{7, 2} },
		"no most rows":                 func(f *forgery) { delete(f.facts["train"].(map[string]any)["max"].(map[string]any), "rows") },
		"another type's input nodes":   func(f *forgery) { f.facts["type_input_nodes"] = []int{3, 2} },
		"input nodes of too few types": func(f *forgery) { f.facts["type_input_nodes"] = []int{5} },
		"more input nodes":             func(f *forgery) { f.facts["type_input_nodes"] = []int{4, 2} },
		"less than no input nodes":     func(f *forgery) { f.facts["type_input_nodes"] = []int{6, -1} },
		"an input node of another type": func(f *forgery) { // 64 bytes are before the four input nodes, of which the last is the authors'
			b := f.batches[BatchesFile(0)]
			for i := range 4 {
				b[64+i], b[76+i] = b[76+i], b[64+i]
			}
			binary.LittleEndian.PutUint32(f.index.records[16:], binio.CRC(b[:f.index.info(0).Size]))
		},
		"mean rows": func(f *forgery) { f.facts["train"].(map[string]any)["mean"].(map[string]any)["rows"] = []int{4, 1} },
	} {
		f := forgeryOf(t, dir)
		change(f)
		if err := use(t, f.commit(t)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := forgeryOf(t, dir)
	if err := use(t, f.commit(t)); err != nil {
		t.Errorf("as written: %v", err)
	}
	delete(f.facts, "type_input_nodes") // as before they were counted
	if err := use(t, f.commit(t)); err != nil {
		t.Errorf("by an earlier version: %v", err)
	}
}

// Every byte of typed batches is checked.
func TestTypedBytesAreChecked(t *testing.T) {
	dir := writeTyped(t)
	f := forgeryOf(t, dir)
	for _, name := range slices.Sorted(maps.Keys(f.batches)) {
		whole, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for i := range whole {
			b := bytes.Clone(whole)
			b[i] ^= 1
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := use(t, dir); !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("%s, byte %d: %v", name, i, err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Shards are joined if they are parts of the same samples.
func TestJoin(t *testing.T) {
	shards := func(change func(last *Reader)) []*Reader {
		var list []*Reader
		for i := range 2 {
			list = append(list, &Reader{index: &index{layers: 2, perFile: 1, typed: true},
				facts: Facts{Nodes: 4, Types: typedTypes, Epochs: 2, BatchesPerEpoch: 1, FirstFile: i, TrainBatches: 1}})
		}
		change(list[1])
		return list
	}
	if l, ix, err := join(shards(func(*Reader) {})); err != nil || l.Train != 2 || l.Types != typedTypes || !ix.typed {
		t.Fatal(l, ix, err)
	}
	for name, change := range map[string]func(*Reader){
		"another place": func(r *Reader) { r.facts.FirstFile = 0 },
		"rows":          func(r *Reader) { r.facts.Nodes++ },
		"no types":      func(r *Reader) { r.facts.Types = nil },
		"other types": func(r *Reader) {
			other := *typedTypes
			other.Relations = slices.Clone(other.Relations)
			other.Relations[1].Name = "reads"
			r.facts.Types = &other
		},
		"another seed type": func(r *Reader) { r.facts.SeedType = 1 },
		"layers":            func(r *Reader) { r.index.layers++ },
		"batches of a file": func(r *Reader) { r.index.perFile++ },
		"targets":           func(r *Reader) { r.facts.TargetBytes = 1 },
		"epochs":            func(r *Reader) { r.facts.Epochs = 1 },
	} {
		if _, _, err := join(shards(change)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// In a typed graph destinations share input nodes: the first layer may have fewer sources than destinations.
func TestSharedInputs(t *testing.T) {
	for _, typed := range []bool{true, false} {
		for _, nodes := range [][]uint32{{3, 4, 1}, {5, 3, 4}} {
			ix := &index{layers: 2, perFile: 1, typed: typed}
			rows := []uint32{8, 2}
			if !typed {
				rows = nil
			}
			ix.add(0, 9, 0, nodes, []uint32{5, 3}, rows)
			if _, err := decode(ix.encode(), typed); (err == nil) != (typed && nodes[0] == 3) {
				t.Errorf("typed %t, %v: %v", typed, nodes, err)
			}
		}
	}
}
