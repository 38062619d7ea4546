package train

import (
	"diskgnn/featurestore"
	"diskgnn/featurestore/stores"
	"diskgnn/internal/vfs"
	"diskgnn/train/decide"
	"diskgnn/train/rundir"
)

// trainedOn refuses a given pack or samples with other batches than a finished run's. The run reads
// nothing from them any more, so they need not exist.
func (o *Options) trainedOn(fsys vfs.FS, was *rundir.File) error {
	given := o.places()
	if given == (stores.Places{}) || given.Live || was.Params.Live() { // see sameDrawing
		return nil
	}
	now, _, err := o.Stores.Find(fsys, o.Store, given)
	if err != nil {
		return nil
	}
	store := storeOf(now, "")
	return decide.SameBatches(was, o.Out, &store)
}

// storeOf returns the facts of a store for the decision. which is the line that names it to the
// user.
func storeOf(c featurestore.Candidate, which string) decide.Store {
	s := decide.Store{Facts: c.Facts(), Name: c.Name(), Dir: c.Dir(), Which: which, Lineage: c.Lineage(), InOrder: c.InOrder(), Description: c.Describe()}
	_, s.Paged = c.(featurestore.Confinable)
	if sliced, ok := c.(featurestore.Sliced); ok {
		if has, ok := sliced.Slice(); ok {
			s.Slice = &has
		}
	}
	return s
}
