package dataset_test

import (
	"bytes"
	"errors"
	"math/bits"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/stage/stagetest"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

func TestMultiLabelByValue(t *testing.T) {
	raw := datasettest.Tiny(t)
	raw.Labels = []int32{0, 0, 0, 0, 0, 0, 0, -1}
	raw.Classes = 9
	raw.Targets = []byte{1, 0, 0, 0, 2, 0, 0, 1, 255, 1, 128, 0, 3, 0, 0, 0}
	d := datasettest.Create(t, t.TempDir(), raw)
	f := d.Facts()
	if !f.MultiLabel() || f.TargetBytes() != 2 || f.LabelKind != "multi-hot" || f.Metric != "f1" || f.Unlabelled != 1 {
		t.Errorf("facts %+v", f)
	}
	if b := stagetest.Files(t, d.Dir())["targets.bin"]; b != string(raw.Targets) {
		t.Errorf("targets.bin is % x", b)
	}
	got, err := d.Targets(t.Context(), []uint32{0, 2, 3, 6})
	if want := []byte{1, 0, 2, 0, 0, 1, 3, 0}; err != nil || !bytes.Equal(got, want) {
		t.Errorf("% x, %v, want % x", got, err, want)
	}
	if err := d.Verify(t.Context(), progress.Discard, 2); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(r *dataset.Raw){
		"a class outside":        func(r *dataset.Raw) { r.Targets[1] = 2 },
		"classes, but its label": func(r *dataset.Raw) { r.Targets[14] = 1 },
		"label 1":                func(r *dataset.Raw) { r.Labels[0] = 1 },
		"each of 9 classes":      func(r *dataset.Raw) { r.Targets = r.Targets[1:] },
	} {
		bad := raw
		bad.Labels, bad.Targets = append([]int32(nil), raw.Labels...), bytes.Clone(raw.Targets)
		change(&bad)
		if err := dataset.Create(datasettest.FS, filepath.Join(t.TempDir(), "D"), bad); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Rows that straddle granules, and some that are wider than one.
func TestTargetsOfManyGranules(t *testing.T) {
	for _, p := range []datasettest.Params{
		{Nodes: 3000, Classes: 5003, Dim: 1, Seed: 1, MultiLabel: true},
		{Nodes: 3, Classes: 10 << 20, Dim: 1, Seed: 2},
	} {
		raw := p.Raw()
		row := graph.TargetBytes(p.Classes)
		if !p.MultiLabel { // coins for all classes would take long
			raw.Labels = make([]int32, p.Nodes)
			raw.Targets = bytes.Repeat([]byte{1, 2, 3, 5, 7}, p.Nodes*row/5)
		}
		d := datasettest.Create(t, t.TempDir(), raw)
		if err := d.Verify(t.Context(), progress.Discard, 2); err != nil {
			t.Fatal(err)
		}
		got, err := d.Targets(t.Context(), raw.Train)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range raw.Train {
			if !bytes.Equal(got[i*row:(i+1)*row], raw.Targets[int(v)*row:int(v+1)*row]) {
				t.Fatalf("%d classes: the row of node %d is another one's", p.Classes, v)
			}
		}
		name := filepath.Join(d.Dir(), dataset.TargetsFile)
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-1] ^= 1
		save(t, name, b)
		if err := d.Verify(t.Context(), progress.Discard, 2); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), dataset.TargetsFile) {
			t.Errorf("a flipped bit: %v", err)
		}
	}
}

func TestGenerateMultiLabel(t *testing.T) {
	dir := t.TempDir()
	o := dataset.GenerateOptions{Nodes: 20_000, AvgDegree: 4, Dim: 8, Classes: 11, Seed: 3, MultiLabel: true}
	o.Workers = 1
	res := generate(t, datasettest.FS, filepath.Join(dir, "D"), o)
	o.Workers = 3
	generate(t, datasettest.FS, filepath.Join(dir, "E"), o)
	datasettest.Same(t, filepath.Join(dir, "D"), filepath.Join(dir, "E"))
	if res.LabelKind != "multi-hot" || res.FeaturesAlone != nil {
		t.Errorf("result %+v", res)
	}
	datasettest.Verified(t, filepath.Join(dir, "D"))
	classes := 0
	for _, b := range []byte(stagetest.Files(t, filepath.Join(dir, "D"))["targets.bin"]) {
		classes += bits.OnesCount8(b)
	}
	if mean := float64(classes) / 20_000; mean < 1.5 || mean > 4 {
		t.Errorf("%v classes a node", mean)
	}
	// The graph is the one of single labels.
	o.MultiLabel = false
	generate(t, datasettest.FS, filepath.Join(dir, "F"), o)
	a, b := stagetest.Files(t, filepath.Join(dir, "D")), stagetest.Files(t, filepath.Join(dir, "F"))
	for _, name := range []string{"indptr.bin", "indices.bin", "features.bin", "train.bin"} {
		if a[name] != b[name] {
			t.Errorf("%s differs from that of single labels", name)
		}
	}
}
