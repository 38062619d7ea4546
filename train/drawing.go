package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"diskgnn/featurestore/all"
	"diskgnn/featurestore/ginex"
	"diskgnn/featurestore/live"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	stacks "diskgnn/iostack/all"
	"diskgnn/iostack/cufile"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train/decide"
	"diskgnn/train/rundir"
)

// drawing is the source of batches that are drawn while training. It outlives the attempts
// at a run, which begins again from its latest step when a batch outgrows what was made for
// those before: see process.attempts.
type drawing struct {
	source *live.Source // nil: not open, or batches were drawn before
	grown  *live.Outgrown
	state  string // that the first attempt found: what came before the others is their own
}

// topology returns where neighbours are read from. The store ginex holds those that Ginex
// does.
func (o *Options) topology() topology.Choice {
	c := o.Topology
	if c.Level == topology.Pinned {
		c.Level = topology.Mapped // of which the GPU gets a copy: see pin
	}
	if o.store() == ginex.Name && c.Level == topology.Cached && c.Order == "" {
		c.Order = topology.ByGinex
	}
	return c
}

// hostIO returns the kind of storage stack that reads into the host's memory, beside the
// run's.
func hostIO(kind string) string {
	if kind == cufile.Name || stacks.IsNVMe(kind) {
		return stacks.Auto
	}
	return kind
}

// open returns the source that the options describe, of a run that was begun with so many epochs,
// 0 if it is begun now: opened once and grown where a batch demands it.
func (d *drawing) open(ctx context.Context, fsys vfs.FS, o *Options, first int, rep progress.Reporter) (_ *live.Source, err error) {
	if d.source != nil {
		err := d.source.Grow(ctx, d.grown.Ref)
		return d.source, err
	}
	p, err := o.sampling()
	if err != nil {
		return nil, err
	}
	d.source, err = live.Open(ctx, fsys, live.Options{Dataset: o.Dataset, Params: p, DryEpochs: o.Dry(), Workers: o.Threads, Memory: o.Memory,
		FirstEpochs: first, Topology: o.topology(), Choose: all.Divides(o.store()), IO: hostIO(o.IO)}, rep)
	return d.source, err
}

// refused adds to a refusal of memory the flag by which the source holds less of it.
func (d *drawing) refused(err error) error {
	if d.source == nil || !errors.Is(err, decide.ErrMemory) {
		return err
	}
	return d.source.Refused(err)
}

// facts returns what drawing holds, nil where batches were drawn before.
func (d *drawing) facts() *decide.Drawing {
	if d.source == nil {
		return nil
	}
	f := &decide.Drawing{Host: d.source.HostBytes()}
	if level := d.source.Topology(); level != topology.Mapped {
		f.Topology, f.TopologyBytes = level, d.source.TopologyBytes()
	}
	f.Heap = [2]int64{d.source.HeapBytes(false), d.source.HeapBytes(true)}
	f.GPU = [2]int64{d.source.GPUBytes(1, 0), d.source.GPUBytes(0, 1)}
	return f
}

// again reports whether an attempt ended since a batch outgrew what was made for it, after
// which everything but the source is made anew.
func (d *drawing) again(err error) bool {
	var ok bool
	if d.grown, ok = errors.AsType[*live.Outgrown](err); ok {
		debug.FreeOSMemory() // what the attempt held is not what the next one begins with
	}
	return ok
}

// noRoom adds to the error of an attempt that cannot hold a larger batch why it was made.
func (d *drawing) noRoom(err error, out string) error {
	if d.grown == nil || !errors.Is(err, fault.ErrBudget) {
		return err
	}
	return fmt.Errorf("%v, and there is no room for it: %w; go on with more: %s --memory SIZE", d.grown, err, resumeCommand(out))
}

// found settles the state of a result, which attempts share.
func (d *drawing) found(r *rundir.Result) {
	d.state = cmp.Or(d.state, r.State)
	r.State = d.state
}

func (d *drawing) close() {
	if d.source != nil {
		_ = d.source.Close() // only read from
	}
}

// pin makes the engine's GPU draw the batches, if the options say so. What that takes is
// counted from now on; place takes it.
func (d *drawing) pin(o *Options, needs *engineNeeds, steps int) error {
	if o.Topology.Level != topology.Pinned {
		return nil
	}
	if needs.gpu == nil {
		return fault.New(fault.ErrUsage, "--topology %s is for --engine %s, and there is none: %s", topology.Pinned, EngineGPU, cmp.Or(needs.note, "this program or this machine has no GPU"))
	}
	evals := decide.MostEvalSlots
	if f := d.source.Facts(); f.Valid+f.Test == 0 {
		evals = 0
	}
	wanted := o.decided()
	bytes, err := d.source.Pin(needs.gpu, needs.GPULeft, wanted.UnderWay(steps), evals)
	if err != nil {
		return fault.New(err, "--topology %s: %v; --topology %s draws on the host", topology.Pinned, err, topology.Mapped)
	}
	needs.GPULeft -= bytes
	return nil
}

// place copies the topology to where pin has decided.
func (d *drawing) place(ctx context.Context, rep progress.Reporter) error {
	if d.source == nil || d.source.Topology() != topology.Pinned {
		return nil
	}
	return d.source.Place(ctx, rep)
}

// unpin gives back what an attempt took for drawing on the GPU, whose loaders are freed.
func (d *drawing) unpin() {
	if d.source != nil {
		d.source.Unpin()
	}
}
