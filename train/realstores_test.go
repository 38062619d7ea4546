package train

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/dataset/importer"
	formats "diskgnn/dataset/importer/all"
	"diskgnn/internal/progress"
	"diskgnn/presample"
)

// TestStoresOnRealGraphs trains on the graphs in the directory $DISKGNN_DATA, on a pack, on
// the samples alone, on rows that are read one by one or in pages, on mapped ones and on batches that are
// drawn while training: every loss, the scores and the weights are the same to the last bit.
func TestStoresOnRealGraphs(t *testing.T) {
	data := os.Getenv("DISKGNN_DATA")
	if data == "" {
		t.Skip("DISKGNN_DATA names no directory with amazon-computers.npz, tolokers/ and fb100.npz")
	}
	for name, g := range map[string]struct {
		o      importer.Options
		ratio  float64 // of the training nodes
		eval   string  // --eval-fanout
		batch  int
		memory int64
		models []string
	}{
		"amazon-computers.npz": {importer.Options{Binarize: true, RowNormalize: true}, 1, "same", 1024, 1 << 30, []string{"sage", "gcn", "gat"}},
		"tolokers":             {importer.Options{}, 1, "same", 1024, 1 << 30, []string{"sage", "gcn", "gat"}},
		"fb100.npz":            {importer.Options{}, 0.01, "1,1", 128, 3 << 30, []string{"sage"}}, // the whole takes hours
	} {
		o := g.o
		t.Run(name, func(t *testing.T) {
			source, format := filepath.Join(data, name), "graphbolt"
			if !exists(source) {
				t.Skipf("no %s", source)
			}
			if filepath.Ext(name) == ".npz" {
				format = "gnn-benchmark"
			}
			o.Sources = []string{source}
			w := &world{t: t, dir: t.TempDir()}
			o.Memory = 1 << 30
			if _, err := formats.Import(t.Context(), disk, w.path("dataset"), format, o, progress.Discard); err != nil {
				t.Fatal(err)
			}
			_, err := presample.Run(context.Background(), disk, presample.Options{Dataset: w.path("dataset"), Out: w.path("samples"), BatchSize: g.batch, Fanout: []int{10, 10}, EvalFanout: g.eval, Epochs: 2, TrainRatio: g.ratio}, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			p := w.pack(10)
			for _, model := range g.models {
				a := w.options(p, func(o *Options) {
					o.Model, o.LayerOrder, o.Hidden, o.Epochs, o.BLAS = model, "aggregate", 32, 2, "auto"
					o.Memory = g.memory
				})
				r, want := w.mustRun(a, nil)
				t.Logf("%s: %d steps, loss %v, test %v, %s", model, len(want), want[len(want)-1], r.TestAccuracy, r.BLAS)
				ways := map[string]func(*Options){"samples": w.fromSamples, "drawn": w.live, "mapped rows": w.mappingRows, "pages": w.paging, "blocks": w.inBlocks}
				for store := range readers {
					ways[store] = w.reading(store)
				}
				for store, change := range ways {
					b := w.fresh(a, change, func(o *Options) {
						if o.Live() {
							o.Fanout, o.BatchSize, o.EvalFanout, o.TrainRatio = "10,10", g.batch, g.eval, g.ratio
						}
					})
					other, losses := w.mustRun(b, nil)
					x, y := w.ending(a.Out), w.ending(b.Out)
					x.metrics, y.metrics = "", "" // the stores read other bytes
					t.Logf("%s, %s: reads %d bytes in an epoch, the pack %d", model, store, other.Epochs[0].BytesRead, r.Epochs[0].BytesRead)
					if !slices.Equal(losses, want) || x != y {
						t.Errorf("%s, %s: the stores differ: losses %v and %v", model, store, want, losses)
					}
				}
			}
		})
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
