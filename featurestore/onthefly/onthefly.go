// Package onthefly is the source of batches that are drawn while training, without a SAMPLES directory. Every
// epoch has fresh samples.
//
//	Open    verify and map the topology, then the dry pass: draw batches, keep their counts
//	Loader  Start ─► Wait, which draws the batch ─► Decode
//
// Batches equal the batches that presample draws with the same parameters and number of epochs, element
// by element: both draw by package presample/sampler, where a batch is a function of the seed, the
// epoch and its number. Batches are neither read nor written. A loader draws in the goroutine that calls
// Wait, in memory of its own, so slots draw their batches in parallel.
//
// The sizes of buffers, the ranks, and the means that decide the order of layers must be known before the
// first batch. The dry pass draws all evaluation batches, and the training batches of the first epochs, and
// keeps none. If it draws all epochs, facts and ranks equal the facts and ranks of samples. Otherwise they
// describe the batches drawn, and the maxima have a margin. A batch that still exceeds them makes a loader
// return Outgrown. Then Grow raises the maxima, and everything with buffers of these sizes is opened again.
//
// The topology is mapped, and counts as mapped memory; or a part of it is held, and the rest is read while
// drawing: see package presample/sampler/topology. TableBytes is the memory of the source: the held part,
// the seed nodes, the visiting orders of the epochs in flight, and the hotness of every node. After Place
// the source also has a copy of the topology from which a GPU draws the batches of loaders, with the same
// result. The copy lies in the GPU's memory, or in pinned RAM; then the lists with most draws in the dry pass
// lie in the GPU's memory as well.
package onthefly

import (
	"context"
	"errors"
	"math"
	"runtime/debug"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample/sampler"
)

// Open verifies and maps the topology, and does the dry pass. Close the source after its loaders and windows.
func Open(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (_ *Source, err error) {
	if err := sampler.Check(&o.Params); err != nil {
		return nil, err
	}
	o.Topology.EnsureDefaults()
	if err := o.Topology.Validate(); err != nil {
		return nil, err
	}
	open := dataset.OpenLabelled
	if o.AllNodes {
		open = dataset.Open
	}
	d, err := open(fsys, o.Dataset)
	if err != nil {
		return nil, err
	}
	if t := d.Facts().Types; t != nil {
		return nil, fault.New(fault.ErrInput, "%s has %d node types: batches of typed graphs are drawn in advance, by diskgnn presample; give them with --samples", o.Dataset, len(t.Nodes))
	}
	defer budget.LimitHeap(o.Memory, 0)()
	defer debug.FreeOSMemory() // return the memory of the dry pass
	s := &Source{options: o, data: d}
	if err := s.load(ctx, rep); err != nil {
		return nil, err
	}
	if err := s.openTopology(ctx, rep); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	defer budget.LimitHeap(o.Memory, s.HostBytes()+int64(o.Workers)*s.topology.ReaderBytes())()
	err = s.dryPass(ctx, rep)
	if err == nil {
		err = s.endChoice(ctx, rep)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// load reads the seed nodes and counts batches.
func (s *Source) load(ctx context.Context, rep progress.Reporter) (err error) {
	d, p := s.data.Facts(), &s.options.Params
	seeds := d.Train + d.Valid + d.Test
	if s.options.AllNodes {
		seeds = d.Nodes
	}
	labels := 4*d.Nodes + int64(s.data.TargetBytes())*seeds
	if err := budget.Check("reading the labels", budget.Reserve+labels, s.options.Memory); err != nil {
		return err
	}
	if s.options.AllNodes {
		s.seeds, err = sampler.LoadAll(ctx, s.data, *p)
	} else {
		s.seeds, err = sampler.Load(ctx, s.data, *p, rep)
	}
	if err != nil {
		return err
	}
	per := s.seeds.Batches(sampler.Train)
	s.facts = featurestore.Facts{
		Nodes: d.Nodes, Dim: d.Dim, DType: d.DType, RowBytes: d.RowBytes(), Classes: d.Classes, TargetBytes: s.seeds.TargetBytes(), Metric: d.Metric,
		Train: p.Epochs * per, Valid: s.seeds.Batches(sampler.Valid), Test: s.seeds.Batches(sampler.Test), Epochs: p.Epochs, BatchesPerEpoch: per,
		Fanout: p.Fanout, EvalFanout: p.EvalFanout, EpochSeeds: int64(s.seeds.Nodes(sampler.Train)),
		EvalSeeds: int64(max(s.seeds.Nodes(sampler.Valid), s.seeds.Nodes(sampler.Test))),
	}
	s.dry = s.facts.Train
	if e := s.options.DryEpochs; e < float64(p.Epochs) {
		s.dry = max(1, int(math.Ceil(e*float64(per))))
	}
	return nil
}
