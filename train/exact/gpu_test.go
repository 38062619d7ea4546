package exact

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/all"
	"diskgnn/train/decide"
	"diskgnn/train/exact/grid"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
)

// predictOnGPU predicts on a device, with room bytes for the steps on the host, and gpuRoom on the GPU; 0: no bound.
func (w *world) predictOnGPU(t *testing.T, d *cuda.Device, o PredictOptions, room, gpuRoom int64) ([]float32, Prediction) {
	t.Helper()
	o.Options, o.Out, o.Force = w.options(), w.path("out.npy"), true
	o.Engine = decide.EngineGPU
	p, err := predict(context.Background(), disk, o, progress.Discard, parts{stack: all.Open, room: room, gpu: d, gpuRoom: gpuRoom})
	check(t, err)
	if device, pinned := d.Held(); device != 0 || pinned != 0 {
		t.Fatalf("%d bytes of the GPU and %d pinned were not given back", device, pinned)
	}
	values, _ := readNPY(t, o.Out)
	return values, p
}

// roomOnGPU returns the bytes of the host and of a GPU that the steps need at least.
func (w *world) roomOnGPU(t *testing.T, d *cuda.Device) (host, gpu int64) {
	t.Helper()
	o := w.options()
	o.Engine = decide.EngineGPU
	o.EnsureDefaults()
	j := &job{fs: disk, options: o, report: progress.Discard, parts: parts{stack: all.Open, room: 1 << 40, gpu: d}}
	check(t, j.do(t.Context(), func(ctx context.Context) error {
		f := j.data.Facts()
		if err := j.decide(ctx, j.model.Layers()-1, j.everyNode(&f), 0); err != nil {
			return err
		}
		host, _ = j.least()
		for k := range j.steps {
			plan, _ := j.steps[k].sizes.Choose(0)
			gpu = max(gpu, plan.GPU)
		}
		return nil
	}))
	return host, gpu
}

// withLittleRoom predicts with little memory of the host and of a GPU, in some tiles at least, and compares the bits. It returns
// the bytes of the GPU that the steps need at least.
func (w *world) withLittleRoom(t *testing.T, d *cuda.Device, want []float32, least int) int64 {
	t.Helper()
	host, gpu := w.roomOnGPU(t, d)
	tiles := 0
	for _, more := range [][2]int64{{0, 0}, {3000, 2000}, {0, 10_000}, {20_000, 40_000}} {
		got, p := w.predictOnGPU(t, d, PredictOptions{}, host+more[0], gpu+more[1])
		if !slices.Equal(binio.Bytes(got), binio.Bytes(want)) {
			t.Errorf("other bits with %d and %d bytes more than the least", more[0], more[1])
		}
		for _, l := range p.Layers {
			tiles = max(tiles, l.Ranges)
		}
	}
	if tiles < least {
		t.Errorf("at most %d tiles", tiles)
	}
	return gpu
}

// Every kind of model follows its formulas on a GPU, with the same bits for any memory of the host and of the
// GPU.
func TestEveryModelOnGPU(t *testing.T) {
	raw := datasettest.Params{Nodes: 100, Dim: 6, Classes: 3, Seed: 8}.Raw()
	multigraph(&raw, 3, 5000, 1)
	cudatest.Everywhere(t, 0, func(t *testing.T, d *cuda.Device) {
		for name, m := range everyModel() {
			t.Run(name, func(t *testing.T) {
				w := newWorldOf(t, vfstest.TempDir(t), raw, m)
				want, _ := w.oracle(t)
				all, p := w.predictOnGPU(t, d, PredictOptions{}, 0, 0)
				near(t, "with memory for all", all, want[2], hubTolerance)
				if p.Engine != decide.EngineGPU || p.Device != d.Name || p.Layers[1].Ranges != 1 {
					t.Errorf("%+v", p.Outcome)
				}
				gpu := w.withLittleRoom(t, d, all, 3)
				got, _ := w.predictOnGPU(t, d, PredictOptions{Output: Embeddings}, 0, 0)
				near(t, "embeddings", got, want[1], hubTolerance)
				got, _ = w.predictOnGPU(t, d, PredictOptions{Nodes: "valid"}, 0, gpu)
				near(t, "some nodes", got, at(want[2], raw.Valid), hubTolerance)
			})
		}
	})
}

// So does every kind of typed model: with lists longer than a fold, types without features, and a type that no relation
// leads to.
func TestTypedModelsOnGPU(t *testing.T) {
	fold := grid.Fold
	grid.Fold = 100
	t.Cleanup(func() { grid.Fold = fold })
	types := fewTypes()
	raw := typedRaw(rand.New(rand.NewPCG(4, 4)), types, 1, 12, 4, 9, 300)
	cudatest.Everywhere(t, 0, func(t *testing.T, d *cuda.Device) {
		for name, m := range typedKinds {
			t.Run(name, func(t *testing.T) {
				m.Dims, m.Types = []int{12, 10, 6, 4}, recipe.Types(types, 1)
				w := newWorldOf(t, vfstest.TempDir(t), raw, m)
				want, most := w.typedOracle(t)
				most = tolerance * max(1, most)
				all, p := w.predictOnGPU(t, d, PredictOptions{}, 0, 0)
				near(t, "with memory for all", all, of(want[2], w.seeds()), most)
				if p.Engine != decide.EngineGPU || p.Layers[0].Ranges != 1 {
					t.Errorf("%+v", p.Outcome)
				}
				gpu := w.withLittleRoom(t, d, all, 10)
				got, _ := w.predictOnGPU(t, d, PredictOptions{Output: Embeddings}, 0, 0)
				near(t, "embeddings", got, of(want[1], w.seeds()), most)
				got, _ = w.predictOnGPU(t, d, PredictOptions{Nodes: "valid"}, 0, gpu+5000)
				near(t, "some nodes", got, of(want[2], raw.Valid), most)
			})
		}
	})
}

// at returns the rows of nodes.
func at(rows [][]float64, nodes []uint32) (some [][]float64) {
	for _, v := range nodes {
		some = append(some, rows[v])
	}
	return some
}

// A GPU that fails, at any call, ends the prediction with its error, and gives everything back.
func TestGPUFails(t *testing.T) {
	raw := datasettest.Params{Nodes: 40, AvgDegree: 3, Dim: 4, Classes: 2, Seed: 1}.Raw()
	gpuFails(t, newWorldOf(t, vfstest.TempDir(t), raw, model.Model{Kind: model.GAT, Dims: []int{4, 4, 2}, Heads: 2, Norm: model.LayerNorm, Residual: true, InputProjection: 3}))
	types := fewTypes()
	raw = typedRaw(rand.New(rand.NewPCG(4, 4)), types, 1, 4, 2, 3, 9)
	gpuFails(t, newWorldOf(t, vfstest.TempDir(t), raw, model.Model{Kind: model.RGAT, Dims: []int{4, 4, 2}, Heads: 2, Types: recipe.Types(types, 1)}))
}

func gpuFails(t *testing.T, w *world) {
	t.Helper()
	o := PredictOptions{Options: w.options(), Out: w.path("out.npy"), Force: true}
	o.Engine = decide.EngineGPU
	want, _ := w.predictOnGPU(t, cudatest.Open(t), PredictOptions{}, 0, 0)
	for n := 1; ; n += 1 + n/20 { // each of the first calls, and then ever fewer
		calls, failed := 0, ""
		d := cudatest.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
			if calls++; calls == n {
				failed = call
				return &cuda.Fault{Why: "boom"}
			}
			return nil
		})
		calls = 0
		_, err := predict(context.Background(), disk, o, progress.Discard, parts{stack: all.Open, gpu: d})
		if calls < n {
			check(t, err)
			if n < 100 {
				t.Errorf("%d calls", n)
			}
			return
		}
		if got, _ := readNPY(t, o.Out); err == nil && failed == "wait" {
			if !slices.Equal(got, want) { // the last wait before memory is freed has nothing left to wait for
				t.Errorf("call %d failed without an error: %v", n, got)
			}
		} else if !errors.Is(err, fault.ErrDevice) && !errors.Is(err, fault.ErrBudget) {
			t.Errorf("call %d, %s: %v", n, failed, err)
		}
		if device, pinned := d.Held(); device != 0 || pinned != 0 {
			t.Fatalf("call %d: %d bytes of the GPU and %d pinned were not given back", n, device, pinned)
		}
	}
}

// Without a GPU, auto is the CPU and gpu an error that says so; with too little of its memory the error has the bytes that are needed.
func TestNoGPU(t *testing.T) {
	w := newWorld(t, vfstest.TempDir(t), datasettest.Params{Nodes: 40, AvgDegree: 3, Dim: 4, Classes: 2, Seed: 1}.Raw(), 3)
	o := w.options()
	o.Engine = decide.EngineGPU
	d := cudatest.Open(t)
	_, err := evaluate(t.Context(), disk, o, progress.Discard, parts{stack: all.Open, gpu: d, gpuRoom: 100})
	if !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "of the GPU's memory, but 100 B are left") {
		t.Errorf("%v", err)
	}
	if devices, _ := cuda.Devices(); len(devices) > 0 {
		t.Skip("there is a GPU")
	}
	if _, err := Evaluate(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--engine gpu: ") {
		t.Errorf("%v", err)
	}
	o.Engine = ""
	e, err := Evaluate(t.Context(), disk, o, progress.Discard)
	check(t, err)
	if e.Engine != decide.EngineCPU || e.Device != "" {
		t.Errorf("%+v", e.Outcome)
	}
	for says, change := range map[string]func(o *Options){
		"--engine none":    func(o *Options) { o.Engine = "none" },
		"--gpu-memory -1:": func(o *Options) { o.GPUMemory = -1 },
		"--gpu-memory is":  func(o *Options) { o.Engine, o.GPUMemory = decide.EngineCPU, 1<<30 },
	} {
		o := w.options()
		change(&o)
		if _, err := Evaluate(t.Context(), disk, o, progress.Discard); !errors.Is(err, fault.ErrUsage) || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// An interrupted prediction goes on on the GPU, and not from states of the CPU.
func TestGPUGoesOn(t *testing.T) {
	w, room := tiled(t, vfstest.TempDir(t))
	d := cudatest.Open(t)
	host, gpu := w.roomOnGPU(t, d)
	want, whole := w.predictOnGPU(t, d, PredictOptions{}, host, gpu)
	for _, before := range []string{decide.EngineCPU, decide.EngineGPU} {
		o := PredictOptions{Options: w.options(), Out: w.path("out.npy"), Force: true}
		o.Engine = before
		interruptedWith(t, o, parts{stack: all.Open, room: map[string]int64{decide.EngineCPU: room, decide.EngineGPU: host}[before], gpu: d, gpuRoom: gpu}, 2)
		got, p := w.predictOnGPU(t, d, PredictOptions{}, host, gpu)
		if !slices.Equal(binio.Bytes(got), binio.Bytes(want)) {
			t.Errorf("after %s: other bits", before)
		}
		if goesOn := p.BytesRead < whole.BytesRead; goesOn != (before == decide.EngineGPU) {
			t.Errorf("after %s: %d bytes were read, %d by a process that begins", before, p.BytesRead, whole.BytesRead)
		}
	}
}
