package train

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/featurestore/all"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// preferences returns what was given of them.
func (o *Options) preferences() rundir.Preferences {
	var p rundir.Preferences
	for flag, keep := range map[string]func(){
		"memory":           func() { p.Memory = o.Memory },
		"threads":          func() { p.Threads = o.Threads },
		"ram-cache":        func() { p.RAMCache = o.RAMCache },
		"cache-policy":     func() { p.CachePolicy = o.CachePolicy },
		"fault-threads":    func() { p.FaultThreads = o.FaultThreads },
		"topology":         func() { p.Topology = o.Topology.Level },
		"topology-memory":  func() { p.TopologyMemory = o.Topology.Memory },
		"topology-order":   func() { p.TopologyOrder = o.Topology.Order },
		"page-cache":       func() { p.PageCache = o.PageCache },
		"slots":            func() { p.Slots = o.Slots },
		"gpu-memory":       func() { p.GPUMemory = o.GPUMemory },
		"gpu-cache":        func() { p.GPUCache = o.GPUCache },
		"io":               func() { p.IO = o.IO },
		"checkpoint-every": func() { p.CheckpointEvery = &o.CheckpointEvery },
		"keep":             func() { p.Keep = o.Keep },
		"trace":            func() { p.Trace = &o.Trace },
	} {
		if o.gave(flag) {
			keep()
		}
	}
	return p
}

func (o *Options) gave(flag string) bool { return slices.Contains(o.Given, flag) }

// params returns what decides the result.
func (o *Options) params() rundir.Params {
	p := rundir.Params{Recipe: o.Recipe, Network: o.Network()}
	if o.Engine != EngineGPU {
		p.Precision = "" // which the other engines have none of
	}
	return p
}

// recall completes the options by those of the run that is resumed, and refuses flags
// that say otherwise about what decides the result.
func (o *Options) recall(was *rundir.File) error {
	if err := o.sameDrawing(was); err != nil {
		return err
	}
	if o.Pack == "" && o.Dataset == "" && o.Samples == "" {
		o.Pack, o.Dataset, o.Samples = was.PackPath, was.DatasetPath, was.SamplesPath
		if !o.gave("store") {
			o.Store = cmp.Or(was.Store, all.Auto)
		}
	}
	if o.WeightsPath == "" {
		o.WeightsPath = was.WeightsPath
	}
	if o.Engine == EngineAuto {
		o.Engine = was.Setup.Engine
	}
	var differ []string
	o.first = cmp.Or(was.FirstEpochs, was.Params.Epochs)
	if was.FirstEpochs < 0 || was.FirstEpochs > was.Params.Epochs {
		return fault.New(fault.ErrCorrupt, "it was begun with %d of %d epochs", was.FirstEpochs, was.Params.Epochs)
	}
	for _, d := range o.Recipe.Recall(&was.Params.Recipe, o.Given) {
		if o.longer(was) && d.Flag == "epochs" {
			if err := o.checkLonger(was); err != nil {
				return err
			}
			continue
		}
		if d.Flag == "init-from" {
			differ = append(differ, o.otherWeights(was))
			continue
		}
		differ = append(differ, d.String())
	}
	if !o.gave("engine") {
		o.Engine = was.Setup.Engine
	} else if o.Engine != was.Setup.Engine {
		differ = append(differ, recipe.Difference{Flag: "engine", Value: o.Engine, Than: was.Setup.Engine}.String())
	}
	if len(differ) > 0 {
		return fault.New(fault.ErrExists, "%s cannot be resumed with other parameters: %s; leave these flags out, or train anew under another name or with --force", o.Out, strings.Join(differ, "; "))
	}
	if kind := blas.KindOf(was.Setup.BLAS); (kind == blas.Gonum || kind == blas.Builtin) && !o.gave("blas") {
		o.BLAS = kind // without OpenBLAS, sameArithmetic says what is missing
	}
	o.prefer(&was.Preferences)
	o.EnsureDefaults() // of what earlier versions of this program had no option for
	return nil
}

// otherWeights says that a run began with other weights than are given now.
func (o *Options) otherWeights(was *rundir.File) string {
	if was.Params.InitFrom == "" {
		return fmt.Sprintf("--init-from %s was given, it began with weights that --seed draws", o.WeightsPath)
	}
	return fmt.Sprintf("--init-from %s was given, it began with another file, %s", o.WeightsPath, was.WeightsPath)
}

// longer tells whether a run that goes on is to have more epochs than it had.
func (o *Options) longer(was *rundir.File) bool {
	return o.gave("epochs") && o.Epochs > was.Params.Epochs
}

// done tells whether a run that was there is finished, and nothing is wanted of it. One that stopped
// early would have done so with any more epochs.
func (o *Options) done(was *rundir.File) bool {
	return was.State == rundir.StateFinished && was.Result != nil && (was.Result.StoppedEarly || !o.longer(was))
}

// checkLonger refuses to make a run longer that would have been another from the first step on, had
// it been begun with as many epochs.
func (o *Options) checkLonger(was *rundir.File) error {
	r := &was.Params.Recipe
	why := r.Bound()
	if r.Live() && r.Dry() > float64(o.first) && !inputOrderFree(&was.Params.Network, &was.Setup.Info) {
		why = "all epochs are drawn before training, and how nodes are numbered by that decides last bits (--dry-epochs, --layer-order)"
	}
	if why == "" {
		return nil
	}
	return fault.New(fault.ErrUsage, "%s cannot be made longer than its %d epochs: %s; train another run of %d epochs, which may begin with its weights: --init-from %s", o.Out, was.Params.Epochs, why, o.Epochs, o.Out)
}

// sameDrawing refuses to draw batches while training where the run's were drawn before, and
// the other way round.
func (o *Options) sameDrawing(was *rundir.File) error {
	before := &was.Params.Recipe
	switch from := cmp.Or(o.Pack, o.Samples); {
	case before.Live() && from != "":
		return fault.New(fault.ErrLineage, "%s was trained on batches that were drawn while training, of fanout %s: go on without %s", o.Out, before.Fanout, from)
	case o.Live() && !before.Live():
		return fault.New(fault.ErrExists, "%s was trained on batches that were drawn before: go on without --fanout", o.Out)
	}
	return nil
}

// checkOptions refuses a run at out whose options no run begins with.
func checkOptions(f *rundir.File, out string) error {
	o := Defaults()
	if o.Out = out; f.Params.Live() {
		o.Dataset = "dataset"
	} else {
		o.Pack = "pack"
	}
	err := o.recall(f)
	if err == nil {
		err = o.Validate()
	}
	if err != nil {
		return fault.New(fault.ErrCorrupt, "%s says what no run is begun with: %v", filepath.Join(out, stage.RunFile), err)
	}
	return nil
}

// prefer takes over what an earlier process was given and this one was not.
func (o *Options) prefer(p *rundir.Preferences) {
	take := func(flag string, was bool, set func()) {
		if was && !o.gave(flag) {
			set()
			o.Given = append(slices.Clip(o.Given), flag)
		}
	}
	take("memory", p.Memory != 0, func() { o.Memory = p.Memory })
	take("threads", p.Threads != 0, func() { o.Threads = p.Threads })
	store, _ := all.Choose(o.Store, o.places()) // another one may have no use for what follows
	take("ram-cache", p.RAMCache != nil && !all.HoldsAll(store), func() { o.RAMCache = p.RAMCache })
	take("cache-policy", slices.Contains(all.Policies(store), p.CachePolicy), func() { o.CachePolicy = p.CachePolicy })
	take("fault-threads", p.FaultThreads != 0 && all.Maps(store), func() { o.FaultThreads = p.FaultThreads })
	take("topology", p.Topology != "" && o.Live(), func() { o.Topology.Level = p.Topology })
	if o.Topology.Level == topology.Cached { // another level has no use for them
		take("topology-memory", p.TopologyMemory != nil, func() { o.Topology.Memory = p.TopologyMemory })
		take("topology-order", p.TopologyOrder != "", func() { o.Topology.Order = p.TopologyOrder })
	}
	take("page-cache", p.PageCache != "" && all.Maps(store), func() { o.PageCache = p.PageCache })
	take("slots", p.Slots != 0, func() { o.Slots = p.Slots })
	take("gpu-memory", p.GPUMemory != 0, func() { o.GPUMemory = p.GPUMemory })
	take("gpu-cache", p.GPUCache != nil, func() { o.GPUCache = p.GPUCache })
	take("io", p.IO != "", func() { o.IO = p.IO })
	take("checkpoint-every", p.CheckpointEvery != nil, func() { o.CheckpointEvery = *p.CheckpointEvery })
	take("keep", p.Keep != 0, func() { o.Keep = p.Keep })
	take("trace", p.Trace != nil, func() { o.Trace = *p.Trace })
}

// runToResume returns run.json of the run at out, or nil where there is none.
func runToResume(fsys vfs.FS, out string) (*rundir.File, error) {
	out = filepath.Clean(out)
	if ok, err := vfs.Exists(fsys, out); err != nil || !ok {
		return nil, err
	}
	was, err := rundir.Read(fsys, out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // checkOut decides whether anything else is there
	case err != nil:
		return nil, err
	}
	return &was, nil
}

// sameArithmetic refuses to go on where other code would round otherwise.
func sameArithmetic(f *rundir.File, now engine.Info) error {
	differ := differentArithmetic(&f.Setup.Info, now)
	if differ == "" {
		return nil
	}
	return fault.New(fault.ErrLineage, "the run cannot be resumed here: it was trained with %s", differ)
}

// differentArithmetic says what would round otherwise, "" if nothing would.
func differentArithmetic(i *engine.Info, now engine.Info) string {
	var differ []string
	for _, d := range []struct{ what, was, now string }{
		{"matrix products by", i.BLAS, now.BLAS},
		{"kernels", i.SIMD, now.SIMD},
		{"the GPU", i.Device, now.Device},
		{"layer orders", fmt.Sprint(i.Orders, i.EvalOrders), fmt.Sprint(now.Orders, now.EvalOrders)},
	} {
		if d.was != d.now {
			differ = append(differ, fmt.Sprintf("%s %s, now %s", d.what, d.was, d.now))
		}
	}
	return strings.Join(differ, "; ")
}

// changes says what differs that may, "" if nothing does.
func changes(f, now *rundir.File) string {
	a, b := &f.Setup, &now.Setup
	var differ []string
	add := func(what string, was, now any) {
		if was != now {
			differ = append(differ, fmt.Sprintf("%s %v (was %v)", what, now, was))
		}
	}
	add("threads", a.Threads, b.Threads)
	add("io", a.IO, b.IO)
	add("memory", budget.FormatBytes(a.Memory), budget.FormatBytes(b.Memory))
	add("cache", budget.FormatBytes(a.CacheSize), budget.FormatBytes(b.CacheSize))
	add("cache policy", a.CachePolicy, b.CachePolicy)
	add("fault threads", a.FaultThreads, b.FaultThreads)
	add("topology", cmp.Or(a.Topology, topology.Mapped), cmp.Or(b.Topology, topology.Mapped))
	add("held topology", budget.FormatBytes(a.TopologySize), budget.FormatBytes(b.TopologySize))
	add("page cache", a.PageCache, b.PageCache)
	add("GPU cache", budget.FormatBytes(a.GPUCacheSize), budget.FormatBytes(b.GPUCacheSize))
	add("slots", a.Slots, b.Slots)
	add("slots for evaluation", a.EvalSlots, b.EvalSlots)
	add("ranks", max(1, a.Ranks), max(1, b.Ranks))
	add("program", f.Version, now.Version)
	return strings.Join(differ, ", ")
}
