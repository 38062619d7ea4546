package dataset_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage/stagetest"
)

func TestTinyByValue(t *testing.T) {
	raw := datasettest.Tiny(t)
	d := datasettest.Create(t, t.TempDir(), raw)
	want := dataset.Facts{
		Nodes: 8, Edges: 17, Dim: 3, DType: dtype.Float32, Classes: 2, LabelKind: "class", Metric: "accuracy",
		Train: 3, Valid: 2, Test: 2, Unlabelled: 1, NodeIDBytes: 4,
	}
	if diff := cmp.Diff(want, d.Facts()); diff != "" {
		t.Error(diff)
	}
	f := stagetest.Files(t, d.Dir())
	for name, want := range map[string][]byte{
		"indptr.bin":  binio.Bytes([]int64{0, 3, 5, 6, 10, 14, 15, 17, 17}),
		"indices.bin": binio.Bytes([]uint32{1, 2, 7, 0, 3, 0, 0, 1, 2, 4, 3, 5, 6, 7, 4, 4, 5}),
		"features.bin": binio.Bytes([]float32{1, 0, .5, .5, .25, -1, 2, -.5, 0, 1.5, 1, .25,
			-1, .5, 1, -2, 0, .75, -.5, -1.5, 2, 0, 0, 0}),
		"labels.bin": binio.Bytes([]int32{0, 0, 0, 0, 1, 1, 1, -1}),
		"train.bin":  binio.Bytes([]uint32{0, 1, 4}),
		"valid.bin":  binio.Bytes([]uint32{2, 5}),
		"test.bin":   binio.Bytes([]uint32{3, 6}),
	} {
		if !bytes.Equal([]byte(f[name]), want) {
			t.Errorf("%s is % x, want % x", name, f[name], want)
		}
		table := binio.Sums{Granule: 1 << 20, Size: int64(len(want)), CRC: []uint32{binio.CRC(want)}}
		if f[name+".sums"] != string(table.Encode()) {
			t.Errorf("%s.sums is % x", name, f[name+".sums"])
		}
	}
	if len(f) != 15 {
		t.Errorf("%d files, want 15", len(f))
	}
	labels, err := d.Labels()
	if diff := cmp.Diff(raw.Labels, labels); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for name, want := range map[string][]uint32{"train": raw.Train, "valid": raw.Valid, "test": raw.Test} {
		ids, err := d.Split(name)
		if diff := cmp.Diff(want, ids); err != nil || diff != "" {
			t.Error(name, err, diff)
		}
	}
	if _, err := d.Split("trian"); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("unknown split: %v", err)
	}
	top, err := d.Topology(t.Context(), progress.Discard, 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]uint32{3, 5, 6, 7}, top.Neighbors(4)); diff != "" || top.Degree(7) != 0 || top.NumNodes() != 8 {
		t.Error(diff)
	}
	if err := top.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Verify(t.Context(), progress.Discard, 1); err != nil {
		t.Error(err)
	}
}

// TestRoundTrip writes random datasets and reads everything back, features in
// random ranges.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		raw := datasettest.Params{
			Nodes:     rapid.IntRange(1, 60).Draw(rt, "nodes"),
			AvgDegree: rapid.Float64Range(0, 5).Draw(rt, "degree"),
			Dim:       rapid.IntRange(1, 70).Draw(rt, "dim"),
			DType:     rapid.SampledFrom([]dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16}).Draw(rt, "dtype"),
			Seed:      rapid.Uint64().Draw(rt, "seed"),
		}.Raw()
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		d := datasettest.Create(rt, dir, raw)
		top, err := d.Topology(t.Context(), progress.Discard, 0)
		if err != nil {
			rt.Fatal(err)
		}
		defer top.Close()
		if diff := cmp.Diff(raw.Indptr, top.Indptr); diff != "" {
			rt.Error(diff)
		}
		if !bytes.Equal(binio.Bytes(raw.Indices), binio.Bytes(top.Indices)) {
			rt.Error("indices differ")
		}
		lo := rapid.Int64Range(0, d.Facts().Nodes).Draw(rt, "lo")
		hi := rapid.Int64Range(lo, d.Facts().Nodes).Draw(rt, "hi")
		row := int64(d.RowBytes())
		buf := make([]byte, (hi-lo)*row)
		if err := d.ReadFeatures(t.Context(), lo, hi, buf); err != nil {
			rt.Fatal(err)
		}
		if !bytes.Equal(buf, raw.Features[lo*row:hi*row]) {
			rt.Errorf("rows %d to %d differ", lo, hi)
		}
		if err := d.Verify(t.Context(), progress.Discard, 0); err != nil {
			rt.Error(err)
		}
	})
}

// TestFeatureRanges reads rows of a table of several granules, whose rows
// straddle them, in ranges of every kind.
func TestFeatureRanges(t *testing.T) {
	raw := datasettest.Params{Nodes: 1000, Dim: 767, Seed: 1}.Raw() // 3.07 MB in rows of 3,068 bytes
	d := datasettest.Create(t, t.TempDir(), raw)
	r, err := d.Features()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	row := int64(d.RowBytes())
	for _, step := range []int64{1, 7, 341, 342, 343, 999, 1000} {
		for lo := int64(0); lo < 1000; lo += step {
			hi := min(lo+step, 1000)
			buf := make([]byte, (hi-lo)*row)
			if err := r.ReadRows(t.Context(), lo, hi, buf); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(buf, raw.Features[lo*row:hi*row]) {
				t.Fatalf("rows %d to %d differ", lo, hi)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.ReadRows(ctx, 0, 1, make([]byte, row)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := r.ReadRows(t.Context(), 0, 1001, make([]byte, 1001*row)); err == nil {
		t.Error("rows beyond the end were read")
	}
}

func TestCreateAgain(t *testing.T) {
	dir := t.TempDir()
	raw := datasettest.Tiny(t)
	first := datasettest.Create(t, dir, raw)
	if again := datasettest.Create(t, dir, raw); again.Fingerprint() != first.Fingerprint() {
		t.Error("the same content has two fingerprints")
	}
	raw.Labels[0] = 1
	if err := dataset.Create(datasettest.FS, first.Dir(), raw); !errors.Is(err, fault.ErrExists) {
		t.Errorf("other content over an existing dataset: %v", err)
	}
}

func TestCreateRefuses(t *testing.T) {
	for name, change := range map[string]func(*dataset.Raw){
		"edge out of range":     func(r *dataset.Raw) { r.Indices[0], r.Indices[1], r.Indices[2] = 8, 9, 10 },
		"unsorted neighbours":   func(r *dataset.Raw) { r.Indices[0], r.Indices[1] = 2, 1 },
		"label out of range":    func(r *dataset.Raw) { r.Labels[3] = 2 },
		"overlapping splits":    func(r *dataset.Raw) { r.Test[0] = 2 },
		"unlabelled in a split": func(r *dataset.Raw) { r.Test[1] = 7 },
		"short features":        func(r *dataset.Raw) { r.Features = r.Features[:5] },
		"int8 features":         func(r *dataset.Raw) { r.DType = dtype.Int8 },
		"descending indptr":     func(r *dataset.Raw) { r.Indptr[1] = 6 },
		"no classes":            func(r *dataset.Raw) { r.Classes = 0 },
	} {
		raw := datasettest.Tiny(t)
		change(&raw)
		out := filepath.Join(t.TempDir(), "D")
		if err := dataset.Create(datasettest.FS, out, raw); !errors.Is(err, fault.ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: something was left at %s", name, out)
		}
	}
}

// TestEveryByte flips each byte of each file of a small dataset and checks that
// a full verification fails, naming the file.
func TestEveryByte(t *testing.T) {
	tiny := datasettest.Tiny(t)
	t.Run("raw", func(t *testing.T) { everyByte(t, tiny) })
	tiny.Compress = true
	t.Run("compressed", func(t *testing.T) { everyByte(t, tiny) })
	t.Run("typed", func(t *testing.T) { everyByte(t, citations()) })
}

func everyByte(t *testing.T, raw dataset.Raw) {
	d := datasettest.Create(t, t.TempDir(), raw)
	for name, content := range stagetest.Files(t, d.Dir()) {
		path := filepath.Join(d.Dir(), name)
		step := 1
		if name == "meta.json" {
			step = 7 // package stage flips the others
		}
		for i := 0; i < len(content); i += step {
			bad := []byte(content)
			bad[i] ^= 0x10
			if err := os.WriteFile(path, bad, 0o666); err != nil {
				t.Fatal(err)
			}
			err := openAndVerify(t, d.Dir())
			if err == nil {
				t.Fatalf("byte %d of %s changed unnoticed", i, name)
			}
			kind := errors.Is(err, fault.ErrCorrupt) || name == "meta.json" && (errors.Is(err, fault.ErrVersion) || errors.Is(err, fault.ErrInput))
			if !kind || !strings.Contains(err.Error(), name) && name != "meta.json" {
				t.Errorf("byte %d of %s: %v", i, name, err)
			}
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := openAndVerify(t, d.Dir()); err != nil {
		t.Errorf("everything restored: %v", err)
	}
}

func openAndVerify(t *testing.T, dir string) error {
	d, err := dataset.OpenAny(datasettest.FS, dir)
	if err != nil {
		return err
	}
	return d.Verify(t.Context(), progress.Discard, 1)
}

// TestShrinks checks that files that lose bytes after they were opened are
// errors, of mapped ones too.
func TestShrinks(t *testing.T) {
	raw := datasettest.Params{Nodes: 4000, AvgDegree: 8, Dim: 16, Seed: 3}.Raw()
	d := datasettest.Create(t, t.TempDir(), raw)
	r, err := d.Features()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	top, err := d.Topology(t.Context(), progress.Discard, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	for _, name := range []string{"features.bin", "indices.bin", "labels.bin"} {
		if err := os.Truncate(filepath.Join(d.Dir(), name), 100); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.ReadRows(t.Context(), 0, 4000, make([]byte, 4000*64)); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("features: %v", err)
	}
	if _, err := d.Labels(); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("labels: %v", err)
	}
	err = top.Guard(func() error {
		if n := top.Neighbors(3999); len(n) > 0 && n[0] == 1<<31 {
			t.Error("impossible neighbour")
		}
		return nil
	})
	if raw.Indptr[4000]-raw.Indptr[3999] > 0 && !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("topology: %v", err)
	}
	if _, err := dataset.Open(datasettest.FS, d.Dir()); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("open: %v", err)
	}
}

func save(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o666); err != nil {
		t.Fatal(err)
	}
}
