package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/pack"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/epoch"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/safetensors"
)

// newGPUEngineOn makes the engine on a device that is open.
func newGPUEngineOn(d *cuda.Device, w engineWish) (engine.Engine, engineNeeds, error) {
	return newGPUEngine(func() (*cuda.Device, error) { return d, nil }, w)
}

// onGPU is what runs a test's trainings: an emulated device, or a real one.
func onGPU(t *testing.T, test func(t *testing.T, use func(*parts))) {
	use := func(d *cuda.Device) func(*parts) {
		return func(p *parts) {
			p.engine = func(w engineWish) (engine.Engine, engineNeeds, error) {
				return newGPUEngineOn(d, w)
			}
		}
	}
	t.Run("emulated", func(t *testing.T) { test(t, use(cudatest.Open(t))) })
	t.Run("gpu", func(t *testing.T) {
		test(t, use(cudatest.Real(t, cuda.Options{})))
	})
}

func gpuRun(o *Options) { o.Engine = EngineGPU }

// Runs on the GPU go the way of those on the CPU: the first losses agree, both learn,
// and are judged.
func TestGPURuns(t *testing.T) {
	w := newWorld(t, worldParams{fanout: []int{3, 4}})
	p := w.pack(20)
	onGPU(t, func(t *testing.T, use func(*parts)) {
		for what, change := range map[string]func(o *Options){
			"sage": func(o *Options) {},
			"gcn": func(o *Options) {
				o.Model, o.Norm, o.Residual, o.Optimizer, o.WeightDecay = "gcn", "batch", true, "adamw", 0.01
			},
			"gat":   func(o *Options) { o.Model, o.Heads, o.InputProjection = "gat", 4, true },
			"steps": func(o *Options) { o.Norm, o.Accumulate = "batch", 3 },
			"auc":   func(o *Options) { o.Aggregator, o.LabelSmoothing, o.Metric = "max", 0.1, recipe.MetricF1 },
		} {
			o := w.options(p, func(o *Options) { o.LayerOrder, o.Epochs = "aggregate", 4 }, change)
			_, want := w.mustRun(o, nil)
			o = w.fresh(o, gpuRun)
			r, losses := w.mustRun(o, use)
			if len(losses) != len(want) {
				t.Fatalf("%s: %d losses of %d steps", what, len(losses), len(want))
			}
			for i := range 3 {
				if math.Abs(losses[i]-want[i]) > 1e-3 {
					t.Errorf("%s: losses %v, on the CPU %v", what, losses[:3], want[:3])
				}
			}
			if r.Epochs[3].Loss >= r.Epochs[0].Loss || !r.TestAccuracy.Defined() {
				t.Errorf("%s: the loss went from %v to %v, test score %v", what, r.Epochs[0].Loss, r.Epochs[3].Loss, r.TestAccuracy)
			}
			if f := state(t, o.Out); f.Setup.Engine != EngineGPU || f.Setup.Device == "" || f.Setup.Precision != recipe.PrecisionFloat32 || f.Params.Precision != recipe.PrecisionFloat32 {
				t.Errorf("%s: run.json holds %+v", what, f.Setup)
			}
		}
	})
}

// The losses are the same bits, whether the host decodes the graphs of batches or the GPU does, as it does for every model that it can
// decode for; the log says which. All decoded evaluations are equal, too.
func TestGPUDecodes(t *testing.T) {
	w := newWorld(t, worldParams{fanout: []int{3, 4}})
	pack := w.pack(20)
	onGPU(t, func(t *testing.T, use func(*parts)) {
		for what, c := range map[string]struct {
			change func(o *Options)
			where  string
		}{
			"sage":       {func(o *Options) {}, "GPU"},
			"gcn":        {func(o *Options) { o.Model, o.Accumulate = "gcn", 2 }, "GPU"},
			"gat":        {func(o *Options) { o.Model, o.Heads = "gat", 4 }, "GPU"},
			"projection": {func(o *Options) { o.InputProjection = true }, "host"},
		} {
			o := w.options(pack, gpuRun, func(o *Options) { o.Epochs = 3 }, c.change)
			r, losses := w.mustRun(o, use)
			var log logged
			if _, err := w.run(context.Background(), w.fresh(o), &log, use); err != nil || !strings.Contains(log.String(), "the "+c.where+" decodes the graphs of batches") {
				t.Errorf("%s: %v, the log is\n%s", what, err, log.String())
			}
			on, want := w.mustRun(w.fresh(o), func(p *parts) {
				use(p)
				inner := p.engine
				p.engine = func(w engineWish) (engine.Engine, engineNeeds, error) {
					w.inBits = false
					return inner(w)
				}
			})
			if !slices.Equal(losses, want) || r.TestAccuracy != on.TestAccuracy || len(want) == 0 {
				t.Errorf("%s: losses %v, test score %v; decoded on the host %v, %v", what, losses, r.TestAccuracy, want, on.TestAccuracy)
			}
		}
	})
}

// An interrupted run goes on to the bytes of one that never was.
func TestGPURunsResume(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150})
	first := w.options(w.pack(20), gpuRun, func(o *Options) { o.Norm = "batch" })
	onGPU(t, func(t *testing.T, use func(*parts)) {
		several := w.fresh(first, func(o *Options) { o.Accumulate = 2 })
		w.mustRun(several, use)
		ended := w.ending(several.Out)
		for _, steps := range []int{1, 4} { // batches: it stops after the step
			o := w.fresh(several, func(o *Options) { o.CheckpointEvery = rundir.Interval{Time: 1 << 40} })
			w.interrupt(o, steps, use)
			o.Resume = true
			if _, err := w.run(context.Background(), o, &logged{}, use); err != nil {
				t.Fatal(err)
			}
			w.ending(o.Out).compare(t, steps, ended)
		}
		o := w.fresh(first)
		w.mustRun(o, use)
		want := w.ending(o.Out)
		for _, steps := range []int{1, 4, 11} {
			o := w.fresh(first, func(o *Options) { o.CheckpointEvery = rundir.Interval{Time: 1 << 40} })
			w.interrupt(o, steps, use)
			o.Resume = true
			if _, err := w.run(context.Background(), o, &logged{}, use); err != nil {
				t.Fatal(err)
			}
			w.ending(o.Out).compare(t, steps, want)
		}
	})
}

// What is not finite is told when the step is over.
func TestGPULossNotFinite(t *testing.T) {
	w := newWorld(t, worldParams{nan: true})
	p := w.pack(10)
	onGPU(t, func(t *testing.T, use func(*parts)) {
		o := w.options(p, gpuRun)
		_, err := w.run(context.Background(), o, &logged{}, use)
		if !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "the loss is NaN") {
			t.Error(err)
		}
		w.unfinished(o.Out, rundir.StateFailed)
	})
}

// Without a GPU, auto is the CPU and gpu an error that says why.
func TestNoGPU(t *testing.T) {
	if _, err := cuda.Devices(); err == nil {
		t.Skip("there is a GPU")
	}
	w := newWorld(t, worldParams{nodes: 150})
	p := w.pack(20)
	o := w.options(p, func(o *Options) { o.Engine, o.Epochs = EngineAuto, 1 })
	if r, _ := w.mustRun(o, nil); r.Engine != EngineCPU {
		t.Errorf("auto came to %s", r.Engine)
	}
	for want, change := range map[string]func(o *Options){
		"--engine gpu: ":                       gpuRun,
		"--precision tf32 is for --engine gpu": func(o *Options) { o.Precision = "tf32" },
	} {
		_, err := w.run(context.Background(), w.options(p, change), &logged{}, nil)
		if !errors.Is(err, fault.ErrUsage) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s…", err, want)
		}
	}
}

// TestAutoSaysWhy: auto takes the GPU that works, and otherwise the CPU. Why a GPU that is
// there is left alone is a line of the log.
func TestAutoSaysWhy(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150})
	p := w.pack(20)
	for what, c := range map[string]struct {
		onGPU func(d *cuda.Device, w engineWish) (engine.Engine, engineNeeds, error)
		want  string // engine
		says  string // of the log; "": nothing about the GPU
	}{
		"a GPU that works": {newGPUEngineOn, EngineGPU, "engine: gpu, emulated, "},
		"a GPU that is too small": {func(d *cuda.Device, w engineWish) (engine.Engine, engineNeeds, error) {
			return nil, engineNeeds{}, fault.New(fault.ErrBudget, "3 GiB of GPU memory beside the 1 GiB that are held")
		}, EngineCPU, "the GPU is not used: 3 GiB of GPU memory beside the 1 GiB that are held\n"},
		"no GPU": {func(d *cuda.Device, w engineWish) (engine.Engine, engineNeeds, error) {
			return nil, engineNeeds{}, fault.New(cuda.ErrNoDevice, "no driver")
		}, EngineCPU, ""},
	} {
		d := cudatest.Open(t)
		var log logged
		o := w.options(p, func(o *Options) { o.Engine, o.Epochs = EngineAuto, 1 })
		r, err := w.run(context.Background(), o, &log, func(p *parts) {
			p.engine = func(w engineWish) (engine.Engine, engineNeeds, error) {
				return chooseEngine(w, func(w engineWish) (engine.Engine, engineNeeds, error) { return c.onGPU(d, w) })
			}
		})
		if err != nil || r.Engine != c.want {
			t.Errorf("%s: auto came to %q (%v)", what, r.Engine, err)
		}
		lines := log.String() + "\n"
		if !strings.Contains(lines, c.says) || c.says == "" && strings.Contains(strings.ToLower(lines), "gpu") || strings.Count(lines, "GPU is not used") != strings.Count(c.says, "GPU is not used") {
			t.Errorf("%s: the log is\n%s", what, lines)
		}
	}
}

// servedWhere holds what an epoch's rows on the GPU came to, of those that no read was for, to
// where the run holds rows.
func servedWhere(t *testing.T, r rundir.Result) {
	t.Helper()
	for _, e := range r.Epochs {
		ok := e.GPUServedBytes > 0 && e.GPUServedBytes < e.RAMBytes
		switch r.GPUCacheRows {
		case 0:
			ok = e.GPUServedBytes == 0
		case r.CacheRows:
			ok = e.GPUServedBytes == e.RAMBytes
		}
		if !ok || e.InputNodes == 0 || e.Requests < int64(e.Batches) {
			t.Errorf("%d of %d rows are on the GPU: %+v", r.GPUCacheRows, r.CacheRows, e)
		}
	}
}

// TestLevelsOnGPU: where the bytes of an epoch come from is what one counts on the host with as
// large a cache, but for the rows that the GPU's memory has; over all levels they are the batches'.
// Two GPUs count as one.
func TestLevelsOnGPU(t *testing.T) {
	w := newWorld(t, worldParams{dim: 64})
	row := int64(256)
	for name, c := range map[string]struct {
		pack   string
		shared bool
	}{
		"static": {w.pack(20), false},
		"shared": {w.pack(20, func(o *pack.Options) { o.MaxDisk = &budget.Size{Value: 360 << 10} }), true},
	} {
		base := w.options(c.pack, func(o *Options) { o.Epochs, o.Accumulate = 1, 2 })
		host, _ := w.mustRun(w.fresh(base, func(o *Options) { o.RAMCache = percent(20) }), nil)
		onGPU := func(share float64) func(*Options) { // of the rows, on each
			return func(o *Options) { o.Engine, o.GPUCache, o.RAMCache = EngineGPU, percent(share), percent(10) }
		}
		d := cudatest.Open(t)
		one, _ := w.mustRun(w.fresh(base, onGPU(10)), func(p *parts) {
			p.engine = func(w engineWish) (engine.Engine, engineNeeds, error) {
				return newGPUEngineOn(d, w)
			}
		})
		two, err := onGPUs(t, w, w.fresh(base, onGPU(5), func(o *Options) { o.Reduce = decide.ReduceHost }), 2, false, newHall(2), progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		want := host.Epochs[0].Levels()
		if (want[2].Bytes > 0) != c.shared || want[0].Bytes != 0 || want[1].Bytes == 0 || want[3].Bytes == 0 || want[4].Bytes == 0 {
			t.Errorf("%s on the host: %+v", name, want)
		}
		for what, r := range map[string]rundir.Result{"one GPU": one, "two GPUs": two} {
			e := r.Epochs[0]
			got := e.Levels()
			if got[0].Bytes <= 0 || got[1].Bytes <= 0 || got[0].Bytes+got[1].Bytes != want[1].Bytes || !slices.Equal(got[2:], want[2:]) {
				t.Errorf("%s, %s: %+v, on the host %+v", name, what, got, want)
			}
			if e.InputNodes != host.Epochs[0].InputNodes || e.RAMBytes >= row*e.InputNodes {
				t.Errorf("%s, %s: %d of %d rows", name, what, e.RAMBytes/row, e.InputNodes)
			}
		}
	}
}

// Where rows are held changes nothing: the weights are the same bytes.
func TestGPUCacheChangesNothing(t *testing.T) {
	w := newWorld(t, worldParams{fanout: []int{3, 4}})
	first := w.options(w.pack(20), gpuRun, func(o *Options) { o.Epochs = 2 })
	onGPU(t, func(t *testing.T, use func(*parts)) {
		var want map[string]safetensors.Tensor
		for _, c := range []struct{ gpu, ram *budget.Size }{
			{nil, nil}, {percent(0), percent(20)}, {percent(7), percent(13)}, {percent(20), percent(0)}, {percent(20), nil}, {percent(0), nil},
		} {
			o := w.fresh(first, func(o *Options) { o.GPUCache, o.RAMCache = c.gpu, c.ram })
			r, _ := w.mustRun(o, use)
			if r.GPUCacheRows > r.CacheRows || (r.GPUCacheRows == 0) != (c.gpu != nil && c.gpu.Value == 0) {
				t.Errorf("caches of %v and %v: %d rows, %d of them on the GPU", c.gpu, c.ram, r.CacheRows, r.GPUCacheRows)
			}
			servedWhere(t, r)
			got := w.weights(o.Out, rundir.FinalFile)
			if want == nil {
				want = got
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("caches of %v and %v lead to other weights", c.gpu, c.ram)
			}
		}
		o := w.fresh(first, func(o *Options) { o.GPUMemory = 1 << 10 })
		if _, err := w.run(context.Background(), o, &logged{}, use); !errors.Is(err, fault.ErrBudget) && !strings.Contains(fmt.Sprint(err), "--gpu-memory") {
			t.Errorf("a kilobyte of GPU memory: %v", err)
		}
	})
}

// What the GPU's streams did are links, on the clock of the others.
func TestGPULinks(t *testing.T) {
	w := newWorld(t, worldParams{fanout: []int{3, 4}})
	first := w.options(w.pack(20), gpuRun, func(o *Options) { o.Epochs, o.Trace, o.GPUCache = 2, true, percent(5) })
	onGPU(t, func(t *testing.T, use func(*parts)) {
		o := w.fresh(first)
		r, _ := w.mustRun(o, use)
		for _, e := range r.Epochs {
			busy := map[string]float64{}
			for _, s := range e.Links {
				busy[s.Link] = s.Busy
			}
			if busy[epoch.LinkCopy] <= 0 || busy[epoch.LinkGather] <= 0 || e.ComputeSeconds != busy[epoch.LinkCompute] || e.ComputeSeconds <= 0 || e.BoundSeconds < e.ComputeSeconds {
				t.Errorf("epoch %d: bound by %s in %v, links %v", e.Epoch, e.BoundLink, e.BoundSeconds, e.Links)
			}
		}
		b, err := os.ReadFile(filepath.Join(o.Out, rundir.TraceFile))
		if err != nil {
			t.Fatal(err)
		}
		for _, lane := range epoch.GPULinks {
			if n := bytes.Count(b, []byte(`"name":"`+lane+`","ts"`)); n != r.Epochs[0].Batches*2 {
				t.Errorf("%d spans of %s for %d batches", n, lane, r.Epochs[0].Batches*2)
			}
		}
	})
}

// However often a checkpoint cuts an epoch, and a process, the GPU's links are told of
// all batches, and of no more time than there was.
func TestGPULinksAcrossCheckpoints(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150})
	first := w.options(w.pack(20), gpuRun, func(o *Options) { o.Epochs, o.CheckpointEvery = 3, rundir.Interval{Batches: 1} })
	use := onDevice(cudatest.Open(t)) // on which all spans take a millisecond
	check := func(what string, r rundir.Result) {
		t.Helper()
		for _, e := range r.Epochs {
			seen := 0
			for _, s := range e.Links {
				if s.Link != epoch.LinkCopy && s.Link != epoch.LinkGather && s.Link != epoch.LinkCompute {
					continue
				}
				seen++
				if want := float64(e.Batches) / 1000; math.Abs(s.Busy-want) > 1e-9 {
					t.Errorf("%s, epoch %d: %s was busy for %v s, its %d batches took %v", what, e.Epoch, s.Link, s.Busy, e.Batches, want)
				}
				if s.Busy+s.Blocked > max(e.Seconds, s.Busy)+1e-9 {
					t.Errorf("%s, epoch %d: %s was busy for %v s and blocked for %v, of %v", what, e.Epoch, s.Link, s.Busy, s.Blocked, e.Seconds)
				}
			}
			if seen != len(epoch.GPULinks) {
				t.Errorf("%s, epoch %d: links %v", what, e.Epoch, e.Links)
			}
		}
	}
	r, _ := w.mustRun(first, use)
	check("in one go", r)

	o := w.fresh(first)
	w.interrupt(o, r.Epochs[0].Batches+1, use)
	o.Resume = true
	r, err := w.run(context.Background(), o, &logged{}, use)
	if err != nil {
		t.Fatal(err)
	}
	check("resumed", r)
}

// Whatever order the GPU's streams work in, a run ends with the bytes of one on a device
// that does everything at once, also when it is interrupted.
func TestGPULate(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 200})
	for what, change := range map[string]func(o *Options){
		"rows in RAM and on the GPU": func(o *Options) { o.GPUCache, o.RAMCache, o.Norm = percent(7), percent(13), "batch" },
		"packed as int8":             func(o *Options) { o.Pack = w.pack(20, func(o *pack.Options) { o.DType = "int8" }) },
		"packed as int4":             func(o *Options) { o.Pack = w.pack(20, func(o *pack.Options) { o.DType = "int4" }) },
		"blocks":                     func(o *Options) { w.inBlocks(o); o.GPUCache, o.RAMCache = percent(30), percent(60) },
	} {
		first := w.options(w.pack(20), gpuRun, change, func(o *Options) { o.CheckpointEvery = rundir.Interval{Batches: 5} })
		w.mustRun(first, onDevice(cudatest.Open(t)))
		want := w.ending(first.Out)
		cudatest.Late(t, cudatest.Orders, func(t *testing.T, d *cuda.Device) {
			o := w.fresh(first)
			w.mustRun(o, onDevice(d))
			w.ending(o.Out).compare(t, what, want)
			o = w.fresh(first)
			w.interrupt(o, 4, onDevice(d))
			o.Resume = true
			if _, err := w.run(context.Background(), o, &logged{}, onDevice(d)); err != nil {
				t.Fatal(err)
			}
			w.ending(o.Out).compare(t, what+", interrupted", want)
		})
	}
}
