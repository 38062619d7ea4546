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

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore/agnes"
	"diskgnn/featurestore/gids"
	"diskgnn/featurestore/ginex"
	"diskgnn/featurestore/gnndrive"
	"diskgnn/featurestore/hyperion"
	"diskgnn/featurestore/marius"
	"diskgnn/featurestore/memory"
	"diskgnn/featurestore/mmap"
	"diskgnn/featurestore/packed"
	singlerows "diskgnn/featurestore/rows"
	"diskgnn/featurestore/stores"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/pack"
	"diskgnn/presample"
	"diskgnn/train/decide"
	"diskgnn/train/rundir"
)

// fromSamples makes options of a pack those of a run that holds all rows in memory.
func (w *world) fromSamples(o *Options) {
	o.Pack, o.Dataset, o.Samples = "", w.path("dataset"), w.path("samples")
}

// readers are the stores that read rows while training, with the policy that each has, if any.
var readers = map[string]string{singlerows.Name: "s3fifo", ginex.Name: "belady", gnndrive.Name: "standby", hyperion.Name: ""}

// reading makes options of a pack those of a run on one of the readers, with a cache of a
// tenth of the rows.
func (w *world) reading(store string) func(*Options) {
	return func(o *Options) {
		w.fromSamples(o)
		o.Store, o.RAMCache = store, percent(10)
	}
}

// paging makes options of a pack those of a run that reads and holds pages, with memory for six
// tenths of the rows: 80 of them in the constant buffer, and three pages, of 400 rows of 80 bytes.
func (w *world) paging(o *Options) {
	w.fromSamples(o)
	o.Store, o.RAMCache = gids.Name, percent(60)
}

// inBlocks makes options of a pack those of a run that reads blocks, with room for most of the
// rows.
func (w *world) inBlocks(o *Options) {
	w.fromSamples(o)
	o.Store, o.RAMCache = agnes.Name, percent(95)
}

// mappingRows makes options of a pack those of a run that maps the rows, with a page cache
// for a tenth of them.
func (w *world) mappingRows(o *Options) {
	w.fromSamples(o)
	o.Store, o.RAMCache, o.FaultThreads = mmap.Name, percent(10), 3
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
			taken := r.Epochs[0].InputNodes
			if e := r.Epochs[0]; e.RAMBytes != taken*80 || e.Requests != int64(e.Batches) || e.GPUServedBytes != 0 {
				t.Errorf("%s, %s: %d rows are taken: %+v", model, what, taken, e)
			}
			x, y := w.ending(a.Out), w.ending(b.Out)
			x.metrics, y.metrics = "", "" // the stores read other bytes
			for store, policy := range readers {
				d := w.fresh(a, w.reading(store))
				r, ofRows := w.mustRun(d, nil)
				if e := r.Epochs[0]; r.CacheRows != 40 || r.CachePolicy != policy || e.RAMBytes == 0 || e.RAMBytes%80 != 0 || e.BytesRead <= e.GraphBytesRead || e.InputNodes != taken || e.Requests <= int64(e.Batches) || e.Requests > taken-e.RAMBytes/80+2*int64(e.Batches) || !slices.Equal(ofRows, losses) {
					t.Errorf("%s, %s, %s: %+v, losses %v, in memory %v", store, model, what, e, ofRows, losses)
				}
				z := w.ending(d.Out)
				if z.metrics = ""; c.same && x != z {
					t.Errorf("%s, %s, %s: another ending", store, model, what)
				}
			}
			i := w.fresh(a, w.paging)
			r, ofPages := w.mustRun(i, nil)
			if e := r.Epochs[0]; r.CacheRows != 80+3*51 || r.CachePolicy != gids.Paper || e.RAMBytes == 0 || e.RAMBytes%80 != 0 || e.BytesRead <= e.GraphBytesRead ||
				e.InputNodes != taken || e.BufferBytes == 0 || e.BufferBytes > e.RAMBytes || e.PageHits == 0 || e.Requests != e.PageMisses+2*int64(e.Batches) || e.PageHits+e.PageMisses < taken-e.BufferBytes/80 || !slices.Equal(ofPages, losses) {
				t.Errorf("%s, %s, pages: %+v, losses %v, in memory %v", model, what, e, ofPages, losses)
			}
			z := w.ending(i.Out)
			if z.metrics = ""; c.same && x != z {
				t.Errorf("%s, %s, pages: another ending", model, what)
			}
			m := w.fresh(a, w.mappingRows)
			r, ofMapped := w.mustRun(m, nil)
			if e := r.Epochs[0]; !r.Unchecked || r.FaultThreads != 3 || e.BytesRead <= e.GraphBytesRead || !slices.Equal(ofMapped, losses) {
				t.Errorf("%s, %s: %+v, losses %v, in memory %v", model, what, e, ofMapped, losses)
			}
			b = w.fresh(a, w.inBlocks)
			r, ofBlocks := w.mustRun(b, nil)
			if e := r.Epochs[0]; r.CacheRows != 380 || e.RAMBytes == 0 || e.RAMBytes%80 != 0 || e.BytesRead <= e.GraphBytesRead || !slices.Equal(ofBlocks, losses) {
				t.Errorf("%s, %s: %+v, losses %v, in memory %v", model, what, e, ofBlocks, losses)
			}
			if !c.same {
				continue
			}
			u, v := w.ending(b.Out), w.ending(m.Out)
			u.metrics, v.metrics = "", ""
			if !slices.Equal(losses, want) || x != y || x != u || x != v {
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
		{w.fresh(w.options(p), w.reading(singlerows.Name)), singlerows.Name, ""},
		{w.fresh(w.options(p), w.reading(ginex.Name)), ginex.Name, ""},
		{w.fresh(w.options(p), w.reading(gnndrive.Name)), gnndrive.Name, ""},
		{w.fresh(w.options(p), w.reading(hyperion.Name)), hyperion.Name, ""},
		{w.fresh(w.options(p), w.paging), gids.Name, ""},
		{w.fresh(w.options(p), w.inBlocks), agnes.Name, ""},
		{w.fresh(w.options(p), w.mappingRows), mmap.Name, ""},
	} {
		w.interrupt(c.o, 5)
		f := state(t, c.o.Out)
		if f.Store != c.name || f.Pack != c.store || f.Samples != found.Samples || f.Dataset != found.Dataset || f.PackFacts.Nodes != 300 {
			t.Errorf("%s: run.json holds %+v", c.name, f)
		}
		again := Options{Stores: builtin, Out: c.o.Out, Resume: true}
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
	if _, err := w.run(context.Background(), Options{Stores: builtin, Out: o.Out, Resume: true}, &logged{}, nil); err != nil {
		t.Errorf("an earlier version's run: %v", err)
	}
}

// A run goes on with another store of its samples, as often as it likes, and ends with the
// weights and scores of one that never was interrupted.
func TestResumeOnAnotherStore(t *testing.T) {
	w := newWorld(t, worldParams{})
	onPack := func(p string) func(*Options) {
		return func(o *Options) {
			o.Pack, o.Dataset, o.Samples, o.Store, o.RAMCache, o.FaultThreads = p, "", "", "", nil, 0
		}
	}
	inMemory := func(o *Options) {
		w.fromSamples(o)
		o.Store, o.RAMCache, o.FaultThreads = memory.Name, nil, 0
	}
	p := w.pack(10)
	reading := func(store string) func(*Options) {
		return func(o *Options) { w.reading(store)(o); o.FaultThreads = 0 }
	}
	inBlocks := func(o *Options) { w.inBlocks(o); o.FaultThreads = 0 }
	stores := []func(*Options){onPack(p), inMemory, reading(singlerows.Name), w.mappingRows, reading(ginex.Name), reading(gnndrive.Name), inBlocks, w.paging, reading(hyperion.Name)}
	for _, model := range []string{"sage", "gcn", "gat"} {
		whole := w.options(p, func(o *Options) { o.Model, o.LayerOrder, o.Norm = model, "aggregate", "batch" })
		w.mustRun(whole, nil)
		want := w.ending(whole.Out)
		for first := range stores {
			o := w.fresh(whole, stores[first])
			w.interrupt(o, 4)
			o.Resume = true
			stores[(first+1)%len(stores)](&o)
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

// What was given of the cache of one store is of no use to one that holds all rows: a run goes
// on with that without it.
func TestResumeWithoutTheCache(t *testing.T) {
	w := newWorld(t, worldParams{})
	o := w.options("", w.reading(singlerows.Name), func(o *Options) {
		o.LayerOrder, o.CachePolicy, o.Given = "aggregate", "sieve", []string{"ram-cache", "cache-policy"}
	})
	w.interrupt(o, 4)
	again := Options{Stores: builtin, Out: o.Out, Resume: true, Store: memory.Name, Given: []string{"store"}}
	w.fromSamples(&again)
	r, err := w.run(context.Background(), again, &logged{}, nil)
	if err != nil || r.CacheRows != 300 || r.CachePolicy != "" {
		t.Errorf("%+v, %v", r.Setup, err)
	}
}

// A run on single rows that goes on anywhere reads what one would that never was
// interrupted, and fills its cache with what it held; the policy and the size of the cache
// may change, and then it begins empty.
func TestResumeReadingRows(t *testing.T) {
	w := newWorld(t, worldParams{})
	whole := w.options("", w.reading(singlerows.Name), func(o *Options) { o.CachePolicy, o.Given = "lru", []string{"ram-cache", "cache-policy"} })
	want, _ := w.mustRun(whole, nil)
	for _, at := range []int{1, 4, 9} {
		o := w.fresh(whole)
		w.interrupt(o, at)
		o = Options{Stores: builtin, Out: o.Out, Resume: true}
		r, err := w.run(context.Background(), o, &logged{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.ending(o.Out); got.metrics != w.ending(whole.Out).metrics || got.final != w.ending(whole.Out).final {
			t.Errorf("interrupted after %d batches: another ending", at)
		}
		if r.CachePolicy != "lru" || r.PreloadBytes <= want.PreloadBytes {
			t.Errorf("interrupted after %d batches: %+v", at, r.Setup)
		}
	}
	for what, change := range map[string]func(*Options){
		"another policy": func(o *Options) { o.CachePolicy = "sieve" },
		"a larger cache": func(o *Options) { o.RAMCache = percent(30) },
	} {
		o := w.fresh(whole)
		w.interrupt(o, 7)
		o = Options{Stores: builtin, Out: o.Out, Resume: true, Given: []string{"cache-policy", "ram-cache"}, Resources: rundir.Resources{CachePolicy: "lru", RAMCache: percent(10)}}
		change(&o)
		var log logged
		if _, err := w.run(context.Background(), o, &log, nil); err != nil {
			t.Fatal(what, err)
		}
		if !strings.Contains(log.String(), "the cache begins empty") {
			t.Errorf("%s: reported %v", what, log.String())
		}
		if got := w.ending(o.Out); got.final != w.ending(whole.Out).final {
			t.Errorf("%s: other weights", what)
		}
	}
}

// A run on the recorded accesses of superbatches or hyperbatches reads what it would have read
// without the interruption, wherever it goes on; its checkpoints hold nothing of the rows.
func TestResumeOnRecordedAccesses(t *testing.T) {
	w := newWorld(t, worldParams{})
	for policy, change := range map[string]func(*Options){"belady": w.reading(ginex.Name), "": w.inBlocks} {
		whole := w.options("", change, func(o *Options) { o.Given = []string{"ram-cache"} })
		w.mustRun(whole, nil)
		for _, at := range []int{1, 4, 9} {
			o := w.fresh(whole)
			w.interrupt(o, at)
			o = Options{Stores: builtin, Out: o.Out, Resume: true}
			r, err := w.run(context.Background(), o, &logged{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.ending(o.Out); got.metrics != w.ending(whole.Out).metrics || got.final != w.ending(whole.Out).final {
				t.Errorf("%s, interrupted after %d batches: another ending", whole.Store, at)
			}
			if r.CachePolicy != policy || r.StoreState != 0 {
				t.Errorf("%s, interrupted after %d batches: %+v", whole.Store, at, r.Setup)
			}
		}
	}
}

// On samples of a buffer of partitions, a run that holds these ends as one that holds all rows,
// also when it was interrupted, or went on with the other store in between, or has partitions on a GPU.
func TestHoldingPartitions(t *testing.T) {
	w := newWorld(t, worldParams{})
	for order, walk := range map[string]string{"dispersed": "sweep", "sequential": ""} {
		_, err := presample.Run(context.Background(), disk, presample.Options{Dataset: w.path("dataset"), Out: w.path("samples"), BatchSize: 16, Fanout: []int{3, 4}, Epochs: 2,
			Order: order, Walk: walk, Partitions: 9, Buffer: 6, Force: true}, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		holding := func(o *Options) {
			w.fromSamples(o)
			o.Store = marius.Name
		}
		a := w.options("", w.fromSamples, func(o *Options) { o.LayerOrder = "aggregate" })
		_, want := w.mustRun(a, nil)
		whole := w.fresh(a, holding)
		inRAM, losses := w.mustRun(whole, nil)
		if e := inRAM.Epochs[1]; !slices.Equal(losses, want) || e.RAMBytes == 0 || e.BytesRead <= e.GraphBytesRead || w.ending(whole.Out).final != w.ending(a.Out).final {
			t.Errorf("%s: %+v, losses %v, in memory %v", order, e, losses, want)
		}
		for _, at := range []int{1, 7, 20} {
			o := w.fresh(whole)
			w.interrupt(o, at)
			if _, err := w.run(context.Background(), Options{Stores: builtin, Out: o.Out, Resume: true}, &logged{}, nil); err != nil {
				t.Fatal(err)
			}
			if got := w.ending(o.Out); got.metrics != w.ending(whole.Out).metrics || got.final != w.ending(whole.Out).final {
				t.Errorf("%s, interrupted after %d batches: another ending", order, at)
			}
		}
		o := w.fresh(whole)
		w.interrupt(o, 4)
		o.Resume = true
		w.fromSamples(&o)
		o.Store = memory.Name
		w.interrupt(o, 9)
		holding(&o)
		if _, err := w.run(context.Background(), o, &logged{}, nil); err != nil {
			t.Fatal(err)
		}
		if w.ending(o.Out).final != w.ending(a.Out).final {
			t.Errorf("%s: on both stores in turn, another ending", order)
		}
		onGPU := func(o *Options) { o.Engine, o.GPUCache = EngineGPU, percent(30) }
		a = w.fresh(a, onGPU)
		w.mustRun(a, onDevice(cudatest.Open(t)))
		cudatest.Late(t, cudatest.Orders, func(t *testing.T, d *cuda.Device) {
			o := w.fresh(whole, onGPU)
			r, _ := w.mustRun(o, onDevice(d))
			if e := r.Epochs[1]; e.GPUServedBytes == 0 || e.BytesRead != inRAM.Epochs[1].BytesRead || w.ending(o.Out).final != w.ending(a.Out).final {
				t.Errorf("%s, rows on the GPU: %+v", order, e)
			}
			o = w.fresh(o)
			w.interrupt(o, 7, onDevice(d))
			if _, err := w.run(context.Background(), Options{Stores: builtin, Out: o.Out, Resume: true}, &logged{}, onDevice(d)); err != nil {
				t.Fatal(err)
			}
			if w.ending(o.Out).final != w.ending(a.Out).final {
				t.Errorf("%s, rows on the GPU, interrupted: another ending", order)
			}
		})
	}
}

// A run on pages that goes on anywhere reads what one would that never was interrupted, and fills
// its levels with what they held; in another mode its cache begins empty.
func TestResumeReadingPages(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 600, dim: 100})
	whole := w.options("", w.paging, func(o *Options) { o.CachePolicy, o.Given = gids.Script, []string{"ram-cache", "cache-policy"} })
	w.mustRun(whole, nil)
	for _, at := range []int{1, 4, 9} {
		o := w.fresh(whole)
		w.interrupt(o, at)
		var log logged
		r, err := w.run(context.Background(), Options{Stores: builtin, Out: o.Out, Resume: true}, &log, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.ending(o.Out); got.metrics != w.ending(whole.Out).metrics || got.final != w.ending(whole.Out).final {
			t.Errorf("interrupted after %d batches: another ending", at)
		}
		if r.CachePolicy != gids.Script || r.StoreState == 0 || strings.Contains(log.String(), "begins empty") {
			t.Errorf("interrupted after %d batches: %+v, reported %v", at, r.Setup, log.String())
		}
	}
	o := w.fresh(whole)
	w.interrupt(o, 7)
	var log logged
	again := Options{Stores: builtin, Out: o.Out, Resume: true, Given: []string{"cache-policy"}, Resources: rundir.Resources{CachePolicy: gids.Paper}}
	if _, err := w.run(context.Background(), again, &log, nil); err != nil || !strings.Contains(log.String(), "the cache begins empty") {
		t.Errorf("another mode: %v, reported %v", err, log.String())
	}
	if got := w.ending(o.Out); got.final != w.ending(whole.Out).final {
		t.Error("another mode: other weights")
	}
}

// A run on mapped rows goes on with the threads that it was given, or on a store that has
// none of them.
func TestResumeMappingRows(t *testing.T) {
	w := newWorld(t, worldParams{})
	whole := w.options("", w.mappingRows, func(o *Options) {
		o.PageCache, o.Given = decide.PageCacheDrop, []string{"ram-cache", "fault-threads", "page-cache"}
	})
	w.mustRun(whole, nil)
	for what, c := range map[string]struct {
		again   Options
		threads int
		says    string
	}{
		"as it was":    {Options{}, 3, ""},
		"more threads": {Options{Given: []string{"fault-threads"}, Resources: rundir.Resources{FaultThreads: 5}}, 5, "fault threads 5 (was 3)"},
		"single rows":  {Options{Given: []string{"store"}, Store: singlerows.Name}, 0, "fault threads 0 (was 3)"},
	} {
		o := w.fresh(whole)
		w.interrupt(o, 4)
		c.again.Stores, c.again.Out, c.again.Resume = builtin, o.Out, true
		var log logged
		r, err := w.run(context.Background(), c.again, &log, nil)
		if err != nil || r.FaultThreads != c.threads || !strings.Contains(log.String(), c.says) {
			t.Errorf("%s: %d threads, %v, reported %v", what, r.FaultThreads, err, log.String())
		}
		f, err := rundir.Read(disk, o.Out)
		if kept := map[bool]string{true: decide.PageCacheDrop}[c.threads > 0]; err != nil || f.Preferences.PageCache != kept || r.Setup.PageCache != kept {
			t.Errorf("%s: the page cache is held by %q, %q is kept, %v", what, r.Setup.PageCache, f.Preferences.PageCache, err)
		}
		if got := w.ending(o.Out); got.final != w.ending(whole.Out).final {
			t.Errorf("%s: other weights", what)
		}
	}
}

// What a store without a choice of policies or mapped rows is given, and batches in another
// order than the samples', are refused by the flag.
func TestRowsRefuses(t *testing.T) {
	w := newWorld(t, worldParams{})
	for want, change := range map[string]func(*Options){
		"--cache-policy lru: the rows in the cache of the store memory are chosen before training": func(o *Options) { w.fromSamples(o); o.CachePolicy = "lru" },
		"--cache-policy min: the store rows has s3fifo, lru, clock, sieve":                         func(o *Options) { w.reading(singlerows.Name)(o); o.CachePolicy = "min" },
		"--fault-threads 4: the store rows does not map its rows":                                  func(o *Options) { w.reading(singlerows.Name)(o); o.FaultThreads = 4 },
		"--accumulator 5: the store rows has no accumulator":                                       func(o *Options) { w.reading(singlerows.Name)(o); o.Accumulator = "5" },
		"--accumulator measure: the store rows has no accumulator":                                 func(o *Options) { w.reading(singlerows.Name)(o); o.Accumulator = rundir.Measure },
		"--accumulator 0: give a number of accesses from 1 to 1099511627776, or measure":           func(o *Options) { w.paging(o); o.Accumulator = "0" },
		"--accumulator many: give a number of accesses from 1 to 1099511627776, or measure":        func(o *Options) { w.paging(o); o.Accumulator = "many" },
		"--fault-threads 5000: give a number from 1 to 4096":                                       func(o *Options) { w.mappingRows(o); o.FaultThreads = 5000 },
		"--shuffle-batches: the cache of the store rows needs":                                     func(o *Options) { w.reading(singlerows.Name)(o); o.ShuffleBatches = true },
	} {
		o := w.options("", change)
		if _, err := w.run(context.Background(), o, &logged{}, nil); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
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

// A GPU trains on the rows in its memory and in RAM, wherever they are.
func TestMemoryStoreOnGPU(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(10)
	onGPU(t, func(t *testing.T, use func(*parts)) {
		a := w.options(p, gpuRun, func(o *Options) { o.LayerOrder = "aggregate" })
		_, want := w.mustRun(a, use)
		r, losses := w.mustRun(w.fresh(a, w.fromSamples), use)
		if r.Setup.GPUCacheRows != r.Setup.CacheRows || r.Setup.GPUCacheSize == 0 {
			t.Errorf("what fits is not on the GPU: %+v", r.Setup)
		}
		servedWhere(t, r)
		for i := range want {
			if math.Abs(losses[i]-want[i]) > 1e-5 {
				t.Fatalf("losses %v, of the pack %v", losses, want)
			}
		}
		for _, share := range []float64{0, 10} {
			r, same := w.mustRun(w.fresh(a, w.fromSamples, func(o *Options) { o.GPUCache = percent(share) }), use)
			if rows := int64(share / 100 * float64(r.Setup.CacheRows)); r.Setup.GPUCacheRows != rows || !slices.Equal(same, losses) {
				t.Errorf("with %v%% on the GPU, %d rows: losses %v, with all %v", share, r.Setup.GPUCacheRows, same, losses)
			}
			servedWhere(t, r)
		}
	})
}

// A GPU trains on frames in its memory and in RAM: wherever they are, losses are those of all
// rows in memory, a batch hits as often, and a run that was interrupted ends the same. What is
// not said is on the GPU, as much as it has room for.
func TestReadersOnGPU(t *testing.T) {
	w := newWorld(t, worldParams{})
	onGPU(t, func(t *testing.T, use func(*parts)) {
		a := w.options("", w.fromSamples, gpuRun)
		_, want := w.mustRun(a, use)
		for store, policy := range readers {
			ram := int64(-1)
			for _, c := range []struct {
				gpu, ram  *budget.Size
				near, all int64
			}{
				{percent(0), percent(30), 0, 90}, {percent(10), percent(20), 30, 90}, {percent(30), percent(0), 90, 90},
				{nil, percent(10), 300, 300}, {percent(10), nil, 30, 300}, {nil, nil, 300, 300},
			} {
				o := w.fresh(a, w.reading(store), func(o *Options) {
					o.GPUCache, o.RAMCache, o.CheckpointEvery = c.gpu, c.ram, rundir.Interval{Batches: 5}
				})
				r, losses := w.mustRun(o, use)
				s := &r.Setup
				if s.GPUCacheRows != c.near || s.CacheRows != c.all || s.GPUCacheSize != c.near*28 || s.CachePolicy != policy || !slices.Equal(losses, want) {
					t.Errorf("%s, %v on the GPU and %v in RAM: %+v, losses %v, in memory %v", store, c.gpu, c.ram, s, losses, want)
				}
				servedWhere(t, r)
				if hits := r.Epochs[0].RAMBytes; c.all == 90 {
					if ram >= 0 && hits != ram || hits == 0 {
						t.Errorf("%s, %v on the GPU and %v in RAM: hits of %d bytes, elsewhere %d", store, c.gpu, c.ram, hits, ram)
					}
					ram = hits
				}
				if c.near != 30 {
					continue
				}
				ended := w.ending(o.Out)
				again := w.fresh(o)
				w.interrupt(again, 7, use)
				again.Resume = true
				if _, err := w.run(context.Background(), again, &logged{}, use); err != nil {
					t.Fatal(err)
				}
				w.ending(again.Out).compare(t, store, ended)
			}
		}
	})
}

// Whatever order the GPU's streams work in that change the frames, a run ends with the same
// bytes, also when it is interrupted.
func TestReadersOnGPULate(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 200})
	for store := range readers {
		first := w.options("", w.reading(store), gpuRun, func(o *Options) { o.GPUCache, o.CheckpointEvery = percent(7), rundir.Interval{Batches: 5} })
		w.mustRun(first, onDevice(cudatest.Open(t)))
		want := w.ending(first.Out)
		cudatest.Late(t, cudatest.Orders, func(t *testing.T, d *cuda.Device) {
			o := w.fresh(first)
			w.interrupt(o, 4, onDevice(d))
			o.Resume = true
			if _, err := w.run(context.Background(), o, &logged{}, onDevice(d)); err != nil {
				t.Fatal(err)
			}
			w.ending(o.Out).compare(t, store, want)
		})
	}
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
	c, _, err := builtin.Find(disk, stores.Auto, o.places())
	if err != nil {
		t.Fatal(err)
	}
	needs := decide.Needs{Engine: 1 << 20}
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
	if p, err := planMemory(c, &o, needs); err != nil || p.Total > least || p.Slots < 1 {
		t.Errorf("with the memory that is named: %+v, %v", p, err)
	}
}

// bytesNamed returns the memory that an error says would do.
func bytesNamed(err error) (int64, error) {
	var mebibytes int64
	_, scan := fmt.Sscanf(after(err.Error(), "would do: --memory "), "%dMiB", &mebibytes)
	return mebibytes << 20, scan
}
