package export_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/export"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// named makes a dataset of the hand-drawn graph, whose nodes have names. It has 8 nodes, 17 edges and
// 3 features.
func named(t *testing.T) string {
	t.Helper()
	raw := datasettest.Tiny(t)
	raw.Names = []string{"a", "bb", "c", "d", "e", "f", "g", "h"}
	return datasettest.Create(t, vfstest.TempDir(t), raw).Dir()
}

func open(t *testing.T, fsys vfs.FS, dir string) *dataset.Dataset {
	t.Helper()
	d, err := dataset.Open(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// empty checks that nothing is left of an export, but directories.
func empty(t *testing.T, dir string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, f fs.DirEntry, err error) error {
		if err == nil && (!f.IsDir() || strings.HasSuffix(path, ".exporting")) {
			t.Errorf("%s is left", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestFaults fails every write in turn: nothing passes for what was exported, and a later run, which is
// tried of one format, exports it all.
func TestFaults(t *testing.T) {
	d := open(t, vfs.OS, named(t))
	for _, format := range export.Formats() {
		for n := 0; ; n++ {
			dir := vfstest.TempDir(t)
			o := export.Options{Format: format, Out: filepath.Join(dir, "made", "X")}
			in := &vfs.FailAt{N: n, Err: errors.New("the disk failed")}
			files := importertest.NewFiles(vfs.Inject(datasettest.FS, in))
			_, err := export.Run(t.Context(), files, d, o, progress.Discard)
			if left := files.StillOpen(); len(left) > 0 {
				t.Errorf("%s: %v, and %q are open", format, in, left)
			}
			if !in.Fired() {
				if err != nil || n < 30 { // directories, files, syncs, the rename
					t.Errorf("%s: %d operations fail, then %v", format, n, err)
				}
				break
			}
			if !errors.Is(err, in.Err) {
				t.Errorf("%s: %v, yet %v", format, in, err)
			}
			if _, err := os.Stat(o.Out); err == nil { // the rename was done
				if left, err := os.ReadDir(o.Out); err != nil || len(left) < 9 {
					t.Errorf("%s: %v, and %v are there, %v", format, in, left, err)
				}
				continue
			}
			empty(t, dir)
			if format == export.FormatGraphBolt {
				if _, err := export.Run(t.Context(), datasettest.FS, d, o, progress.Discard); err != nil {
					t.Errorf("after %v: %v", in, err)
				}
			}
		}
	}
}

// TestReadFaults fails every reading of the dataset in turn.
func TestReadFaults(t *testing.T) {
	many := generated(t, dataset.GenerateOptions{Nodes: 40, AvgDegree: 2, Dim: 1, Classes: 9, MultiLabel: true, TrainRatio: 0.5})
	for _, c := range []struct{ dir, format string }{{named(t), export.FormatGraphBolt}, {many, export.FormatGraphBolt}, {many, export.FormatNPY}} {
		dir, format := c.dir, c.format
		for n := 0; ; n++ {
			began := false
			in := &vfs.FailAt{N: n, Err: errors.New("the disk failed"), Match: func(op vfs.Op, _ string) bool {
				return began && (op == vfs.OpOpen || op == vfs.OpRead)
			}}
			d := open(t, vfs.Inject(vfs.OS, in), dir)
			began = true
			to := vfstest.TempDir(t)
			_, err := export.Run(t.Context(), datasettest.FS, d, export.Options{Format: format, Out: filepath.Join(to, "X")}, progress.Discard)
			if !in.Fired() {
				if err != nil || n < 10 {
					t.Errorf("%s: %d operations fail, then %v", format, n, err)
				}
				break
			}
			if !errors.Is(err, in.Err) {
				t.Errorf("%s: %v, yet %v", format, in, err)
			}
			empty(t, to)
		}
	}
}

// TestCancelled ends the context at every write in turn.
func TestCancelled(t *testing.T) {
	d := open(t, vfs.OS, named(t))
	for _, format := range export.Formats() {
		for n := 1; ; n++ {
			ctx, cancel := context.WithCancel(t.Context())
			dir := vfstest.TempDir(t)
			in := &datasettest.CancelAt{N: n, Cancel: cancel}
			_, err := export.Run(ctx, vfs.Inject(datasettest.FS, in), d, export.Options{Format: format, Out: filepath.Join(dir, "X")}, progress.Discard)
			if ctx.Err() == nil {
				if err != nil || n < 9 {
					t.Errorf("%s: %d writes, then %v", format, n, err)
				}
				cancel()
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: cancelled at write %d: %v", format, n, err)
			}
			empty(t, dir)
		}
	}
}

// writes ends a context at a write, and counts all.
type writes struct {
	n, last int
	cancel  context.CancelFunc
}

func (w *writes) Before(op vfs.Op, _ string) error {
	if op == vfs.OpWrite {
		if w.n++; w.n == w.last {
			w.cancel()
		}
	}
	return nil
}

// TestCancelledSoon ends the context while the ends of edges are written, of which there are several
// writes to come.
func TestCancelledSoon(t *testing.T) {
	d := open(t, vfs.OS, generated(t, dataset.GenerateOptions{Nodes: 2000, AvgDegree: 250, Dim: 1, Classes: 2, TrainRatio: 0.5}))
	ctx, cancel := context.WithCancel(t.Context())
	const sources = 4 // MiB, of 500,000 edges
	in := &writes{last: sources + 1, cancel: cancel}
	_, err := export.Run(ctx, vfs.Inject(datasettest.FS, in), d, export.Options{Format: export.FormatGraphBolt, Out: filepath.Join(vfstest.TempDir(t), "X")}, progress.Discard)
	if !errors.Is(err, context.Canceled) || in.n != in.last {
		t.Errorf("cancelled at write %d: %v after write %d", in.last, err, in.n)
	}
}

// TestSpace gives the disk just enough room, and a byte less.
func TestSpace(t *testing.T) {
	raw := datasettest.Tiny(t)
	full := open(t, vfs.OS, datasettest.Create(t, vfstest.TempDir(t), raw).Dir())
	half := open(t, vfs.OS, generated(t, dataset.GenerateOptions{Nodes: 300, AvgDegree: 4, Dim: 7, Classes: 3, DType: dtype.Float16}))
	for _, c := range []struct {
		d      *dataset.Dataset
		format string
		need   int64
	}{
		{full, export.FormatGraphBolt, 17*16 + 8*3*4},
		{full, export.FormatNPY, 17*4 + 8*3*4},
		{half, export.FormatNPY, half.Facts().Edges*4 + 300*7*2},
	} {
		for _, less := range []int64{0, 1} {
			fsys := datasettest.FreeSpace{FS: datasettest.FS, Bytes: c.need - less}
			dir := vfstest.TempDir(t)
			_, err := export.Run(t.Context(), fsys, c.d, export.Options{Format: c.format, Out: filepath.Join(dir, "X")}, progress.Discard)
			if less == 0 && err != nil || less == 1 && !errors.Is(err, fault.ErrBudget) {
				t.Errorf("%s with %d bytes of %d: %v", c.format, c.need-less, c.need, err)
			}
			if err != nil {
				empty(t, dir)
			}
		}
	}
}

// unseen is a file system that cannot look for a name, at the given time from 1.
type unseen struct {
	vfs.FS
	name string
	time int
}

var errUnseen = errors.New("the disk failed")

func (u *unseen) Stat(name string) (fs.FileInfo, error) {
	if name == u.name {
		if u.time--; u.time == 0 {
			return nil, errUnseen
		}
	}
	return u.FS.Stat(name)
}

// beaten is a file system where another process makes a directory before the lock is held.
type beaten struct {
	vfs.FS
	name string
}

func (b *beaten) Lock(name string) (io.Closer, error) {
	if err := b.MkdirAll(b.name); err != nil {
		return nil, err
	}
	return b.FS.Lock(name)
}

// TestExists looks for the directory before the lock and after it. An error says what happened, in
// one line.
func TestExists(t *testing.T) {
	d := open(t, vfs.OS, named(t))
	dir := vfstest.TempDir(t)
	o := export.Options{Format: export.FormatNPY, Out: filepath.Join(dir, "X")}
	for _, fsys := range []*unseen{
		{datasettest.FS, o.Out, 1}, {datasettest.FS, o.Out, 2},
		{datasettest.FS, dir, 1}, // to see how much room there is
	} {
		where, time := fsys.name, fsys.time
		_, err := export.Run(t.Context(), fsys, d, o, progress.Discard)
		if err == nil || err.Error() != "export: the disk failed" || errors.Is(err, fault.ErrExists) {
			t.Errorf("look %d at %s fails: %v", time, where, err)
		}
		empty(t, dir)
	}
	_, err := export.Run(t.Context(), &beaten{datasettest.FS, o.Out}, d, o, progress.Discard)
	if want := fmt.Sprintf("export: %s exists", o.Out); !errors.Is(err, fault.ErrExists) || err.Error() != want {
		t.Errorf("beaten by another: %v", err)
	}
	if _, err := os.Stat(o.Out); err != nil {
		t.Errorf("what the other made: %v", err)
	}
	empty(t, dir)
}

// said keeps messages, and what a task counted.
type said struct {
	lines []string
	tasks map[string]*counted
}

type counted struct{ total, done, ended int64 }

func (s *said) Logf(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *said) Task(name string, total int64, _ progress.Unit) progress.Task {
	if s.tasks == nil {
		s.tasks = map[string]*counted{}
	}
	s.tasks[name] = &counted{total: total}
	return s.tasks[name]
}

func (c *counted) Add(n int64) { c.done += n }
func (c *counted) Done()       { c.ended++ }

// TestSays compares what is said of a dataset, and the result.
func TestSays(t *testing.T) {
	left := datasettest.Tiny(t)
	left.Valid = nil // nodes 2 and 5, which have labels
	narrow := dataset.GenerateOptions{Nodes: 10, AvgDegree: 2, Dim: 3, Classes: 2, DType: dtype.BFloat16, TrainRatio: 0.5}
	const lost = "left out the labels of 2 nodes in no split: GraphBolt's format has labels only for splits"
	const wide = "NumPy has no bfloat16: writing the features as float32"
	for _, c := range []struct {
		dir, format string
		bytes       int64 // of features
		want        []string
	}{
		{named(t), export.FormatGraphBolt, 96, nil},
		{named(t), export.FormatNPY, 96, nil},
		{datasettest.Create(t, vfstest.TempDir(t), left).Dir(), export.FormatGraphBolt, 96, []string{lost}},
		{datasettest.Create(t, vfstest.TempDir(t), left).Dir(), export.FormatNPY, 96, nil},
		{generated(t, narrow), export.FormatNPY, 60, []string{wide}},
	} {
		d, rep := open(t, vfs.OS, c.dir), &said{}
		o := export.Options{Format: c.format, Out: filepath.Join(vfstest.TempDir(t), "X")}
		res, err := export.Run(t.Context(), datasettest.FS, d, o, rep)
		if err != nil || !slices.Equal(rep.lines, c.want) {
			t.Errorf("%s: it says %q, %v; want %q", c.format, rep.lines, err, c.want)
		}
		f := d.Facts()
		if res.Out != o.Out || res.Format != c.format || res.Nodes != f.Nodes || res.Edges != f.Edges || res.DType != "float32" || res.Seconds <= 0 {
			t.Errorf("%s: %+v", c.format, res)
		}
		if task := rep.tasks["write features"]; task == nil || task.done != c.bytes || task.total != c.bytes || task.ended != 1 {
			t.Errorf("%s: features counted %+v; want %d", c.format, task, c.bytes)
		}
	}
}
