package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"diskgnn/featurestore/onthefly"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	stacks "diskgnn/iostack/all"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train/decide"
	"diskgnn/train/rundir"
)

// drawing is the source of batches that are drawn while training. It outlives the attempts at a
// run: when a batch outgrows the memory of one attempt, the next begins from the latest step. See
// process.attempts.
type drawing struct {
	source *onthefly.Source // nil: not open, or batches were drawn before
	grown  *onthefly.Outgrown
	state  string // of the run, as the first attempt found it: later attempts resume their own work
}

// topology returns the choice of where neighbours are read from.
func (o *Options) topology() topology.Choice {
	c := o.Topology
	if c.Level == topology.Pinned {
		c.Level = topology.Mapped // of which the GPU gets a copy: see pin
	}
	if c.Level == topology.Cached && c.Order == "" {
		c.Order = o.store().ListOrder
	}
	return c
}

// open returns the source that the options describe, opened once and grown where a batch demands
// it. first is the number of epochs that the run was begun with, 0 for a new run.
func (d *drawing) open(ctx context.Context, fsys vfs.FS, o *Options, first int, rep progress.Reporter) (_ *onthefly.Source, err error) {
	if d.source != nil {
		err := d.source.Grow(ctx, d.grown.Ref)
		return d.source, err
	}
	p, err := o.sampling()
	if err != nil {
		return nil, err
	}
	d.source, err = onthefly.Open(ctx, fsys, onthefly.Options{Dataset: o.Dataset, Params: p, AllNodes: o.AllNodes, DryEpochs: o.Dry(), Workers: o.Threads, Memory: o.Memory,
		FirstEpochs: first, Topology: o.topology(), Choose: o.store().HoldsLists, GPU: o.Topology.Level == topology.Pinned, IO: stacks.Beside(o.IO)}, rep)
	return d.source, err
}

// refused adds to a refusal of memory the flag that makes the source hold less.
func (d *drawing) refused(err error) error {
	if d.source == nil || !errors.Is(err, decide.ErrMemory) {
		return err
	}
	return d.source.Refused(err)
}

// facts returns the memory and the devices of drawing, nil where batches were drawn before.
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

// again reports whether an attempt ended because a batch outgrew its memory. Everything but the
// source is then made anew.
func (d *drawing) again(err error) bool {
	var ok bool
	if d.grown, ok = errors.AsType[*onthefly.Outgrown](err); ok {
		debug.FreeOSMemory() // the next attempt begins without this one's memory
	}
	return ok
}

// noRoom adds the cause of an attempt to its error, if the attempt cannot hold a larger batch.
func (d *drawing) noRoom(err error, out string) error {
	if d.grown == nil || !errors.Is(err, fault.ErrBudget) {
		return err
	}
	return fmt.Errorf("%v, and memory does not suffice for it: %w; to go on with more memory, run: %s --memory SIZE", d.grown, err, resumeCommand(out))
}

// found sets the state of a result, which attempts share.
func (d *drawing) found(r *rundir.Result) {
	d.state = cmp.Or(d.state, r.State)
	r.State = d.state
}

func (d *drawing) close() {
	if d.source != nil {
		_ = d.source.Close() // only read from
	}
}

// pin makes the engine's GPU draw the batches, if the options ask for it. The memory for that is
// counted from now on; place takes it.
func (d *drawing) pin(o *Options, needs *engineNeeds, steps int) error {
	if o.Topology.Level != topology.Pinned {
		return nil
	}
	if needs.gpu == nil {
		return fault.New(fault.ErrUsage, "--topology %s needs --engine %s, which cannot run here: %s", topology.Pinned, EngineGPU, cmp.Or(needs.note, "this program or this machine has no GPU"))
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

// place copies the topology to the place that pin chose.
func (d *drawing) place(ctx context.Context, rep progress.Reporter) error {
	if d.source == nil || d.source.Topology() != topology.Pinned {
		return nil
	}
	return d.source.Place(ctx, rep)
}

// unpin releases the memory of an attempt for drawing on the GPU. The loaders are freed before.
func (d *drawing) unpin() {
	if d.source != nil {
		d.source.Unpin()
	}
}
