package train

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/pack"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/rundir"
)

func sameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

func (w *world) file(out, name string) []byte {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(out, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// Where rows lie decides nothing: every step's loss, every score and the weights are
// the same to the last bit for any least cache of the pack and any cache of the
// trainer, when the outermost layer aggregates first.
func TestPlacementChangesNoBit(t *testing.T) {
	for _, dt := range []dtype.Type{dtype.Float32, dtype.BFloat16} {
		w := newWorld(t, worldParams{dtype: dt, fanout: []int{3, 3, 4}})
		var first rundir.Result
		var firstLosses []float64
		var firstWeights []byte
		for _, least := range []float64{0, 10, 100} {
			p := w.pack(least)
			caches := []*budget.Size{nil, percent(least), percent(math.Max(least, 30)), percent(100)}
			for _, cache := range caches {
				o := w.options(p, func(o *Options) { o.LayerOrder, o.RAMCache = "aggregate", cache })
				r, losses := w.mustRun(o, nil)
				weights := w.file(o.Out, rundir.FinalFile)
				if firstLosses == nil {
					first, firstLosses, firstWeights = r, losses, weights
					if len(losses) != len(r.Epochs)*r.Epochs[0].Batches {
						t.Fatalf("%d steps", len(losses))
					}
					continue
				}
				if !sameBits(losses, firstLosses) || !bytes.Equal(weights, firstWeights) || r.TestAccuracy != first.TestAccuracy || r.BestEpoch != first.BestEpoch {
					t.Errorf("%s, pack %v %%, cache %v: the first losses are %v, not %v, the test score %v, not %v", dt, least, cache, losses[:3], firstLosses[:3], r.TestAccuracy, first.TestAccuracy)
				}
			}
		}
	}
}

// Where sums run over the sources in the order that a pack gives them, the first step of
// two packs agrees closely; the cache of a trainer changes no bit of the same pack's.
func TestPlacementMultiplyingFirst(t *testing.T) {
	w := newWorld(t, worldParams{dim: 20})
	var first float64
	for i, least := range []float64{0, 10, 100} {
		p := w.pack(least)
		for _, order := range []string{"multiply", "aggregate"} {
			var same []float64
			for _, cache := range []*budget.Size{percent(least), percent(math.Max(least, 30)), percent(100)} {
				o := w.options(p, func(o *Options) { o.LayerOrder, o.Epochs, o.RAMCache = order, 1, cache })
				_, losses := w.mustRun(o, nil)
				if i == 0 && order == "multiply" {
					first = losses[0]
				}
				if math.Abs(losses[0]-first) > 1e-5 {
					t.Errorf("pack %v %%, %s: the first loss is %v, not %v", least, order, losses[0], first)
				}
				if same == nil {
					same = losses
				}
				if !sameBits(losses, same) {
					t.Errorf("pack %v %%, %s: the first losses with a cache of %v are %v, not %v", least, order, cache, losses[:3], same[:3])
				}
			}
		}
	}
}

// Threads, slots and memory change no byte of the weights, in either order, with
// either library.
func TestThreadsAndSlotsChangeNoByte(t *testing.T) {
	libs := []string{blas.Gonum}
	for _, kind := range []string{blas.OpenBLAS, blas.Builtin} {
		if _, err := blas.Open(kind); err == nil {
			libs = append(libs, kind)
		}
	}
	w := newWorld(t, worldParams{nodes: 2000, batch: 300})
	p := w.pack(5)
	for _, lib := range libs {
		for _, order := range []string{"aggregate", "multiply"} {
			var first [][]byte
			for _, c := range []struct{ threads, slots, evalSlots int }{{1, 1, 1}, {2, 2, 1}, {5, 6, 2}, {2, 3, 2}} {
				o := w.options(p, func(o *Options) {
					o.Threads, o.LayerOrder, o.BLAS, o.ShuffleBatches, o.Hidden = c.threads, order, lib, true, 24
				})
				w.mustRun(o, withSlots(c.slots, c.evalSlots))
				got := [][]byte{w.file(o.Out, rundir.WeightsFile), w.file(o.Out, rundir.FinalFile)}
				if first == nil {
					first = got
				}
				if !slices.EqualFunc(got, first, bytes.Equal) {
					t.Errorf("%s, %s: weights differ with %+v", lib, order, c)
				}
			}
		}
	}
}

// Every option that should make a difference does.
func TestSeedsAndShufflesDiffer(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10, func(o *pack.Options) { o.Bands = []float64{} })
	seen := map[string]string{}
	for _, c := range []struct {
		seed    uint64
		shuffle bool
		dropout float64
	}{{0, false, 0.5}, {1, false, 0.5}, {0, true, 0.5}, {1, true, 0.5}, {0, false, 0}} {
		o := w.options(p, func(o *Options) { o.Seed, o.ShuffleBatches, o.Dropout = c.seed, c.shuffle, c.dropout })
		w.mustRun(o, nil)
		b := string(w.file(o.Out, rundir.FinalFile))
		if was, ok := seen[b]; ok {
			t.Errorf("%+v trains the same weights as %s", c, was)
		}
		seen[b] = fmt.Sprintf("%+v", c)
	}
}
