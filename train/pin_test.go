package train

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore/ginex"
	"diskgnn/featurestore/memory"
	singlerows "diskgnn/featurestore/rows"
	"diskgnn/internal/fault"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train/engine"
	"diskgnn/train/rundir"
)

func pinned(o *Options) { o.Topology.Level = topology.Pinned }

// gpuLeaves is a GPU whose engine leaves so many bytes of its memory.
func gpuLeaves(d *cuda.Device, bytes int64) func(*parts) {
	return func(p *parts) {
		p.engine = func(w engineWish) (engine.Engine, engineNeeds, error) {
			e, needs, err := newGPUEngineOn(d, w)
			needs.GPULeft = min(needs.GPULeft, bytes)
			return e, needs, err
		}
	}
}

// inTurn makes several changes.
func inTurn(changes ...func(*parts)) func(*parts) {
	return func(p *parts) {
		for _, c := range changes {
			c(p)
		}
	}
}

// A run whose batches the GPU draws ends as one whose batches the host draws, to the last bit,
// on stores with windows and without, wherever the topology is, and also where a batch
// outgrows those of the dry pass.
func TestGPUPinnedChangesNothing(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, epochs: 3})
	for _, store := range []string{memory.Name, singlerows.Name, ginex.Name} {
		a := w.options("", w.live, gpuRun, dry("all"), func(o *Options) { o.Store, o.Dropout = store, 0.5 })
		onGPU(t, func(t *testing.T, use func(*parts)) {
			_, want := w.mustRun(w.fresh(a, dry("all")), use)
			for _, epochs := range []string{"all", "0.01"} {
				b := w.fresh(a, dry(epochs), pinned)
				var rep logged
				var rec recorder
				if _, err := w.run(context.Background(), b, &rep, inTurn(use, rec.wrap)); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(rec.losses, want) {
					t.Errorf("%s, dry %s: losses %v, want %v", store, epochs, rec.losses, want)
				}
				if !strings.Contains(rep.String(), "in the GPU's memory, where batches are drawn") {
					t.Errorf("%s: %s", store, rep.String())
				}
			}
		})
	}
}

// A topology that is more than a quarter of what the GPU has left is pinned in RAM, and counts
// there; one that --memory does not cover is refused, and so are batches that the GPU has no
// room for.
func TestPinnedInRAM(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 50000, dim: 2, batch: 500, epochs: 1})
	o := w.options("", w.live, gpuRun, dry("0.01"), func(o *Options) { o.Slots, o.BatchSize, o.Epochs, o.TrainRatio = 2, 50, 1, 0.04 })
	d := cudatest.Open(t)
	near, want := w.mustRun(w.fresh(o, pinned), gpuLeaves(d, 1<<30))
	var rep logged
	var rec recorder
	var far rundir.Result
	err := fault.ErrBudget
	left := int64(256 << 10)
	for ; errors.Is(err, fault.ErrBudget); left += 256 << 10 { // the first that suffices
		rec = recorder{}
		far, err = w.run(context.Background(), w.fresh(o, pinned), &rep, inTurn(gpuLeaves(d, left), rec.wrap))
	}
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(rep.String(), "pinned in RAM, more than a quarter of the") || strings.Contains(rep.String(), " its own memory: ") || !slices.Equal(rec.losses, want) {
		t.Errorf("%d losses, %d wanted: %s", len(rec.losses), len(want), rep.String())
	}
	if more := far.Setup.Planned - near.Setup.Planned; more < 12*50000 || far.Setup.GPUBytes >= near.Setup.GPUBytes {
		t.Errorf("in RAM %d bytes more are planned; %d of the GPU's, with the topology there %d", more, far.Setup.GPUBytes, near.Setup.GPUBytes)
	}
	// With more room, its index and the lists with most draws are on the GPU as well.
	var most int64
	for ; !strings.Contains(rep.String(), " its own memory: "); left += 256 << 10 {
		rep, rec, most = logged{}, recorder{}, 0
		if far, err = w.run(context.Background(), w.fresh(o, pinned), &rep, inTurn(gpuWatched(d, left, &most), rec.wrap)); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(rec.losses, want) || most != far.Setup.GPUBytes || far.Setup.GPUBytes >= near.Setup.GPUBytes {
		t.Errorf("%d losses, %d wanted; %d bytes of the GPU's are held, %d are said: %s", len(rec.losses), len(want), most, far.Setup.GPUBytes, rep.String())
	}
	_, err = w.run(context.Background(), w.fresh(o, pinned), &logged{}, gpuLeaves(d, 10<<10))
	if !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "--topology pinned: drawing") || strings.Contains(err.Error(), "\n") {
		t.Errorf("no room: %v", err)
	}
}

// What is said of the GPU's memory is what is held of it while training.
func TestPinnedMemory(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, epochs: 2})
	d := cudatest.Open(t)
	o := w.options("", w.live, gpuRun, pinned)
	var most int64
	r, err := w.run(context.Background(), o, &logged{}, gpuWatched(d, 1<<30, &most))
	if err != nil {
		t.Fatal(err)
	}
	if most != r.Setup.GPUBytes {
		t.Errorf("%d bytes of the GPU's are held, %d are said", most, r.Setup.GPUBytes)
	}
}

// gpuWatched is gpuLeaves; most becomes the bytes of the GPU's memory that are held while training.
func gpuWatched(d *cuda.Device, left int64, most *int64) func(*parts) {
	return func(p *parts) {
		gpuLeaves(d, left)(p)
		made := p.engine
		p.engine = func(w engineWish) (engine.Engine, engineNeeds, error) {
			e, needs, err := made(w)
			return &heldWatch{e, func() { held, _ := d.Held(); *most = max(*most, held) }}, needs, err
		}
	}
}

// heldWatch calls a function whenever a work is made.
type heldWatch struct {
	engine.Engine
	look func()
}

func (w *heldWatch) NewWork(eval bool, matrix []byte) (engine.Work, error) {
	work, err := w.Engine.NewWork(eval, matrix)
	w.look()
	return work, err
}

// A run that goes on still draws on the GPU, unless another topology is given.
func TestPinnedResumes(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, epochs: 3})
	use := gpuLeaves(cudatest.Open(t), 1<<30)
	o := w.options("", w.live, gpuRun, pinned, func(o *Options) {
		o.CheckpointEvery = rundir.Interval{Batches: 1}
		o.Given = append(o.Given, "topology")
	})
	whole := w.fresh(o)
	w.mustRun(whole, use)
	for _, given := range []string{"", topology.Mapped} {
		cut := w.fresh(o)
		w.interrupt(cut, 5, use)
		again := Options{Stores: builtin, Out: cut.Out, Resume: true, Resources: rundir.Resources{Topology: topology.Choice{Level: given}}}
		if given != "" {
			again.Given = []string{"topology"}
		}
		var rep logged
		if _, err := w.run(context.Background(), again, &rep, use); err != nil {
			t.Fatal(err)
		}
		if drawn := strings.Contains(rep.String(), "where batches are drawn"); drawn != (given == "") {
			t.Errorf("topology %q: %s", given, rep.String())
		}
		w.ending(cut.Out).compare(t, "resumed", w.ending(whole.Out))
	}
}

// What --topology does not go with is refused in one line.
func TestPinnedRefusals(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150})
	for what, c := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"another one": {func(o *Options) { o.Topology.Level = "paged" }, "--topology paged is not one of mapped, cached, pinned"},
		"samples":     {func(o *Options) { w.fromSamples(o); o.Fanout, o.BatchSize = "", 0 }, "--topology pinned needs --fanout, which draws batches while training"},
		"an order":    {func(o *Options) { o.Topology.Order = topology.Orders()[0] }, "needs --topology cached"},
		"labor":       {func(o *Options) { o.Recipe.Sampler = "labor" }, "draws only by --sampler uniform, not labor"},
		"cpu":         {func(o *Options) { o.Engine = EngineCPU }, "--topology pinned is for --engine gpu"},
		"none":        {func(o *Options) { o.Engine = EngineNone }, "--topology pinned is for --engine gpu"},
		"no GPU":      {func(o *Options) { o.Engine = EngineAuto }, "--topology pinned needs --engine gpu, which cannot run here: "},
	} {
		o := w.options("", w.live, pinned, func(o *Options) { o.Engine = EngineGPU }, c.change)
		_, err := w.run(context.Background(), o, &logged{}, func(p *parts) {
			p.engine = func(w engineWish) (engine.Engine, engineNeeds, error) {
				return chooseEngine(w, func(engineWish) (engine.Engine, engineNeeds, error) {
					return nil, engineNeeds{}, cuda.ErrNoDevice
				})
			}
		})
		if !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
