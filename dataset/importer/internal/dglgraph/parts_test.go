package dglgraph_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/internal/dglgraph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

func text(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

// tensor is the pickle of one in the storage of a key.
func tensor(storage, key string, elements byte, shape, stride string) string {
	return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + storage + "\n" + text(key) + text("cpu") + "K" + string([]byte{elements}) + "tQK\x00" + shape + stride + "tR"
}

func vector(key string, elements byte) string {
	return tensor("LongStorage", key, elements, "K"+string([]byte{elements})+"\x85", "K\x01\x85")
}

// A fused is the pickle of a graph in compressed columns, from the inside out: what holds the tensors,
// the state that holds that, the object that it is of, and the graph's fields.
type fused struct {
	indptr, indices, more                  string
	tensors, state, wrapped, fields, class string // unless "", in place of what is made of the parts before
}

// graph has three nodes, and the edges 1→0, 0→1, 2→1 and 0→2.
func compressed() fused { return fused{indptr: vector("0", 4), indices: vector("1", 4)} }

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (f fused) pickle() string {
	tensors := or(f.tensors, "}"+text("indptr")+f.indptr+"s"+text("indices")+f.indices+"s"+f.more)
	state := or(f.state, "}"+text("independent_tensors")+tensors+"s"+text("name")+"\x86")
	wrapped := or(f.wrapped, "ctorch\nScriptObject\n)\x81"+state+"b")
	fields := or(f.fields, "}"+text("_c_csc_graph")+wrapped+"s")
	return "\x80\x02" + or(f.class, "cdgl.graphbolt.impl.fused_csc_sampling_graph\nFusedCSCSamplingGraph\n") + ")\x81" + fields + "b."
}

// A listed is the pickle of a graph that lists its edges, likewise.
type listed struct {
	src, dst                     string
	tensors, state, maker, index string
	nodeTypes, edgeTypes, fields string
}

func list() listed { return listed{src: vector("1", 4), dst: vector("2", 4)} }

func newObject(class string) string {
	return "cdgl._ffi.object\n_new_object\ncdgl.heterograph_index\n" + class + "\n\x85R"
}

func (l listed) pickle() string {
	tensors := or(l.tensors, "]"+l.src+"a"+l.dst+"a")
	state := or(l.state, "K\x02"+text("description")+tensors+"\x87")
	index := or(l.index, newObject("HeteroGraphIndex")+or(l.maker, newObject("HeteroPickleStates"))+state+"bb")
	fields := or(l.fields, "}"+text("_graph")+index+"s"+text("_ntypes")+or(l.nodeTypes, "]"+text("_N")+"a")+"s"+text("_etypes")+or(l.edgeTypes, "]"+text("_E")+"a")+"s")
	return "\x80\x02cdgl.heterograph\nDGLGraph\n)\x81" + fields + "b."
}

// write makes a file of a pickle, whose storages are where the columns begin, the sources and the
// destinations.
func write(t *testing.T, pickle string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.pt")
	content := importertest.Torch(t, pickle, binio.Bytes([]int64{0, 1, 3, 4}), binio.Bytes([]int64{1, 0, 2, 0}), binio.Bytes([]int64{0, 1, 1, 2}))
	if err := os.WriteFile(name, content, 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestEdges reads a graph of four edges of either kind, and finds no file open in the end.
func TestEdges(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	boom := errors.New("boom")
	for _, pickle := range []string{compressed().pickle(), list().pickle()} {
		files := importertest.NewFiles(vfs.OS)
		g, err := dglgraph.Open(files, write(t, pickle))
		if err != nil || g.Edges != 4 {
			t.Fatalf("%+v, %v", g, err)
		}
		if len(files.StillOpen()) > 0 {
			t.Error("a file is open before edges are read")
		}
		var got []string
		if err := g.Each(t.Context(), 3, func(dst, src []int64) error {
			for i := range dst {
				got = append(got, fmt.Sprintf("%d→%d", src[i], dst[i]))
			}
			return nil
		}); err != nil || strings.Join(got, " ") != "1→0 0→1 2→1 0→2" {
			t.Errorf("%q, %v", got, err)
		}
		if err := g.Each(t.Context(), 3, func(_, _ []int64) error { return boom }); !errors.Is(err, boom) {
			t.Errorf("not added: %v", err)
		}
		if err := g.Each(done, 3, func(_, _ []int64) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		if err := g.Each(t.Context(), 2, func(_, _ []int64) error { return nil }); !errors.Is(err, fault.ErrInput) {
			t.Errorf("of two nodes: %v", err)
		}
		if open := files.StillOpen(); len(open) > 0 {
			t.Errorf("%d files are open", len(open))
		}
	}
}

// TestDataOfEdges lists attributes of edges, but for DGL's own.
func TestDataOfEdges(t *testing.T) {
	tensors := text("independent_tensors") + "}" + text("indptr") + vector("0", 4) + "s" + text("indices") + vector("1", 4) + "ss"
	for attributes, want := range map[string]string{
		"": "[]", text("edge_attributes") + "Ns": "[]",
		text("edge_attributes") + "}" + text("weight") + vector("1", 4) + "s" + text("_ORIGINAL_EDGE_ID") + vector("1", 4) + "s" + text("kind") + vector("1", 4) + "ss": "[weight kind]",
	} {
		f := compressed()
		f.state = "}" + tensors + attributes + text("name") + "\x86"
		files := importertest.NewFiles(vfs.OS)
		g, err := dglgraph.OpenFused(files, write(t, f.pickle()))
		if err != nil || fmt.Sprint(g.Dropped) != want {
			t.Errorf("%q: %+v, want %s; %v", attributes, g, want, err)
		}
		if left := files.StillOpen(); len(left) > 0 {
			t.Errorf("%q are open", left)
		}
	}
}

// TestOneNode opens a graph of one node.
func TestOneNode(t *testing.T) {
	f := compressed()
	f.indptr = tensor("LongStorage", "0", 4, "K\x02\x85", "K\x01\x85")
	if g, err := dglgraph.Open(vfs.OS, write(t, f.pickle())); err != nil || g.Nodes != 1 {
		t.Errorf("%+v, %v", g, err)
	}
}

// TestChanged reads edges of files that were replaced after they were opened.
func TestChanged(t *testing.T) {
	part := compressed()
	part.tensors = "}" + text("indptr") + vector("0", 4) + "s"
	one := list()
	one.dst = "N"
	for was, now := range map[string][]string{compressed().pickle(): {part.pickle(), "\x80\x02K\x01."}, list().pickle(): {one.pickle(), "\x80\x02K\x01.", "\x80\x02}."}} {
		for _, pickle := range now {
			files := importertest.NewFiles(vfs.OS)
			name := write(t, was)
			g, err := dglgraph.Open(files, name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(write(t, pickle), name); err != nil {
				t.Fatal(err)
			}
			if err := g.Each(t.Context(), 3, func(_, _ []int64) error { return nil }); !errors.Is(err, fault.ErrInput) || !strings.HasPrefix(err.Error(), name) {
				t.Errorf("%q: %v", pickle, err)
			}
			if open := files.StillOpen(); len(open) > 0 {
				t.Errorf("%q: %d files are open", pickle, len(open))
			}
		}
	}
}

// TestRefuses changes one thing of a good graph at a time.
func TestRefuses(t *testing.T) {
	const noFused, noList = "it does not contain a FusedCSCSamplingGraph", "it does not contain a DGLGraph"
	floats := tensor("DoubleStorage", "0", 4, "K\x04\x85", "K\x01\x85")
	square := tensor("LongStorage", "1", 4, "K\x02K\x02\x86", "K\x02K\x01\x86")
	bolt := func(change func(*fused)) string {
		f := compressed()
		change(&f)
		return f.pickle()
	}
	dgl := func(change func(*listed)) string {
		l := list()
		change(&l)
		return l.pickle()
	}
	for what, c := range map[string]struct{ pickle, says string }{
		"a number":                      {"\x80\x02K\x01.", noFused},
		"another class":                 {bolt(func(f *fused) { f.class = "ctorch\nScriptObject\n" }), noFused},
		"fields in a list":              {bolt(func(f *fused) { f.fields = "]" }), noFused},
		"other fields":                  {bolt(func(f *fused) { f.fields = "}" }), noFused},
		"nothing wrapped":               {bolt(func(f *fused) { f.wrapped = "N" }), noFused},
		"a state that is no tuple":      {bolt(func(f *fused) { f.state = "}" }), noFused},
		"a state of nothing":            {bolt(func(f *fused) { f.state = ")" }), noFused},
		"a state that begins otherwise": {bolt(func(f *fused) { f.state = "N\x85" }), noFused},
		"a state without tensors":       {bolt(func(f *fused) { f.state = "}\x85" }), noFused},
		"tensors in a list":             {bolt(func(f *fused) { f.tensors = "]" }), noFused},
		"no indptr":                     {bolt(func(f *fused) { f.tensors = "}" + text("indices") + vector("1", 4) + "s" }), "its graph has no indptr"},
		"no indices":                    {bolt(func(f *fused) { f.tensors = "}" + text("indptr") + vector("0", 4) + "s" }), "its graph has no indices"},
		"types of nodes":                {bolt(func(f *fused) { f.more = text("node_type_offset") + vector("0", 4) + "s" }), "several types (it has node_type_offset)"},
		"types of edges":                {bolt(func(f *fused) { f.more = text("type_per_edge") + vector("0", 4) + "s" }), "several types (it has type_per_edge)"},
		"floats for indptr":             {bolt(func(f *fused) { f.indptr = floats }), "indptr: its elements are float64"},
		"floats for indices":            {bolt(func(f *fused) { f.indices = floats }), "indices: its elements are float64"},
		"a matrix for indptr":           {bolt(func(f *fused) { f.indptr = square }), "indptr: its shape is (2, 2)"},
		"a matrix for indices":          {bolt(func(f *fused) { f.indices = square }), "indices: its shape is (2, 2)"},
		"no indptr but a number":        {bolt(func(f *fused) { f.indptr = "K\x01" }), "indptr: it has 1 instead of a tensor"},
		"no nodes":                      {bolt(func(f *fused) { f.indptr = tensor("LongStorage", "0", 4, "K\x01\x85", "K\x01\x85") }), "indptr: the graph has 0 nodes; at least 1 is needed"},
		"not even that":                 {bolt(func(f *fused) { f.indptr = tensor("LongStorage", "0", 4, "K\x00\x85", "K\x01\x85") }), "indptr: the graph has -1 nodes; at least 1 is needed"},

		"listed fields in a list":   {dgl(func(l *listed) { l.fields = "]" }), noList},
		"two types of nodes":        {dgl(func(l *listed) { l.nodeTypes = "]" + text("a") + "a" + text("b") + "a" }), "its DGLGraph has several types: this version reads graphs of one type"},
		"two types of edges":        {dgl(func(l *listed) { l.edgeTypes = "]" + text("a") + "a" + text("b") + "a" }), "its DGLGraph has several types: this version reads graphs of one type"},
		"no types":                  {dgl(func(l *listed) { l.nodeTypes = "N" }), "its DGLGraph has several types: this version reads graphs of one type"},
		"no index":                  {dgl(func(l *listed) { l.index = "N" }), noList},
		"an index without states":   {dgl(func(l *listed) { l.index = newObject("HeteroGraphIndex") + "]b" }), noList},
		"states of another class":   {dgl(func(l *listed) { l.maker = newObject("HeteroGraphIndex") }), noList},
		"states that are not made":  {dgl(func(l *listed) { l.maker = "cdgl._ffi.object\n_new_object\n)R" }), noList},
		"a state in a list":         {dgl(func(l *listed) { l.state = "]" }), noList},
		"a state of two":            {dgl(func(l *listed) { l.state = "K\x02" + text("a") + "\x86" }), noList},
		"a state of another form":   {dgl(func(l *listed) { l.state = "K\x01" + text("a") + "]\x87" }), noList},
		"listed tensors in a tuple": {dgl(func(l *listed) { l.tensors = ")" }), noList},
		"one tensor":                {dgl(func(l *listed) { l.tensors = "]" + vector("1", 4) + "a" }), "its DGLGraph has 1 tensors instead of 2, sources and destinations: save graph.formats(\"coo\")"},
		"floats for sources":        {dgl(func(l *listed) { l.src = floats }), "source: its elements are float64"},
		"floats for destinations":   {dgl(func(l *listed) { l.dst = floats }), "destination: its elements are float64"},
		"fewer destinations":        {dgl(func(l *listed) { l.dst = tensor("LongStorage", "2", 4, "K\x03\x85", "K\x01\x85") }), "destination: its shape is (3,) instead of (4,)"},
		"no sources but a number":   {dgl(func(l *listed) { l.src = "K\x01" }), "source: it has 1 instead of a tensor"},
		"no destinations":           {dgl(func(l *listed) { l.dst = "N" }), "destination: it has None instead of a tensor"},
	} {
		files := importertest.NewFiles(vfs.OS)
		name := write(t, c.pickle)
		_, err := dglgraph.Open(files, name)
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want bad input in one line that names the file and says %q", what, err, c.says)
		}
		if open := files.StillOpen(); len(open) > 0 {
			t.Errorf("%s: %d files are open", what, len(open))
		}
	}
	if _, err := dglgraph.Open(vfs.OS, filepath.Join(t.TempDir(), "none.pt")); !errors.Is(err, fault.ErrInput) {
		t.Errorf("a missing file: %v", err)
	}
}
