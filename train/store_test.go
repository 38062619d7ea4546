package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/featurestore/all"
	"diskgnn/featurestore/memory"
	"diskgnn/featurestore/packed"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/pack"
	"diskgnn/train/rundir"
)

// fromSamples makes options of a pack those of a run that holds all rows in memory.
func (w *world) fromSamples(o *Options) {
	o.Pack, o.Dataset, o.Samples = "", w.path("dataset"), w.path("samples")
}

// On every store of the same samples, losses, scores and weights are the same to the last
// bit where the outermost layer aggregates first, whichever model it is, and where an input
// projection precedes it. Else the first step's loss is, but for rounding.
func TestStoresTrainTheSame(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 400, dim: 20, batch: 30})
	p := w.pack(10)
	for _, model := range []string{"sage", "gcn", "gat"} {
		for what, c := range map[string]struct {
			same   bool
			change func(*Options)
		}{
			"aggregate":  {true, func(o *Options) { o.LayerOrder = "aggregate" }},
			"norm":       {true, func(o *Options) { o.LayerOrder, o.Norm, o.Residual = "aggregate", "batch", true }},
			"projection": {true, func(o *Options) { o.LayerOrder, o.InputProjection = "multiply", true }},
			"multiply":   {false, func(o *Options) { o.LayerOrder = "multiply" }},
		} {
			a := w.options(p, func(o *Options) { o.Model = model }, c.change)
			b := w.fresh(a, w.fromSamples)
			_, want := w.mustRun(a, nil)
			r, losses := w.mustRun(b, nil)
			if len(losses) != len(want) || math.Abs(losses[0]-want[0]) > 1e-5 {
				t.Errorf("%s, %s: losses %v, of the pack %v", model, what, losses, want)
			}
			if r.CacheRows != 400 || r.Epochs[0].RAMBytes == 0 || r.Epochs[0].BytesRead != r.Epochs[0].GraphBytesRead {
				t.Errorf("%s, %s: %+v", model, what, r.Epochs[0])
			}
			if !c.same {
				continue
			}
			x, y := w.ending(a.Out), w.ending(b.Out)
			x.metrics, y.metrics = "", "" // the stores read other bytes
			if !slices.Equal(losses, want) || x != y {
				t.Errorf("%s, %s: the stores differ: losses %v and %v", model, what, want, losses)
			}
		}
	}
}

// run.json names the store and what it was made from, and the process that goes on finds
// both by it.
func TestRunRecordsItsStore(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10)
	found := find(t, p).Lineage()
	for _, c := range []struct {
		o     Options
		name  string
		store string
	}{
		{w.options(p), packed.Name, found.Store},
		{w.fresh(w.options(p), w.fromSamples), memory.Name, ""},
	} {
		w.interrupt(c.o, 5)
		f := state(t, c.o.Out)
		if f.Store != c.name || f.Pack != c.store || f.Samples != found.Samples || f.Dataset != found.Dataset || f.PackFacts.Nodes != 300 {
			t.Errorf("%s: run.json holds %+v", c.name, f)
		}
		again := Options{Out: c.o.Out, Resume: true}
		r, err := w.run(context.Background(), again, &logged{}, nil)
		if err != nil || r.State != rundir.ResultResumed {
			t.Errorf("%s: resumed: %+v, %v", c.name, r.State, err)
		}
		if f := state(t, c.o.Out); f.Store != c.name || f.Resumed != 1 {
			t.Errorf("%s: run.json of the resumed run holds %+v", c.name, f)
		}
	}
	// A run of an earlier version says nothing of its store.
	o := w.options(p)
	w.interrupt(o, 5)
	w.edit(o.Out, `"store": "packed",`, "")
	w.edit(o.Out, `"samples": "`+found.Samples+`",`, "")
	if _, err := w.run(context.Background(), Options{Out: o.Out, Resume: true}, &logged{}, nil); err != nil {
		t.Errorf("an earlier version's run: %v", err)
	}
}

// A run goes on with another store of its samples, as often as it likes, and ends with the
// weights and scores of one that never was interrupted.
func TestResumeOnAnotherStore(t *testing.T) {
	w := newWorld(t, worldParams{})
	onPack := func(p string) func(*Options) { return func(o *Options) { o.Pack, o.Dataset, o.Samples = p, "", "" } }
	p := w.pack(10)
	stores := []func(*Options){onPack(p), w.fromSamples}
	for _, model := range []string{"sage", "gcn", "gat"} {
		whole := w.options(p, func(o *Options) { o.Model, o.LayerOrder, o.Norm = model, "aggregate", "batch" })
		w.mustRun(whole, nil)
		want := w.ending(whole.Out)
		for first := range stores {
			o := w.fresh(whole, stores[first])
			w.interrupt(o, 4)
			o.Resume = true
			stores[1-first](&o)
			w.interrupt(o, 6)
			stores[first](&o)
			if _, err := w.run(context.Background(), o, &logged{}, nil); err != nil {
				t.Fatal(err)
			}
			got := w.ending(o.Out)
			if got.metrics = want.metrics; got != want { // the stores read other bytes
				t.Errorf("%s, from store %d: ends with other weights or scores", model, first)
			}
		}
	}
}

// Where bits depend on the store, or the other store is of something else, it is refused
// with the reason.
func TestResumeOnAnotherStoreRefuses(t *testing.T) {
	w := newWorld(t, worldParams{})
	other := newWorld(t, worldParams{seed: 5})
	p := w.pack(10)
	aggregates := func(o *Options) { o.LayerOrder = "aggregate" }
	for want, c := range map[string]struct {
		pack   string
		begin  func(*Options)
		change func(*Options)
		edit   func(out string)
	}{
		"multiplies before it aggregates": {p, func(o *Options) { o.LayerOrder = "multiply" }, w.fromSamples, nil},
		"an input projection":             {p, func(o *Options) { o.LayerOrder, o.InputProjection = "aggregate", true }, w.fromSamples, nil},
		"rows of int8":                    {w.pack(10, func(o *pack.Options) { o.DType = "int8" }), aggregates, w.fromSamples, nil},
		"was trained on the samples ":     {p, aggregates, other.fromSamples, nil},
		"did not record its samples": {p, aggregates, w.fromSamples, func(out string) {
			w.edit(out, `"samples": "`+find(t, p).Lineage().Samples+`",`, "")
		}},
	} {
		o := w.options(c.pack, c.begin)
		w.interrupt(o, 4)
		if c.edit != nil {
			c.edit(o.Out)
		}
		before := string(w.file(o.Out, "run.json"))
		o.Resume = true
		c.change(&o)
		_, err := w.run(context.Background(), o, &logged{}, nil)
		if !errors.Is(err, fault.ErrLineage) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, want)
		}
		if string(w.file(o.Out, "run.json")) != before {
			t.Errorf("%s: run.json was changed", want)
		}
	}
	// Without an engine there are no bits.
	o := w.options(p, func(o *Options) { o.Engine, o.LayerOrder = EngineNone, "multiply" })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.run(ctx, o, &logged{}, nil); !errors.Is(err, fault.ErrInterrupted) {
		t.Fatal(err)
	}
	o.Resume = true
	w.fromSamples(&o)
	if _, err := w.run(context.Background(), o, &logged{}, nil); err != nil {
		t.Errorf("without an engine: %v", err)
	}
}

// A GPU trains on the rows in RAM, too.
func TestMemoryStoreOnGPU(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10)
	onGPU(t, func(t *testing.T, use func(*parts)) {
		a := w.options(p, gpuRun, func(o *Options) { o.LayerOrder = "aggregate" })
		_, want := w.mustRun(a, use)
		_, losses := w.mustRun(w.fresh(a, w.fromSamples), use)
		for i := range want {
			if math.Abs(losses[i]-want[i]) > 1e-5 {
				t.Fatalf("losses %v, of the pack %v", losses, want)
			}
		}
		o := w.fresh(a, w.fromSamples, func(o *Options) { o.GPUCache = percent(10) })
		if _, err := w.run(context.Background(), o, &logged{}, use); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--gpu-cache 10%") {
			t.Errorf("with a cache on the GPU: %v", err)
		}
	})
}

// Damage names the directory that is made again, which is no pack.
func TestDamagedSamples(t *testing.T) {
	for file, want := range map[string]string{
		"dataset/features.bin":      "its diskgnn generate or import",
		"samples/batches-00000.bin": "its diskgnn presample",
		"samples/hotness.bin":       "its diskgnn presample",
	} {
		w := newWorld(t, worldParams{})
		name := w.path(file)
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/3] ^= 8
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
		o := w.options("", w.fromSamples)
		_, err = w.run(context.Background(), o, &logged{}, nil)
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), filepath.Dir(name)+" is damaged: make it again, by "+want) || strings.Contains(err.Error(), "its diskgnn pack") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// Too little memory is refused before anything is read, and what would do is named and does.
func TestMemoryStoreBudget(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 2000, dim: 700})
	o := w.options("", w.fromSamples, func(o *Options) { o.Epochs = 1 })
	c, _, err := all.Find(disk, all.Auto, o.places())
	if err != nil {
		t.Fatal(err)
	}
	needs := engineNeeds{engine: 1 << 20}
	o.Memory = budget.Reserve + 2<<20
	_, err = planMemory(c, &o, needs)
	if !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "all rows") {
		t.Fatal(err)
	}
	least, scan := bytesNamed(err)
	if scan != nil {
		t.Fatal(err)
	}
	o.Memory = least
	if p, err := planMemory(c, &o, needs); err != nil || p.total > least || p.slots < 1 {
		t.Errorf("with the memory that is named: %+v, %v", p, err)
	}
}

// bytesNamed returns the memory that an error says would do.
func bytesNamed(err error) (int64, error) {
	var mebibytes int64
	_, scan := fmt.Sscanf(after(err.Error(), "would do: --memory "), "%dMiB", &mebibytes)
	return mebibytes << 20, scan
}
