package train

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/importer"
	formats "diskgnn/dataset/importer/all"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore/marius"
	"diskgnn/featurestore/memory"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/progress"
	"diskgnn/presample"
)

// realGraph is a graph of other people's making, and how to train on it.
type realGraph struct {
	o      importer.Options
	ratio  float64 // of the training nodes
	eval   string  // --eval-fanout
	batch  int
	memory int64
	models []string
	wide   bool // rows of 19 KB: too slow for emulated kernels
}

// onRealGraphs runs a test in a world with the dataset and samples of each graph in DISKGNN_DATA, altered.
func onRealGraphs(t *testing.T, alter func(*realGraph), test func(t *testing.T, w *world, g realGraph)) {
	data := os.Getenv("DISKGNN_DATA")
	if data == "" {
		t.Skip("DISKGNN_DATA names no directory with amazon-computers.npz, tolokers/ and fb100.npz")
	}
	for name, g := range map[string]realGraph{
		"amazon-computers.npz": {importer.Options{Binarize: true, RowNormalize: true}, 1, "same", 1024, 1 << 30, []string{"sage", "gcn", "gat"}, false},
		"tolokers":             {importer.Options{}, 1, "same", 1024, 1 << 30, []string{"sage", "gcn", "gat"}, false},
		"fb100.npz":            {importer.Options{}, 0.01, "1,1", 128, 3 << 30, []string{"sage"}, true}, // the whole takes hours
	} {
		t.Run(name, func(t *testing.T) {
			source, format := filepath.Join(data, name), "graphbolt"
			if !exists(source) {
				t.Skipf("no %s", source)
			}
			if filepath.Ext(name) == ".npz" {
				format = "gnn-benchmark"
			}
			alter(&g)
			g.o.Sources, g.o.Memory = []string{source}, 1<<30
			w := &world{t: t, dir: t.TempDir()}
			if _, err := formats.Import(t.Context(), disk, w.path("dataset"), format, g.o, progress.Discard); err != nil {
				t.Fatal(err)
			}
			_, err := presample.Run(context.Background(), disk, presample.Options{Dataset: w.path("dataset"), Out: w.path("samples"), BatchSize: g.batch, Fanout: []int{10, 10}, EvalFanout: g.eval, Epochs: 2, TrainRatio: g.ratio}, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			test(t, w, g)
		})
	}
}

// TestStoresOnRealGraphs trains on the graphs in the directory $DISKGNN_DATA, on a pack, on
// the samples alone, on rows that are read one by one or in pages, on mapped ones and on batches that are
// drawn while training: every loss, the scores and the weights are the same to the last bit.
func TestStoresOnRealGraphs(t *testing.T) {
	onRealGraphs(t, func(*realGraph) {}, func(t *testing.T, w *world, g realGraph) {
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

// The same on GPUs, emulated ones with late work among them: all stores, with parts of their rows or pages on the
// GPU, read by the host or by the GPU, come to the scores and weights of the pack, to the bit. On samples of partitions,
// marius comes to memory's.
func TestStoresOnRealGraphsByGPU(t *testing.T) {
	smaller := func(g *realGraph) { g.ratio, g.batch, g.eval = min(g.ratio, 0.05), g.batch/8, "1,1" } // emulated kernels are slow
	onRealGraphs(t, smaller, func(t *testing.T, w *world, g realGraph) {
		p := w.pack(10)
		kind := storetest.LoadDrives(t, w.path("dataset"), 2)
		_, err := presample.Run(t.Context(), disk, presample.Options{Dataset: w.path("dataset"), Out: w.path("parts"), BatchSize: g.batch, Fanout: []int{10, 10}, EvalFanout: g.eval, Epochs: 2, TrainRatio: g.ratio,
			Order: "dispersed", Partitions: 8, Buffer: 4}, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		run := func(t *testing.T, d *cuda.Device) {
			a := w.options(p, gpuRun, func(o *Options) {
				o.Model, o.LayerOrder, o.Hidden, o.Epochs, o.Memory, o.GPUCache = "sage", "aggregate", 8, 1, g.memory, percent(5)
			})
			_, want := w.mustRun(a, readingOn(d))
			read := func(io string, change func(*Options)) func(*Options) {
				return func(o *Options) {
					change(o)
					o.IO = io
				}
			}
			ways := map[string]func(*Options){"memory": w.fromSamples, "pages, by the GPU": read(kind, w.paging), "blocks": w.inBlocks}
			for store := range readers {
				ways[store], ways[store+", by the GPU"] = w.reading(store), read(kind, w.reading(store))
			}
			for store, change := range ways {
				b := w.fresh(a, change)
				logs := &logged{}
				if _, err := w.run(t.Context(), b, logs, readingOn(d)); err != nil {
					t.Fatal(err)
				}
				if by := strings.HasSuffix(store, "by the GPU"); by != strings.Contains(logs.String(), gpuSubmits) {
					t.Errorf("%s: %s", store, logs)
				}
				x, y := w.ending(a.Out), w.ending(b.Out)
				x.metrics, y.metrics = "", "" // the stores read other bytes
				if x != y {
					t.Errorf("%s: other weights than with the pack", store)
				}
			}
			var of [2]ending
			for i, store := range []string{memory.Name, marius.Name} {
				b := w.fresh(a, w.fromSamples, func(o *Options) { o.Samples, o.Store = w.path("parts"), store })
				w.mustRun(b, readingOn(d))
				of[i] = w.ending(b.Out)
				of[i].metrics = ""
			}
			if of[0] != of[1] {
				t.Errorf("%s: other weights than with %s", marius.Name, memory.Name)
			}
			t.Logf("%d steps, %d ways, loss %v", len(want), len(ways), want[len(want)-1])
		}
		if g.wide {
			t.Run("gpu", func(t *testing.T) { run(t, cudatest.Real(t, cuda.Options{})) })
			return
		}
		storetest.DriveDevices.Everywhere(t, 1, run)
	})
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
