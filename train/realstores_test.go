package train

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/internal/progress"
	"diskgnn/presample"
)

// TestStoresOnRealGraphs trains on the graphs in the directory $DISKGNN_DATA, on a pack, on
// the samples alone, on rows that are read one by one and on mapped ones: every loss, the scores and the weights are the same to the last bit.
func TestStoresOnRealGraphs(t *testing.T) {
	data := os.Getenv("DISKGNN_DATA")
	if data == "" {
		t.Skip("DISKGNN_DATA names no directory with amazon-computers.npz and tolokers/")
	}
	for name, o := range map[string]dataset.ImportOptions{
		"amazon-computers.npz": {Format: dataset.FormatGNNBenchmark, Binarize: true, RowNormalize: true},
		"tolokers":             {Format: dataset.FormatGraphBolt},
	} {
		t.Run(name, func(t *testing.T) {
			if o.Source = filepath.Join(data, name); !exists(o.Source) {
				t.Skipf("no %s", o.Source)
			}
			w := &world{t: t, dir: t.TempDir()}
			o.Memory = 1 << 30
			if _, err := dataset.Import(t.Context(), disk, w.path("dataset"), o, progress.Discard); err != nil {
				t.Fatal(err)
			}
			_, err := presample.Run(context.Background(), disk, presample.Options{Dataset: w.path("dataset"), Out: w.path("samples"), BatchSize: 1024, Fanout: []int{10, 10}, Epochs: 1}, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			p := w.pack(10)
			for _, model := range []string{"sage", "gcn", "gat"} {
				a := w.options(p, func(o *Options) {
					o.Model, o.LayerOrder, o.Hidden, o.Epochs, o.BLAS = model, "aggregate", 32, 1, "auto"
				})
				b := w.fresh(a, w.fromSamples)
				r, want := w.mustRun(a, nil)
				_, losses := w.mustRun(b, nil)
				d := w.fresh(a, w.readingRows)
				single, ofRows := w.mustRun(d, nil)
				m := w.fresh(a, w.mappingRows)
				mapped, ofMapped := w.mustRun(m, nil)
				x, y, z, v := w.ending(a.Out), w.ending(b.Out), w.ending(d.Out), w.ending(m.Out)
				x.metrics, y.metrics, z.metrics, v.metrics = "", "", "", "" // the stores read other bytes
				t.Logf("%s: a pack reads %d bytes, single rows %d, page faults %d", model, r.Epochs[0].BytesRead, single.Epochs[0].BytesRead, mapped.Epochs[0].BytesRead)
				if !slices.Equal(ofMapped, want) || x != v {
					t.Errorf("%s: mapped rows differ: losses %v and %v", model, want, ofMapped)
				}
				if !slices.Equal(ofRows, want) || x != z {
					t.Errorf("%s: single rows differ: losses %v and %v", model, want, ofRows)
				}
				t.Logf("%s: %d steps, loss %v, test %v, %s", model, len(losses), losses[len(losses)-1], r.TestAccuracy, r.BLAS)
				if !slices.Equal(losses, want) || x != y {
					t.Errorf("%s: the stores differ: losses %v and %v", model, want, losses)
				}
			}
		})
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
