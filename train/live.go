package train

import (
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
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
)

// drawing is the source of batches that are drawn while training. It outlives the attempts
// at a run, which begins again from its latest step when a batch outgrows what was made for
// those before: see run.
type drawing struct {
	source *live.Source // nil: not open, or batches were drawn before
	grown  *live.Outgrown
}

// topology returns where neighbours are read from. The store ginex holds those that Ginex
// does.
func (o *Options) topology() topology.Choice {
	c := o.Topology
	if c.Level == topology.Pinned {
		c.Level = topology.Mapped // of which the GPU gets a copy: see pin
	}
	if store, _ := all.Choose(o.Store, o.places()); store == ginex.Name && c.Level == topology.Cached && c.Order == "" {
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

// sampling returns what decides the batches that are drawn while training.
func (o *Options) sampling() (mbfile.Params, error) {
	p := mbfile.Params{BatchSize: o.BatchSize, Epochs: o.Epochs, TrainRatio: o.TrainRatio, Order: sampler.Random, Seed: o.SampleSeed, Sampler: sampler.Version}
	var err error
	if p.Fanout, err = sampler.ParseFanout(o.Fanout); err != nil {
		return p, fault.New(err, "--fanout: %v", err)
	}
	if p.EvalFanout, err = sampler.EvalFanout(o.EvalFanout, p.Fanout); err != nil {
		return p, err
	}
	if err := sampler.SetMethod(&p, o.Sampler, o.BatchDependency, o.LayerDependency); err != nil {
		return p, err
	}
	return p, sampler.Check(&p)
}

// open returns the source that the options describe, opened once and grown where a batch
// demands it.
func (d *drawing) open(ctx context.Context, fsys vfs.FS, o *Options, rep progress.Reporter) (_ *live.Source, err error) {
	if d.source != nil {
		err := d.source.Grow(ctx, d.grown.Ref)
		return d.source, err
	}
	p, err := o.sampling()
	if err != nil {
		return nil, err
	}
	store, _ := all.Choose(o.Store, o.places()) // which Validate has let pass
	d.source, err = live.Open(ctx, fsys, live.Options{Dataset: o.Dataset, Params: p, DryEpochs: o.Dry(), Workers: o.Threads, Memory: o.Memory,
		FirstEpochs: o.first, Topology: o.topology(), Choose: all.Divides(store), IO: hostIO(o.IO)}, rep)
	return d.source, err
}

// refused adds to a refusal of memory the flag by which the source holds less of it.
func (d *drawing) refused(err error) error {
	if d.source == nil || !errors.Is(err, errMemory) {
		return err
	}
	return d.source.Refused(err)
}

// heap returns what slots have of Go's heap for drawing, less what the source has outside it.
func (d *drawing) heap(p *memoryPlan) int64 {
	if d.source == nil {
		return 0
	}
	n := int64(p.slots) * d.source.HeapBytes(false)
	if p.evalSlots > 0 {
		n += int64(p.evalSlots) * d.source.HeapBytes(true)
	}
	return n - d.source.HostBytes()
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

func (d *drawing) close() {
	if d.source != nil {
		_ = d.source.Close() // only read from
	}
}
