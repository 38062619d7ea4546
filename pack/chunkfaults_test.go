package pack

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/iostack"
	"diskgnn/iostack/faultio"
	"diskgnn/iostack/pread"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/packfile"
)

// TestEvalChunkFaults writes chunks of validation batches from rows, graphs and tables that are damaged, cut off
// or not readable: each is noticed and named.
func TestEvalChunkFaults(t *testing.T) {
	o := drawn(t, datasettest.Params{Nodes: 100, AvgDegree: 4, Dim: 300, Seed: 5}.Raw())
	o.Out, o.EvalChunks, o.Cache, o.Bands = t.TempDir()+"/P", true, &budget.Size{Value: 10, Unit: budget.UnitPercent}, []float64{40}
	if _, err := Run(t.Context(), unsynced, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	r, err := packfile.Open(unsynced, o.Out)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := pread.New(iostack.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	boom := errors.New("boom")
	f, x := r.Facts(), r.Index()
	for name, c := range map[string]struct {
		stack  iostack.Stack
		change func(path string) error
		want   error
		says   string
	}{
		"none":   {stack: plain},
		"flip":   {stack: faultio.Wrap(plain, faultio.On(faultio.File(packfile.EvalFile), faultio.Flip(70, 1))), want: fault.ErrCorrupt, says: packfile.EvalFile},
		"fail":   {stack: faultio.Wrap(plain, faultio.On(faultio.File(packfile.HotFile), faultio.Fail(boom))), want: boom},
		"graph":  {stack: plain, change: flipped(packfile.EvalGraphFile, 40), want: fault.ErrCorrupt, says: packfile.EvalGraphFile},
		"table":  {stack: plain, change: flipped(packfile.HotSums, 30), want: fault.ErrCorrupt, says: packfile.HotSums},
		"cutoff": {stack: plain, change: func(dir string) error { return os.Truncate(filepath.Join(dir, packfile.EvalGraphFile), 100) }, want: fault.ErrCorrupt, says: "truncated"},
	} {
		dir, _, err := stage.Begin(unsynced, t.TempDir()+"/P", stage.Spec{Format: packfile.Format, Params: struct{}{}}, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(dir.Path(), os.DirFS(o.Out)); err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			if err := c.change(dir.Path()); err != nil {
				t.Fatal(err)
			}
		}
		files := rowfile.NewSet(dir, 0)
		made, _ := r.File(packfile.EvalColdFile)
		w := &evalChunks{dir: dir, stack: c.stack, facts: &f, valid: x.Valid, rows: 7, sums: binio.NewScatter(made.Size, binio.Page),
			slots: []*chunkSlot{{buf: make([]byte, 0, writeBuffer)}}, task: progress.Discard.Task("", 0, progress.Bytes)}
		if w.window, err = device.NewHost(7*f.RowBytes + 2*binio.Page); err != nil {
			t.Fatal(err)
		}
		if w.graphs, err = unsynced.Open(dir.File(packfile.EvalGraphFile)); err != nil {
			t.Fatal(err)
		}
		if w.out, err = files.Create("again.bin", made.Size); err != nil {
			t.Fatal(err)
		}
		err = w.file(t.Context(), r.Meta().Files, packfile.EvalFile, packfile.EvalSums, 0, f.EvalRows, w.places)
		if err == nil {
			err = w.file(t.Context(), r.Meta().Files, packfile.HotFile, packfile.HotSums, x.Edges[len(x.Edges)-1], f.HotRows, w.ranks)
		}
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if sums := w.sums.Sums(); c.want == nil && sums.Checksum() != made.Checksum {
			t.Errorf("%s: other rows", name)
		}
		w.window.Free()
		_ = w.graphs.Close()
		w.out.Close()
		_ = dir.End(boom)
	}
}

// flipped returns a function that changes a bit of a file.
func flipped(name string, at int) func(dir string) error {
	return func(dir string) error {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b[at] ^= 2
		return os.WriteFile(path, b, 0o666)
	}
}
