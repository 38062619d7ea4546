package importer_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// lined is a drawn graph whose edges are as many as lines of a file.
type lined struct {
	drawn
	file string
}

func (l *lined) Files() []string                         { return []string{l.file} }
func (l *lined) CountEdges(lines map[string]int64) int64 { return lines[l.file] }
func (l *lined) Shape() importer.Shape {
	s := l.drawn.Shape()
	s.Edges, s.Notes = 0, []string{"a note"}
	return s
}

// full is a file system with so little room.
type full struct {
	vfs.FS
	free int64
}

func (f full) Free(string) (int64, error) { return f.free, nil }

func formatOf(src importer.Source) importer.Format {
	return importer.Format{Name: "some", Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return src, nil }}
}

func plan(t *testing.T, fsys vfs.FS, src importer.Source, o importer.Options) importer.Plan {
	t.Helper()
	o.Sources = []string{"here"}
	p, err := importer.MakePlan(t.Context(), fsys, filepath.Join(t.TempDir(), "D"), formatOf(src), o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestMakePlan looks at twenty nodes with two features, and a file of 40 lines, or of about 20 thousand.
func TestMakePlan(t *testing.T) {
	l := &lined{drawn{nodes: 20, dim: 2, classes: 3, edges: [][2]int64{{0, 1}}}, filepath.Join(t.TempDir(), "edges")}
	save := func(lines int) {
		if err := os.WriteFile(l.file, []byte(strings.Repeat("12345678\n", lines)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	save(40)
	p := plan(t, datasettest.FS, l, importer.Options{})
	facts := dataset.Facts{Nodes: 20, Dim: 2, DType: dtype.Float32, LabelKind: dataset.LabelKind(false), Classes: 3, Train: p.Train, Valid: p.Valid, Test: p.Test}
	if p.Format != "some" || p.SourceBytes != 360 || p.Nodes != 20 || p.Edges != 40 || p.Estimated || p.Dim != 2 || p.SourceDType != dtype.Float32 || p.DType != dtype.Float32 ||
		p.Classes != 3 || p.Train+p.Valid+p.Test+p.Unlabelled != 20 || p.Train < 4 || p.Valid < 1 || p.Test < 1 || p.Unlabelled < 1 || p.LabelKind != facts.LabelKind || p.OriginalIDs != "" || !slices.Equal(p.Notes, []string{"a note"}) || len(p.Problems) != 0 {
		t.Errorf("%+v", p)
	}
	if p.MemoryBytes != budget.Reserve+4<<20 || p.ScratchBytes != 8*40 || p.DiskBytes != dataset.DiskBytes(facts, 40) || p.NeededBytes != dataset.DiskNeed(facts, dataset.Need{Least: 40, Most: 40}, 320).Most {
		t.Errorf("%d bytes of memory, %d of scratch, %d on disk, of %d that are needed", p.MemoryBytes, p.ScratchBytes, p.DiskBytes, p.NeededBytes)
	}
	// Offsets, edges, features, labels and splits, compressed or not.
	want := 21*8 + 40*4 + 20*2*4 + 20*4 + 4*(p.Train+p.Valid+p.Test)
	if compressed := plan(t, datasettest.FS, l, importer.Options{Compress: true}); p.DiskBytes != want || compressed.DiskBytes != want {
		t.Errorf("%d bytes on disk, %d where features are to be compressed, want %d", p.DiskBytes, compressed.DiskBytes, want)
	}
	if p := plan(t, datasettest.FS, l, importer.Options{Reading: importer.Reading{For: importer.ForPredict}}); p.Unlabelled != 20 || p.Train+p.Valid+p.Test != 0 || p.Classes != 0 || p.LabelKind != dataset.NoLabels || len(p.Problems) != 0 {
		t.Errorf("to predict on: %+v", p)
	}
	if p := plan(t, datasettest.FS, l, importer.Options{Reading: importer.Reading{Reverse: importer.ReverseYes}, DType: dtype.BFloat16, Relabel: importer.RelabelDegree}); p.Edges != 80 || p.DType != dtype.BFloat16 || p.OriginalIDs != dataset.IDNumbers {
		t.Errorf("reversed: %+v", p)
	}
	save(20_000)
	// 7281 lines end in 64 KiB of 180000 bytes.
	// Sorting them takes 8 bytes each, storing them 4, and they may be fewer.
	files := importertest.NewFiles(full{datasettest.FS, 200_000})
	if p := plan(t, files, l, importer.Options{}); !p.Estimated || p.Edges != 19_997 || p.NeededBytes < 230_000 || len(p.Problems) != 0 || len(files.StillOpen()) != 0 {
		t.Errorf("estimated: %+v; %q are open", p, files.StillOpen())
	}
	if _, err := importer.MakePlan(t.Context(), datasettest.FS, "D", formatOf(l), importer.Options{}, progress.Discard); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("of nothing: %v", err)
	}
}

// TestMakePlanFinds lists what is wrong, and goes on.
func TestMakePlanFinds(t *testing.T) {
	good := func() *lined {
		l := &lined{drawn{nodes: 20, dim: 2, classes: 3, edges: [][2]int64{{0, 1}}}, filepath.Join(t.TempDir(), "edges")}
		if err := os.WriteFile(l.file, []byte("1\n2\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		return l
	}
	finds := func(what string, p importer.Plan, says ...string) {
		t.Helper()
		if len(p.Problems) != len(says) {
			t.Errorf("%s: %q", what, p.Problems)
			return
		}
		for i := range says {
			if !strings.Contains(p.Problems[i], says[i]) {
				t.Errorf("%s: %q, want %q", what, p.Problems[i], says[i])
			}
		}
	}
	gone := good()
	gone.file += ".none"
	finds("a missing file", plan(t, datasettest.FS, gone, importer.Options{}), "edges.none is missing", "edges.none is missing")
	finds("no room", plan(t, full{datasettest.FS, 10}, good(), importer.Options{}), "of disk space, but only 10 B are free: make room, or give --skip-space-check to begin nevertheless")
	p := plan(t, datasettest.FS, good(), importer.Options{Resources: dataset.Resources{Memory: budget.Reserve + 4<<20 - 1}})
	if finds("little memory", p, "importing needs 36.0 MiB of memory"); p.MemoryBytes != budget.Reserve+4<<20 || p.Classes != 0 {
		t.Errorf("little memory: %+v", p)
	}
	finds("features that cannot be normalised", plan(t, datasettest.FS, &negative{*good()}, importer.Options{RowNormalize: true}), "--row-normalize: node 0 has a negative feature")
	// An import refuses the same before anything is begun.
	out := filepath.Join(t.TempDir(), "D")
	_, err := importer.Import(t.Context(), datasettest.FS, out, formatOf(&negative{*good()}), importer.Options{Sources: []string{"here"}, RowNormalize: true}, progress.Discard)
	if _, begun := os.Stat(stage.Partial(out)); !errors.Is(err, fault.ErrInput) || begun == nil {
		t.Errorf("imported: %v, begun: %v", err, begun == nil)
	}
	finds("no labels", plan(t, datasettest.FS, &labelless{*good()}, importer.Options{}), "here: the train set is empty")
	for what, fails := range map[string]string{"labels": "labels", "edges": "edges", "features": "features", "rows": "rows", "close": "close"} {
		b := &broken{drawn: good().drawn, fails: fails}
		b.planned.Store(true)
		_, err := importer.MakePlan(t.Context(), datasettest.FS, filepath.Join(t.TempDir(), "D"), formatOf(b), importer.Options{Sources: []string{"here"}}, progress.Discard)
		if !errors.Is(err, errBroken) || b.streams != 0 || b.closed != 1 {
			t.Errorf("%s fail: %v; %d streams are open, closed %d times", what, err, b.streams, b.closed)
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := importer.MakePlan(done, datasettest.FS, filepath.Join(t.TempDir(), "D"), formatOf(&heedful{*good()}), importer.Options{Sources: []string{"here"}}, progress.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// negative has negative features.
type negative struct{ lined }

func (n *negative) Features(int64) (importer.RowStream, error) { return minus{}, nil }

type minus struct{}

func (minus) Close() error { return nil }
func (minus) Next(values []float32) error {
	for i := range values {
		values[i] = -1
	}
	return nil
}

// labelless has no labels.
type labelless struct{ lined }

func (labelless) Labels(context.Context, *importer.Labelling) error { return nil }

// heedful looks at the context when its labels are read.
type heedful struct{ lined }

func (h *heedful) Labels(ctx context.Context, l *importer.Labelling) error { return ctx.Err() }
