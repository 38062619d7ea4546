package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// atOnce is a source that yields all its edges in one call.
type atOnce struct {
	Source
	dst, src []int64
}

func (a *atOnce) Edges(_ context.Context, add func(dst, src []int64) error) error {
	return add(a.dst, a.src)
}

// sink keeps what it takes.
type sink struct {
	pairs []uint32
	both  []bool
	room  int // of the first piece
	fails error
}

func (s *sink) AddAll(pairs []uint32, both bool) error {
	s.pairs, s.both = append(s.pairs, pairs...), append(s.both, both)
	if len(s.both) == 1 {
		s.room = cap(pairs)
	}
	return s.fails
}

// TestReadEdges stores the edges 1→0, 1→1 and 2→1 of three nodes in every way.
func TestReadEdges(t *testing.T) {
	for _, c := range []struct {
		store storing
		want  []uint32
		both  []bool
	}{
		{storing{loops: true}, []uint32{0, 1, 1, 1, 1, 2}, []bool{false}},
		{storing{}, []uint32{0, 1, 1, 2}, []bool{false}},
		{storing{both: true}, []uint32{0, 1, 1, 2}, []bool{true}},
		{storing{both: true, add: true}, []uint32{0, 1, 1, 2, 0, 0, 1, 1, 2, 2}, []bool{true, false, false, false}},
		{storing{loops: true, to: []uint32{5, 6, 7}}, []uint32{5, 6, 6, 6, 6, 7}, []bool{false}},
		{storing{to: []uint32{5, 6, 7}}, []uint32{5, 6, 6, 7}, []bool{false}},
	} {
		im := &importing{rep: progress.Discard, shape: Shape{Nodes: 3}, src: &atOnce{dst: []int64{0, 1, 1}, src: []int64{1, 1, 2}}}
		s := &sink{}
		if err := im.readEdges(t.Context(), s, c.store); err != nil || !slices.Equal(s.pairs, c.want) || !slices.Equal(s.both, c.both) {
			t.Errorf("%+v: %d, both %v, %v; want %d", c.store, s.pairs, s.both, err, c.want)
		}
		if s.room != 2*Chunk {
			t.Errorf("%+v: a piece has room for %d numbers: it grows", c.store, s.room)
		}
	}
	for o, want := range map[*importing]storing{
		{o: Options{SelfLoops: LoopsKeep}}:                                 {loops: true},
		{o: Options{SelfLoops: LoopsDrop, Symmetrize: true}}:               {both: true},
		{o: Options{SelfLoops: LoopsAdd}, reverse: true}:                   {both: true, add: true},
		{o: Options{SelfLoops: LoopsAdd, Symmetrize: true}, reverse: true}: {both: true, add: true},
	} {
		if got := o.storing(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v: %+v, want %+v", o.o, got, want)
		}
	}
}

// TestReadManyEdges takes more at once than a piece holds, and stops with the sink and the context.
func TestReadManyEdges(t *testing.T) {
	const n = 6*Chunk + 1
	a := &atOnce{dst: make([]int64, n), src: make([]int64, n)}
	for i := range a.dst {
		a.dst[i], a.src[i] = int64(i), int64(2*i+1)
	}
	im := &importing{rep: progress.Discard, shape: Shape{Nodes: 1}, src: a}
	s := &sink{}
	if err := im.readEdges(t.Context(), s, storing{}); err != nil || len(s.pairs) != 2*n || len(s.both) != 7 {
		t.Fatalf("%d edges in %d pieces, %v", len(s.pairs)/2, len(s.both), err)
	}
	for i := range n {
		if s.pairs[2*i] != uint32(i) || s.pairs[2*i+1] != uint32(2*i+1) {
			t.Fatalf("edge %d is %d→%d", i, s.pairs[2*i+1], s.pairs[2*i])
		}
	}
	boom := errors.New("boom")
	if err := im.readEdges(t.Context(), &sink{fails: boom}, storing{}); !errors.Is(err, boom) {
		t.Errorf("not sorted: %v", err)
	}
	im.src = &atOnce{}
	if err := im.readEdges(t.Context(), &sink{fails: boom}, storing{add: true}); !errors.Is(err, boom) {
		t.Errorf("self-loops are not sorted: %v", err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	im.src = a
	if err := im.readEdges(done, &sink{}, storing{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestParams writes down what decides the bytes, and nothing that no option said.
func TestParams(t *testing.T) {
	for _, c := range []struct {
		im   importing
		want string
	}{
		{importing{o: Options{SelfLoops: LoopsKeep, Relabel: RelabelNone}},
			`{"source":"import","importer":1,"format":"f","content_sha256":"c","dtype":"","binarize":false,"row_normalize":false,"symmetrize":false}`},
		{importing{o: Options{SelfLoops: LoopsDrop, Relabel: RelabelBFS, Dedupe: true, Binarize: true, DType: dtype.Float16, Reading: Reading{For: ForPredict}}, reverse: true},
			`{"source":"import","importer":1,"format":"f","content_sha256":"c","dtype":"float16","binarize":true,"row_normalize":false,"symmetrize":false,"add_reverse_edges":true,"dedupe":true,"self_loops":"drop","relabel":"bfs","for":"predict"}`},
		{importing{o: Options{SelfLoops: LoopsDrop, Symmetrize: true, Dedupe: true, RowNormalize: true, Compress: true}, split: &Split{Parts: "60/20/20", Seed: 7, Stratify: true}},
			`{"source":"import","importer":1,"format":"f","content_sha256":"c","dtype":"","binarize":false,"row_normalize":true,"symmetrize":true,"compression":"zstd-1","split":"60/20/20","split_seed":7,"stratify":true}`},
		{importing{o: Options{SelfLoops: LoopsAdd, Symmetrize: true}, shape: Shape{Reading: map[string]string{"task": "x"}}},
			`{"source":"import","importer":1,"format":"f","content_sha256":"c","dtype":"","binarize":false,"row_normalize":false,"symmetrize":true,"self_loops":"add","reading":{"task":"x"}}`},
	} {
		c.im.format.Name = "f"
		if b, err := json.Marshal(c.im.params("c")); err != nil || string(b) != c.want {
			t.Errorf("%s, %v; want\n%s", b, err, c.want)
		}
	}
}

// shaped is a source of a shape.
type shaped struct {
	Source
	shape Shape
}

func (s shaped) Shape() Shape { return s.shape }

// TestOpen settles what options and the shape leave open.
func TestOpen(t *testing.T) {
	type settled struct {
		symmetrize, dedupe, reverse, split bool
		loops                              string
		dtype                              dtype.Type
		classes                            int
	}
	for _, c := range []struct {
		o    Options
		s    Shape
		want settled
	}{
		{Options{}, Shape{DType: dtype.Float16, Classes: 3}, settled{loops: LoopsKeep, dtype: dtype.Float16, classes: 3}},
		{Options{DType: dtype.BFloat16}, Shape{DType: dtype.Float16}, settled{loops: LoopsKeep, dtype: dtype.BFloat16}},
		{Options{Symmetrize: true}, Shape{AddReverse: true}, settled{symmetrize: true, dedupe: true, loops: LoopsDrop}},
		{Options{}, Shape{Undirected: true}, settled{symmetrize: true, dedupe: true, loops: LoopsDrop}},
		{Options{SelfLoops: LoopsAdd}, Shape{Undirected: true}, settled{symmetrize: true, dedupe: true, loops: LoopsAdd}},
		{Options{}, Shape{AddReverse: true}, settled{reverse: true, loops: LoopsKeep}},
		{Options{Reading: Reading{Reverse: ReverseNo}}, Shape{AddReverse: true}, settled{loops: LoopsKeep}},
		{Options{Reading: Reading{Reverse: ReverseYes}}, Shape{}, settled{reverse: true, loops: LoopsKeep}},
		{Options{Split: &Split{Parts: "60/20/20"}}, Shape{NoSplit: true}, settled{split: true, loops: LoopsKeep}},
		{Options{Reading: Reading{For: ForPredict}}, Shape{NoSplit: true, Multi: true, Classes: 3}, settled{loops: LoopsKeep}},
	} {
		c.o.Memory = 100 << 20
		c.o.EnsureDefaults()
		im := &importing{o: c.o}
		im.format = Format{Name: "f", Open: func(_ vfs.FS, _ []string, r *Reading) (Source, error) {
			if r.Scratch != filepath.Join("d", "D.names") || r.ScratchMemory != 100<<20-budget.Reserve {
				t.Errorf("scratch is %s, of %d bytes", r.Scratch, r.ScratchMemory)
			}
			return shaped{shape: c.s}, nil
		}}
		if err := im.open("d//D/"); err != nil {
			t.Fatal(err)
		}
		got := settled{im.o.Symmetrize, im.o.Dedupe, im.reverse, im.split != nil, im.o.SelfLoops, im.o.DType, im.shape.Classes}
		if got != c.want || c.o.For != "" && (im.shape.Multi || !im.shape.unlabelled || im.labelKind() != dataset.NoLabels) {
			t.Errorf("%+v of %+v: %+v, want %+v", c.o, c.s, got, c.want)
		}
	}
	im := &importing{o: Options{Reading: Reading{Task: "x"}}, format: Format{Name: "f"}}
	if err := im.open("D"); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--task: the format f does not take this flag") {
		t.Errorf("an option of others: %v", err)
	}
	boom := errors.New("boom")
	im = &importing{format: Format{Name: "f", Open: func(vfs.FS, []string, *Reading) (Source, error) { return nil, boom }}}
	if err := im.open("D"); !errors.Is(err, boom) || im.src != nil || im.closeSource() != nil {
		t.Errorf("not opened: %v", err)
	}
}

// TestFacts says which ids nodes have: one byte is a name.
func TestFacts(t *testing.T) {
	for _, c := range []struct {
		bytes   int64
		relabel string
		want    string
	}{{0, RelabelNone, ""}, {1, RelabelNone, dataset.IDNames}, {1, RelabelBFS, dataset.IDNames}, {0, RelabelBFS, dataset.IDNumbers}} {
		im := &importing{shape: Shape{Nodes: 1, NameBytes: c.bytes}, o: Options{Relabel: c.relabel}}
		if f := im.facts(); f.OriginalIDs != c.want || f.NameBytes != c.bytes {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

// TestOpensInBudget opens a source whose nodes have names under the budget: numbering them takes memory.
func TestOpensInBudget(t *testing.T) {
	const memory = 1234 << 20
	unlimited := debug.SetMemoryLimit(-1)
	undo := budget.LimitHeap(memory, 0)
	limited := debug.SetMemoryLimit(-1)
	undo()
	boom := errors.New("boom")
	for ids, want := range map[string]int64{"": unlimited, "edges": limited} {
		f := Format{Name: "f", Takes: []string{"node-ids"}, Open: func(vfs.FS, []string, *Reading) (Source, error) {
			if got := debug.SetMemoryLimit(-1); got != want {
				t.Errorf("ids %q: opened under %d bytes, want %d", ids, got, want)
			}
			return nil, boom
		}}
		o := Options{Sources: []string{"-"}, Reading: Reading{NodeIDs: ids}}
		o.Memory = memory
		if _, err := Import(t.Context(), vfs.OS, filepath.Join(t.TempDir(), "D"), f, o, progress.Discard); !errors.Is(err, boom) {
			t.Error(err)
		}
	}
	if got := debug.SetMemoryLimit(-1); got != unlimited {
		t.Errorf("%d bytes are left as the limit", got)
	}
}

// TestFresh looks for a dataset and for the beginning of one.
func TestFresh(t *testing.T) {
	out := filepath.Join(vfstest.TempDir(t), "D")
	im := &importing{fs: vfs.OS}
	for _, name := range []string{out, stage.Partial(out)} {
		if !im.fresh(out) {
			t.Errorf("something is there beside %s", name)
		}
		if err := os.Mkdir(name, 0o777); err != nil {
			t.Fatal(err)
		}
		if im.fresh(out) {
			t.Errorf("%s is there", name)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestName(t *testing.T) {
	for want, o := range map[string]Options{"a, b": {Sources: []string{"a", "b"}}, "e": {Reading: Reading{Edges: "e"}}} {
		if got := (&importing{o: o}).name(); got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
}

// TestTooManyEdges refuses a graph of an edge more than can be computed with.
func TestTooManyEdges(t *testing.T) {
	for more, bad := range map[int64]bool{0: false, 1: true} {
		im := &importing{fs: vfs.OS, rep: progress.Discard, shape: Shape{Nodes: 1, Edges: MaxEdges + more, Dim: 1}, o: Options{Sources: []string{"here"}, DType: dtype.Float32}}
		w, _, err := im.begin(t.Context(), filepath.Join(vfstest.TempDir(t), "D"), nil)
		if bad != errors.Is(err, fault.ErrInput) || bad && !strings.Contains(err.Error(), "here has more than") {
			t.Errorf("%d edges more: %v", more, err)
		}
		if err == nil {
			if err := w.End(nil); err != nil {
				t.Error(err)
			}
		}
	}
}
