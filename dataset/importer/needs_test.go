package importer

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/internal/extsort"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

func TestLabelMemory(t *testing.T) {
	for _, c := range []struct {
		s    Shape
		want int64
	}{
		{Shape{Nodes: 10, Classes: 100}, 50}, // a class and a split
		{Shape{Nodes: 10, Classes: 100, unlabelled: true}, 0},
		{Shape{Nodes: 10, Classes: 17, oneHot: true}, 50 + 4*Chunk},
		{Shape{Nodes: 10, Classes: Chunk + 8, oneHot: true}, 50 + 4*(Chunk+8)},
		{Shape{Nodes: 10, Classes: 17, Multi: true}, 10*(5+3) + 4*Chunk},               // and 17 bits; values
		{Shape{Nodes: 10, Classes: Chunk + 8, Multi: true}, 10*(5+2049) + 4*(Chunk+8)}, // of a row at least
	} {
		if got := c.s.labelMemory(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.s, got, c.want)
		}
	}
}

func TestLeastMemory(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		s    Shape
		o    Options
		want int64
	}{
		{Shape{Nodes: 10, Dim: 4}, Options{}, extsort.LeastEdges},
		{Shape{Nodes: 10, Dim: 4, Held: 1000}, Options{}, extsort.LeastEdges + 1000},
		{Shape{Nodes: 2 << 20, Dim: 4, Held: 1000}, Options{}, 5*2<<20 + 1000},           // the labels
		{Shape{Nodes: 10, Dim: 4}, Options{Compress: true}, 2*160 + dataset.FrameMemory}, // two blocks of ten rows
		// The numbers of the nodes, and beside two blocks another one and the least sort of rows.
		{Shape{Nodes: 10, Dim: 4}, Options{Compress: true, Relabel: RelabelDegree}, 40 + 3*160 + dataset.FrameMemory + extsort.LeastRecords + 2*16},
		{Shape{Nodes: 8 << 20, Dim: 1}, Options{Relabel: RelabelDegree}, 4*8*mib + 5*8*mib},                                                   // numbers and labels
		{Shape{Nodes: 4 << 20, Dim: 1, unlabelled: true}, Options{Relabel: RelabelDegree}, 8*4*mib + extsort.LeastEdges},                      // both numbers
		{Shape{Nodes: 4 << 20, Dim: 1, unlabelled: true}, Options{Relabel: RelabelBFS, Compress: true}, 8*4*mib + mib/2 + extsort.LeastEdges}, // and a bit
		{Shape{Nodes: 10, Dim: 1}, Options{Relabel: RelabelDegree}, 80 + extsort.LeastEdges},
	} {
		c.o.DType = dtype.Float32
		im := &importing{shape: c.s, o: c.o}
		if got := im.leastMemory(); got != c.want {
			t.Errorf("%+v, %+v: %d, want %d", c.s, c.o, got, c.want)
		}
	}
}

// TestPlanMemory divides what a source of 1000 bytes leaves of the budget: rows of a million nodes
// come in blocks of 1 MiB.
func TestPlanMemory(t *testing.T) {
	const (
		mib   = 1 << 20
		held  = 1000
		fixed = budget.Reserve + held
		frame = dataset.FrameMemory
		moved = budget.Reserve + held + 4*mib + 3*mib // and the numbers, and three blocks
	)
	for _, c := range []struct {
		memory  int64
		workers int
		o       Options
		want    importPlan
	}{
		{fixed + 100*mib, 2, Options{}, importPlan{sort: 100 * mib, features: 2 * mib, frames: 3}},
		{fixed + 2*mib + 3*frame - 1, 2, Options{}, importPlan{sort: 2*mib + 3*frame - 1, features: 2 * mib, frames: 2}},
		{fixed + 100*mib, 2, Options{Compress: true}, importPlan{sort: 100 * mib, features: 2*mib + 3*frame, frames: 3}},
		{fixed + 2*mib + 2*frame, 7, Options{Compress: true}, importPlan{sort: 2*mib + 2*frame, features: 2*mib + 2*frame, frames: 2}},
		{moved + 20*mib, 2, Options{Relabel: RelabelBFS}, importPlan{sort: 27 * mib, features: 2 * mib, rows: 20 * mib, frames: 3}},
		// Frames take half of what is left, and one at least.
		{moved + 4*frame, 7, Options{Relabel: RelabelBFS, Compress: true}, importPlan{sort: 7*mib + 4*frame, features: 2*mib + 4*frame, rows: 2 * frame, frames: 2}},
		{moved + 4*frame - 1, 7, Options{Relabel: RelabelBFS, Compress: true}, importPlan{sort: 7*mib + 4*frame - 1, features: 2*mib + 4*frame, rows: 3*frame - 1, frames: 1}},
	} {
		c.o.DType, c.o.Memory, c.o.Workers = dtype.Float32, c.memory, c.workers
		im := &importing{shape: Shape{Nodes: mib, Dim: 1, Held: held, unlabelled: true}, o: c.o}
		if err := im.planMemory(); err != nil || im.plan != c.want {
			t.Errorf("%+v: %+v, %v; want %+v", c.o, im.plan, err, c.want)
		}
	}
	im := &importing{shape: Shape{Nodes: 10, Dim: 1}, o: Options{DType: dtype.Float32}}
	for more, want := range map[int64]error{0: nil, -1: fault.ErrBudget} {
		im.o.Memory = budget.Reserve + extsort.LeastEdges + more
		if err := im.planMemory(); !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), "importing needs 36.0 MiB of memory") {
			t.Errorf("%d bytes beside the least: %v", more, err)
		}
	}
}

// TestTogether writes topology and features at a time where there is the memory, the room and a
// second worker.
func TestTogether(t *testing.T) {
	const features, sort = 1000, 1000 + 16<<20 // four of the least sorts beside
	for _, c := range []struct {
		workers  int
		sort     int64
		compress bool
		free     int64 // beside what is written of 100 edges, sorted in as many times 8 bytes, and an eighth of the table
		want     bool
	}{
		{2, sort, false, 1, true}, {1, sort, false, 1, false}, {2, sort - 1, false, 1, false}, {2, sort, false, 0, false},
		{2, sort, true, 1, true}, {2, sort, true, 0, false},
	} {
		im := &importing{shape: Shape{Nodes: 10, Edges: 100, Dim: 8}, o: Options{DType: dtype.Float32, SelfLoops: LoopsKeep, Compress: c.compress}, rep: progress.Discard}
		im.o.Workers, im.plan = c.workers, importPlan{sort: c.sort, features: features}
		const written = 11*8 + 100*4 + 10*8*4 + 10*4 // offsets, edges, features, labels
		im.fs = &room{vfs.OS, 800 + written + 10*8*4/8 + c.free}
		var err error
		if im.w, _, err = im.begin(t.Context(), filepath.Join(t.TempDir(), "D"), nil); err != nil {
			t.Fatal(err)
		}
		if got, err := im.together(); err != nil || got != c.want {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
		if err := im.w.End(nil); err != nil {
			t.Error(err)
		}
	}
}

// TestReadsFirst has labels of ten nodes, which take 50 bytes.
func TestReadsFirst(t *testing.T) {
	for _, c := range []struct {
		ahead bool
		sort  int64
		want  bool
	}{{true, 100, true}, {true, 99, false}, {false, 100, false}} {
		im := &importing{shape: Shape{Nodes: 10, Classes: 2}, ahead: c.ahead, plan: importPlan{sort: c.sort}}
		if got := im.readsFirst(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestSortEdgesFails returns the error of what reads the edges.
func TestSortEdgesFails(t *testing.T) {
	boom := errors.New("boom")
	im := &importing{fs: vfs.OS, shape: Shape{Nodes: 10, Edges: 1, Dim: 1}, o: Options{DType: dtype.Float32}, rep: progress.Discard, plan: importPlan{sort: extsort.LeastEdges}}
	im.o.Workers = 1
	var err error
	if im.w, _, err = im.begin(t.Context(), filepath.Join(t.TempDir(), "D"), nil); err != nil {
		t.Fatal(err)
	}
	err = im.sortEdges(t.Context(), extsort.EdgeOptions{Edges: 1}, func(edgeSink) error { return boom }, func(_, _ []uint32) error {
		t.Error("edges that could not be read are sorted")
		return nil
	})
	if !errors.Is(err, boom) {
		t.Error(err)
	}
	if err := im.w.End(nil); err != nil {
		t.Error(err)
	}
}

// room is a file system with so much room.
type room struct {
	vfs.FS
	free int64
}

func (r *room) Free(string) (int64, error) { return r.free, nil }

// TestOrderNeeds says what finding the order of 100 nodes takes, and moving their rows.
func TestOrderNeeds(t *testing.T) {
	type needs struct{ order, number, disk, rows, scratch int64 }
	for _, c := range []struct {
		relabel string
		dedupe  bool
		want    needs
	}{
		{RelabelNone, true, needs{scratch: 8000}},
		{RelabelDegree, false, needs{800, 400, 0, 100 * (8 + 6), 8000}},
		{RelabelDegree, true, needs{800, 400, 8000, 100 * (8 + 6), 8000}},
		// Both directions of the edges, and the neighbours and where they begin.
		{RelabelBFS, false, needs{800 + 16, 400, 16000 + 8000 + 808, 100 * (8 + 6), 24808}},
	} {
		im := &importing{shape: Shape{Nodes: 100, Edges: 1000, Dim: 3}, o: Options{Relabel: c.relabel, Dedupe: c.dedupe, DType: dtype.Float16, SelfLoops: LoopsKeep}}
		if got := (needs{im.orderMemory(), im.numberMemory(), im.orderScratch(), im.rowScratch(), im.scratch()}); got != c.want {
			t.Errorf("%s, dedupe %v: %+v, want %+v", c.relabel, c.dedupe, got, c.want)
		}
	}
	// Rows of 300 numbers take more than the edges: the sort of them, and what it sorts.
	im := &importing{shape: Shape{Nodes: 100, Edges: 10, Dim: 300}, o: Options{Relabel: RelabelDegree, DType: dtype.Float16}}
	if got := im.scratch(); got != 100*(8+600)+100*600 {
		t.Errorf("%d bytes of scratch", got)
	}
	for n, want := range map[int64]int64{0: 0, 1: 8, 64: 8, 65: 16} {
		if got := bitBytes(n); got != want {
			t.Errorf("%d bits in %d bytes", n, got)
		}
	}
}

// TestStoredEdges counts the edges of 100 between 10 nodes.
func TestStoredEdges(t *testing.T) {
	for _, c := range []struct {
		o       Options
		reverse bool
		want    dataset.Need
	}{
		{Options{SelfLoops: LoopsKeep}, false, dataset.Need{Least: 100, Most: 100}},
		{Options{SelfLoops: LoopsKeep}, true, dataset.Need{Least: 200, Most: 200}},
		{Options{SelfLoops: LoopsKeep, Dedupe: true}, false, dataset.Need{Least: 0, Most: 100}},
		{Options{SelfLoops: LoopsDrop}, false, dataset.Need{Least: 0, Most: 100}},
		{Options{SelfLoops: LoopsAdd}, false, dataset.Need{Least: 100, Most: 110}},
		{Options{SelfLoops: LoopsDrop, Dedupe: true, Symmetrize: true}, false, dataset.Need{Least: 100, Most: 200}},
	} {
		im := &importing{shape: Shape{Nodes: 10, Edges: 100}, o: c.o, reverse: c.reverse}
		if got := im.storedEdges(); got != c.want {
			t.Errorf("%+v, reverse %t: %+v, want %+v", c.o, c.reverse, got, c.want)
		}
	}
}

// TestLabelsOfManyBytes gives the last node the last of nine classes, which has a byte of its own.
func TestLabelsOfManyBytes(t *testing.T) {
	l := newLabelling(&Shape{Nodes: 3, Classes: 9, Multi: true})
	if err := l.Row(2, []float32{1, 0, 0, 0, 0, 0, 0, 0, 1}); err != nil {
		t.Fatal(err)
	}
	if want := []byte{0, 0, 0, 0, 1, 1}; !slices.Equal(l.targets, want) {
		t.Errorf("%v, want %v", l.targets, want)
	}
}
