package exact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parquet-go/parquet-go"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/iostack/faultio"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/exact/grid"
	"diskgnn/train/trained"
)

// By hand: the memory of sinks, and of the names of classes.
func TestSinkMemory(t *testing.T) {
	for name, want := range map[string]int64{"a.npy": 2 << 20, "a.csv": 2 << 20, "a.parquet": 1<<20 + 16<<20 + 3<<16} {
		if got := sinkBytes(name, 3); got != want {
			t.Errorf("%s: %d bytes, want %d", name, got, want)
		}
	}
	a := asked{classNames: []string{"a", "bcd"}}
	if got := a.namesBytes(); got != (2*2+32)+(2*4+32) {
		t.Errorf("names of classes take %d bytes", got)
	}
}

// By hand: a row group ends with the row that fills 4 MiB, where an id has 8 bytes, a number 4, and a name 16 more
// than its own.
func TestRowsOfARowGroup(t *testing.T) {
	for _, c := range []struct {
		v     values
		bytes int // of a row
	}{
		{values{kind: Logits, columns: 64, width: 64}, 8 + 4*64},
		{values{kind: Classes, columns: 1, width: 2, names: []string{strings.Repeat("x", 1000), "y"}}, 8 + 4 + 16 + 1000},
	} {
		first := (4<<20 + c.bytes - 1) / c.bytes
		name := filepath.Join(t.TempDir(), "out.parquet")
		s, err := newSink(disk, name, c.v, &targets{nodes: int64(first) + 1})
		check(t, err)
		check(t, addRows(t.Context(), s, c.v, 0, make([]float32, c.v.width*(first+1))))
		check(t, s.finish())
		b, err := os.ReadFile(name)
		check(t, err)
		f, err := parquet.OpenFile(strings.NewReader(string(b)), int64(len(b)))
		check(t, err)
		if g := f.RowGroups(); len(g) != 2 || g[0].NumRows() != int64(first) || g[1].NumRows() != 1 {
			t.Errorf("rows of %d bytes: %d groups, of %d rows the first", c.bytes, len(g), g[0].NumRows())
		}
	}
}

// Messages quote at most 40 bytes of a line.
func TestShortened(t *testing.T) {
	for text, want := range map[string]string{"x": "x", strings.Repeat("y", 40): strings.Repeat("y", 40), strings.Repeat("z", 41): strings.Repeat("z", 40) + "…"} {
		if got := shortened([]byte(text)); got != want {
			t.Errorf("%q", got)
		}
	}
}

// tasked keeps the names and the totals of tasks.
type tasked struct{ tasks []string }

func (*tasked) Logf(string, ...any) {}

func (s *tasked) Task(name string, total int64, unit progress.Unit) progress.Task {
	s.tasks = append(s.tasks, fmt.Sprintf("%s: %d %s", name, total, unit))
	return progress.Discard.Task(name, total, unit)
}

// A damaged table of the features' checksums is refused before anything is computed, and the message says how the
// dataset is made again.
func TestDamagedTableOfFeatures(t *testing.T) {
	raw := datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 4, Classes: 2, Seed: 1}.Raw()
	w := newWorld(t, vfstest.TempDir(t), raw, 3)
	tables, err := filepath.Glob(w.path("dataset/" + dataset.FeaturesFile + "?*"))
	check(t, err)
	if len(tables) != 1 {
		t.Fatal(tables)
	}
	b, err := os.ReadFile(tables[0])
	check(t, err)
	b[len(b)/2] ^= 1
	check(t, os.WriteFile(tables[0], b, 0o666))
	_, err = Evaluate(t.Context(), disk, w.options(), progress.Discard)
	if !errors.Is(err, fault.ErrCorrupt) || !strings.HasSuffix(err.Error(), "by its diskgnn generate or import with --force, or from a copy") {
		t.Error(err)
	}
}

// Damaged names of classes end a scoring, as all damage does.
func TestDamagedClassNames(t *testing.T) {
	raw := datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 4, Classes: 2, Seed: 1}.Raw()
	raw.ClassNames = []string{"ant", "bee"}
	w := newWorld(t, vfstest.TempDir(t), raw, 3)
	e, err := Evaluate(t.Context(), disk, w.options(), progress.Discard)
	check(t, err)
	if !slices.Equal(e.ClassNames, raw.ClassNames) {
		t.Errorf("%q", e.ClassNames)
	}
	name := w.path("dataset/" + dataset.ClassNamesFile)
	b, err := os.ReadFile(name)
	check(t, err)
	b[0] ^= 1
	check(t, os.WriteFile(name, b, 0o666))
	if _, err := Evaluate(t.Context(), disk, w.options(), progress.Discard); !errors.Is(err, fault.ErrCorrupt) {
		t.Error(err)
	}
}

// By hand: the in-edges of all nodes, and of some.
func TestListsAreMeasured(t *testing.T) {
	defer func(fold, group int) { grid.Fold, grid.GPUGroup = fold, group }(grid.Fold, grid.GPUGroup)
	grid.Fold, grid.GPUGroup = 2, 2
	g := &graph.CSC{Indptr: []int64{0, 0, 3, 5, 6}, Indices: []uint32{0, 1, 2, 0, 1, 3}}
	for _, c := range []struct {
		t    targets
		want lists
	}{
		{targets{nodes: 4}, lists{edges: 6, long: 1, most: 3, groups: []int64{3, 3}}},
		{targets{nodes: 4, ids: []uint32{0, 2, 3}}, lists{edges: 3, long: 0, most: 2, groups: []int64{2, 1}}},
		{targets{nodes: 4, ids: []uint32{1}}, lists{edges: 3, long: 1, most: 3, groups: []int64{3}}},
	} {
		if got, err := c.t.measure(t.Context(), g); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %+v, %v, want %+v", c.t.ids, got, err, c.want)
		}
	}
	if _, err := (&targets{nodes: 5}).measure(t.Context(), g); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a node without a list: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&targets{nodes: 4}).measure(ended, g); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// Defaults take the place of zero values, and of no others.
func TestDefaults(t *testing.T) {
	var o Options
	o.EnsureDefaults()
	if o.StateDType != StateFloat32 || o.Weights != trained.WeightsBest || o.Threads != runtime.GOMAXPROCS(0) || o.IO != all.Auto || o.BLAS != blas.Auto || o.Memory == 0 {
		t.Errorf("%+v", o)
	}
	given := Options{StateDType: "a", Weights: "b", Threads: 1 << 20, IO: "c", BLAS: "d", Memory: 5}
	o = given
	if o.EnsureDefaults(); o.StateDType != "a" || o.Weights != "b" || o.Threads != 1<<20 || o.IO != "c" || o.BLAS != "d" || o.Memory != 5 {
		t.Errorf("%+v, given %+v", o, given)
	}
}

// An end of the context is noticed before the first target's sources are looked at.
func TestNeededAfterTheEnd(t *testing.T) {
	raw := datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 4, Classes: 2, Seed: 1}.Raw()
	w := newWorld(t, vfstest.TempDir(t), raw, 3)
	o := w.options()
	o.EnsureDefaults()
	j := &job{fs: disk, options: o, report: progress.Discard, parts: parts{stack: all.Open}}
	check(t, j.open(t.Context()))
	defer func() { check(t, j.close()) }()
	s := &step{targets: targets{nodes: 60, ids: []uint32{7}}}
	s.sizes.Table = &grid.Table{Rows: 60, Width: 4, DType: dtype.Float32, Granule: 4096}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.findNeeded(ended, s); !errors.Is(err, context.Canceled) || s.sizes.Need != nil {
		t.Error(err, s.sizes.Need)
	}
	if err := j.findNeeded(t.Context(), s); err != nil || !slices.Equal(s.sizes.Need, []bool{true}) {
		t.Error(err, s.sizes.Need)
	}
}

// failing is a file system with a call of Stat, or of Free, that fails.
type failing struct {
	vfs.FS
	stats int // before one fails; -1: none does
	free  error
}

func (f *failing) Stat(name string) (fs.FileInfo, error) {
	if f.stats--; f.stats == -1 {
		return nil, syscall.EIO
	}
	return f.FS.Stat(name)
}

func (f *failing) Free(name string) (int64, error) {
	if f.free != nil {
		return 0, f.free
	}
	return f.FS.Free(name)
}

// Whichever look at the place of the states fails, the error is its own.
func TestScratchPlaceFails(t *testing.T) {
	open := func(f *failing) error {
		s, err := openScratch(f, filepath.Join(t.TempDir(), "run"+scratchSuffix), 1)
		if err == nil {
			check(t, s.close())
		}
		return err
	}
	n := 0
	for ; ; n++ {
		f := &failing{FS: disk, stats: n}
		err := open(f)
		if f.stats >= 0 {
			check(t, err)
			break
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("look %d: %v", n, err)
		}
	}
	if n < 2 {
		t.Errorf("%d looks", n)
	}
	if err := open(&failing{FS: disk, stats: -1, free: syscall.EIO}); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
}

// A layer that fails gives the memory of its state back.
func TestFailedLayerGivesMemoryBack(t *testing.T) {
	w := smallWorld(t)
	before := device.HostBytes()
	_, err := evaluate(t.Context(), disk, w.options(), progress.Discard, parts{stack: func(kind string, o iostack.Options) (iostack.Stack, string, error) {
		inner, how, err := all.Open(kind, o)
		return faultio.Wrap(inner, faultio.On(faultio.Nth(0, faultio.Always()), faultio.Fail(syscall.EIO))), how, err
	}})
	if !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if got := device.HostBytes(); got != before {
		t.Errorf("%d bytes are held, %d were before", got, before)
	}
}

// A step is a task with the number of its layer, of all its tiles' nodes; and a memory that does not suffice leaves
// nothing, not less.
func TestTasks(t *testing.T) {
	raw := datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 4, Classes: 2, Seed: 1}.Raw()
	w := newWorld(t, vfstest.TempDir(t), raw, 3)
	said := &tasked{}
	o := w.options()
	_, err := evaluate(t.Context(), disk, o, said, parts{stack: all.Open})
	check(t, err)
	for _, want := range []string{"layer 1 of 2: 60 nodes", "layer 2 of 2: 60 nodes"} {
		if !slices.Contains(said.tasks, want) {
			t.Errorf("no %q in %q", want, said.tasks)
		}
	}
	o.Memory = budget.Reserve
	if _, err := Evaluate(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "leaves "+budget.FormatBytes(0)+" for it") {
		t.Error(err)
	}
}
