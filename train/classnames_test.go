package train

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/internal/progress"
	"diskgnn/pack/packfile"
	"diskgnn/pack/slice"
	"diskgnn/train/report"
	"diskgnn/train/rundir"
	"diskgnn/train/trained"
)

// TestClassNames follows the names of the classes from the dataset through a pack, a slice of it, and runs
// on either source.
func TestClassNames(t *testing.T) {
	names := []string{"ant", "bee", "crow"}
	w := newWorld(t, worldParams{names: names})
	p := w.pack(10)
	if got := dataset.RecordedClassNames(disk, p); !slices.Equal(got, names) {
		t.Errorf("the pack: %q", got)
	}
	part := filepath.Join(w.dir, "part")
	if _, err := slice.Run(context.Background(), disk, slice.Options{Pack: p, Out: part, Slice: packfile.Slice{Rank: 0, World: 2, Accumulate: 2}}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	if got := dataset.RecordedClassNames(disk, part); !slices.Equal(got, names) {
		t.Errorf("the slice: %q", got)
	}
	for what, o := range map[string]Options{
		"pack": w.options(p, func(o *Options) { o.Epochs = 1 }),
		"samples": w.options("", func(o *Options) {
			o.Epochs, o.Store, o.Dataset, o.Samples = 1, "memory", w.path("dataset"), w.path("samples")
		}),
	} {
		w.mustRun(o, nil)
		f, err := rundir.Read(disk, o.Out)
		if err != nil || !slices.Equal(f.ClassNames, names) {
			t.Errorf("%s: %q, %v", what, f.ClassNames, err)
		}
		if e, err := trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: o.Out, Pack: p, BLAS: "gonum", Threads: 1}, progress.Discard); err != nil || !slices.Equal(e.ClassNames, names) {
			t.Errorf("%s: %q, %v", what, e.ClassNames, err)
		}
		r, err := report.Read(disk, o.Out)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, table := range r.Document().Tables {
			found = found || slices.Contains(table.Rows, report.Row{Name: "classes", Value: "0: ant; 1: bee; 2: crow"})
		}
		if !found {
			t.Errorf("%s: no names on the page", what)
		}
	}
	if got := dataset.RecordedClassNames(disk, newWorld(t, worldParams{}).pack(10)); got != nil {
		t.Errorf("without names: %q", got)
	}
}
