package drives

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/dataset"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
	"diskgnn/simulate/trace"
)

// A trace of samples has their input nodes, batch by batch.
func TestSamples(t *testing.T) {
	dir := t.TempDir()
	data, samples, other := filepath.Join(dir, "d"), filepath.Join(dir, "s"), filepath.Join(dir, "o")
	generate := func(out string, seed uint64) *dataset.Dataset {
		if _, err := dataset.Generate(t.Context(), vfs.OS, out, dataset.GenerateOptions{Nodes: 200, Dim: 3, Classes: 2, DType: dtype.Float32, Seed: seed, TrainRatio: 0.2}, progress.Discard); err != nil {
			t.Fatal(err)
		}
		d, err := dataset.Open(vfs.OS, out)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := generate(data, 0)
	if _, err := presample.Run(t.Context(), vfs.OS, presample.Options{Dataset: data, Out: samples, BatchSize: 10, Fanout: []int{2, 2}, Epochs: 2}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	r, err := mbfile.Open(vfs.OS, samples)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h, err := Samples(d, r)
	if err != nil || h.Nodes != 200 || h.RowBytes != 12 || h.Samples != r.Fingerprint() || h.Dataset != d.Fingerprint() {
		t.Fatal(h, err)
	}
	if _, err := Samples(generate(other, 1), r); !errors.Is(err, fault.ErrLineage) {
		t.Error(err)
	}
	for _, limit := range []int{3, 1000} {
		n := 0
		if err := Each(t.Context(), r, limit, func(b *trace.Batch) error {
			want, _, err := r.Inputs(t.Context(), n, nil)
			if d := cmp.Diff(want, b.Rows); d != "" || err != nil {
				t.Error(d, err)
			}
			n++
			return nil
		}); err != nil || n != min(limit, r.Facts().BatchesPerEpoch) {
			t.Error(n, err)
		}
	}
}
