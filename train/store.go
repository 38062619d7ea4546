package train

import (
	"cmp"

	"diskgnn/featurestore"
	"diskgnn/featurestore/all"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/rundir"
)

// places returns the directories that the options name a store of.
func (o *Options) places() all.Places {
	return all.Places{Pack: o.Pack, Dataset: o.Dataset, Samples: o.Samples, Live: o.Live()}
}

// source returns the directory that messages about the batches name.
func (o *Options) source() string { return cmp.Or(o.Pack, o.Samples, o.Dataset) }

// checkSlice refuses a store that lacks batches which the run is to compute: a slice is for one
// rank, whose batches follow from the number of ranks and from the batches of a step.
func (o *Options) checkSlice(found featurestore.Candidate, run featurestore.Slice) error {
	s, ok := found.(featurestore.Sliced)
	if !ok {
		return nil
	}
	has, ok := s.Slice()
	refuse := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	switch {
	case !ok:
		return nil
	case has.World != run.World || has.Rank != run.Rank:
		return refuse("%s is the slice of rank %d of %d, this is rank %d of %d: give it its own slice, or the whole pack", found.Dir(), has.Rank, has.World, run.Rank, run.World)
	case has.Accumulate != run.Accumulate && has.World > 1:
		return refuse("%s is a slice for steps of %d batches (--accumulate %d), here they have %d: slice the pack anew with --accumulate %d", found.Dir(), has.Accumulate, has.Accumulate, run.Accumulate, run.Accumulate)
	case o.ShuffleBatches && has.World > 1:
		return refuse("--shuffle-batches: %s is a slice, which has the batches that rank %d computes in the order of the samples", found.Dir(), has.Rank)
	}
	return nil
}

// sameBatches refuses a store whose batches are not those that the run was trained on.
func sameBatches(f *rundir.File, out string, now featurestore.Candidate) error {
	l := now.Lineage()
	refuse := func(format string, args ...any) error { return fault.New(fault.ErrLineage, format, args...) }
	switch {
	case f.Params.Live() && f.Dataset != l.Dataset:
		return refuse("%s was trained on the dataset %.12s…, %s is %.12s…: it changed since, or is another one", out, f.Dataset, now.Dir(), l.Dataset)
	case f.Pack != "" && f.Pack == l.Store:
		return nil
	case f.Pack != "" && l.Store != "":
		return refuse("%s was trained on the pack %.12s…, %s is %.12s…", out, f.Pack, now.Dir(), l.Store)
	case f.Samples == "":
		return refuse("%s was trained on the pack %.12s…, by a version of this program that did not record its samples: go on with that pack", out, f.Pack)
	case f.Samples != l.Samples:
		return refuse("%s was trained on the samples %.12s…, %s is of %.12s…", out, f.Samples, now.Dir(), l.Samples)
	}
	return nil
}

// trainedOn refuses other batches than a finished run was trained on, if they are named: the run is
// not what training on them makes. Nothing is read of them then, so they need not be there any more.
func (o *Options) trainedOn(fsys vfs.FS, was *rundir.File) error {
	given := o.places()
	if given == (all.Places{}) || given.Live || was.Params.Live() { // see sameDrawing
		return nil
	}
	now, _, err := all.Find(fsys, o.Store, given)
	if err != nil {
		return nil
	}
	return sameBatches(was, o.Out, now)
}

// sameSamples refuses to go on with a run at out on another store, unless the bits of the
// weights and scores are the same on both.
func sameSamples(f *rundir.File, out string, now featurestore.Candidate) error {
	l, facts := now.Lineage(), now.Facts()
	if f.Pack == l.Store && (f.Pack != "" || f.Samples == l.Samples) {
		return nil
	}
	if err := sameBatches(f, out, now); err != nil {
		return err
	}
	refuse := func(format string, args ...any) error { return fault.New(fault.ErrLineage, format, args...) }
	switch {
	case f.PackFacts.DType != facts.DType:
		return refuse("%s was trained on rows of %s, those of %s are %s", out, f.PackFacts.DType, now.Dir(), facts.DType)
	case f.Setup.Engine == EngineNone:
		return nil
	case f.Setup.Engine != EngineCPU:
		return refuse("%s cannot be resumed on another store: the last bits of what --engine %s computes depend on the order of a batch's input nodes, which is the store's", out, f.Setup.Engine)
	case !inputOrderFree(&f.Params.Network, &f.Setup.Info):
		return refuse("%s cannot be resumed on another store: a layer that multiplies before it aggregates, or an input projection, takes a batch's input nodes in the store's order, on which last bits depend (train with --layer-order aggregate and without --input-projection)", out)
	}
	return nil
}

// inputOrderFree reports whether no bit of the weights and of the scores depends on the
// order of a batch's input nodes: the outermost layer sums their rows, edge by edge, before
// anything else is done with them.
func inputOrderFree(m *model.Model, i *engine.Info) bool {
	if m.InputProjection > 0 {
		return false
	}
	for _, orders := range [][]model.Order{i.Orders, i.EvalOrders} {
		if len(orders) > 0 && orders[0] != model.Aggregate {
			return false
		}
	}
	return true
}
