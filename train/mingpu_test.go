package train

import (
	"context"
	"reflect"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/internal/budget"
	"diskgnn/pack"
	"diskgnn/train/rundir"
	"diskgnn/train/safetensors"
)

// With policy min, too, where rows are held changes nothing: the weights are the same bytes,
// also around the circle of sample epochs.
func TestGPUMinCacheChangesNothing(t *testing.T) {
	w := newWorld(t, worldParams{fanout: []int{3, 4}})
	first := w.options(w.pack(20, policyMin), gpuRun, func(o *Options) { o.Epochs = 3 })
	onGPU(t, func(t *testing.T, use func(*parts)) {
		var want map[string]safetensors.Tensor
		for _, share := range []*budget.Size{nil, percent(0), percent(7), percent(20)} {
			o := w.fresh(first, func(o *Options) { o.GPUCache = share })
			r, _ := w.mustRun(o, use)
			if r.GPUCacheRows > r.CacheRows || (r.GPUCacheRows == 0) != (share != nil && share.Value == 0) {
				t.Errorf("a GPU cache of %v: %d rows, %d of them on the GPU", share, r.CacheRows, r.GPUCacheRows)
			}
			servedWhere(t, r)
			got := w.weights(o.Out, rundir.FinalFile)
			if want == nil {
				want = got
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("a GPU cache of %v leads to other weights", share)
			}
		}
	})
}

// Whatever order the streams work in that change the cache, a run ends with the same bytes,
// also when it is interrupted.
func TestGPUMinLate(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 200})
	for _, dtype := range []string{"same", "int8"} {
		p := w.pack(20, policyMin, func(o *pack.Options) { o.DType = dtype })
		first := w.options(p, gpuRun, func(o *Options) { o.GPUCache, o.CheckpointEvery = percent(7), rundir.Interval{Batches: 5} })
		w.mustRun(first, onDevice(cudatest.Open(t)))
		want := w.ending(first.Out)
		cudatest.Late(t, cudatest.Orders, func(t *testing.T, d *cuda.Device) {
			o := w.fresh(first)
			w.mustRun(o, onDevice(d))
			w.ending(o.Out).compare(t, dtype, want)
			o = w.fresh(first)
			w.interrupt(o, 4, onDevice(d))
			o.Resume = true
			if _, err := w.run(context.Background(), o, &logged{}, onDevice(d)); err != nil {
				t.Fatal(err)
			}
			w.ending(o.Out).compare(t, dtype+", interrupted", want)
		})
	}
}
