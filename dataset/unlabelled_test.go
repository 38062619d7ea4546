package dataset_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage/stagetest"
	"diskgnn/internal/vfs"
)

// A dataset without labels has the files of the one with labels, but for theirs; its facts say so,
// and no others are believed.
func TestWithoutLabels(t *testing.T) {
	raw := datasettest.Tiny(t)
	whole := datasettest.Create(t, t.TempDir(), raw)
	raw.Labels, raw.Classes, raw.Train, raw.Valid, raw.Test = nil, 0, nil, nil, nil
	d := datasettest.Create(t, t.TempDir(), raw)
	want := dataset.Facts{Nodes: 8, Edges: 17, Dim: 3, DType: dtype.Float32, LabelKind: "none", Unlabelled: 8, NodeIDBytes: 4}
	if diff := cmp.Diff(want, d.Facts()); diff != "" {
		t.Error(diff)
	}
	if d.Meta().Format != dataset.Format {
		t.Errorf("%s", d.Meta().Format)
	}
	datasettest.Verified(t, d.Dir())
	files, with := stagetest.Files(t, d.Dir()), stagetest.Files(t, whole.Dir())
	for name, content := range files {
		if name != "meta.json" && with[name] != content {
			t.Errorf("%s is other than beside labels", name)
		}
	}
	if len(files) != len(with)-8 {
		t.Errorf("%d files, with labels %d", len(files), len(with))
	}
	for _, call := range []func() error{
		d.CheckLabelled,
		func() error { _, err := d.Labels(); return err },
		func() error { _, err := d.Split(dataset.Train); return err },
	} {
		if err := call(); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "has no labels and splits: it was imported with --for predict") {
			t.Errorf("%v", err)
		}
	}
	if err := whole.CheckLabelled(); err != nil {
		t.Error(err)
	}
	if targets, err := d.Targets(t.Context(), []uint32{1}); targets != nil || err != nil {
		t.Errorf("% x, %v", targets, err)
	}

	contents, facts := contentOf(t, d)
	for name, c := range map[string]struct {
		change map[string]any
		kind   error
	}{
		"classes":     {map[string]any{"classes": 2}, fault.ErrCorrupt},
		"a metric":    {map[string]any{"metric": "accuracy"}, fault.ErrCorrupt},
		"a split":     {map[string]any{"train": 1, "unlabelled": 7}, fault.ErrCorrupt},
		"some labels": {map[string]any{"unlabelled": 7}, fault.ErrCorrupt},
		"labels":      {map[string]any{"label_kind": "class", "classes": 2, "metric": "accuracy"}, fault.ErrCorrupt},
		"other kinds": {map[string]any{"label_kind": "perhaps"}, fault.ErrVersion},
	} {
		forged := maps.Clone(facts)
		maps.Copy(forged, c.change)
		out := t.TempDir() + "/d"
		forge(t, out, dataset.Format, forged, contents)
		if _, err := dataset.Open(vfs.OS, out); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}

	raw.Classes = 2
	if err := dataset.Create(datasettest.FS, t.TempDir()+"/d", raw); !errors.Is(err, fault.ErrInput) {
		t.Errorf("classes without labels: %v", err)
	}
}
