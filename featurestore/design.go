package featurestore

import (
	"diskgnn/dataset"
	"diskgnn/internal/vfs"
)

// Design is a store before its directories are read: its name, and the facts by which flags are refused. Exactly one
// of On and Find is set.
type Design struct {
	// Name is the value of --store.
	Name string
	// On finds the store for the batches of a source, with rows of the dataset that they are drawn from. If the
	// store cannot read the features, or the batches are of a kind that it cannot take, the error is of kind
	// fault.ErrUsage.
	On func(s Source, d *dataset.Dataset) (Candidate, error)
	// Find finds the store in a directory of its own, which has rows and batches.
	Find func(fsys vfs.FS, dir string) (Candidate, error)

	// Policies are the values of --cache-policy, the default first; nil: there is no choice.
	Policies []string
	// HoldsAll reports whether the store always holds all rows: it needs no size of a cache.
	HoldsAll bool
	// Maps reports whether the store maps its rows: it has threads that wait for page faults.
	Maps bool
	// HoldsLists reports whether the store divides its memory between rows and lists of in-neighbours.
	HoldsLists bool
	// OwnSamples reports whether the store takes only samples that were drawn for it.
	OwnSamples bool
	// ListOrder is the order in which lists of in-neighbours are held by default, if batches are drawn while
	// training: see package presample/sampler/topology. "": its default.
	ListOrder string
	// Shared reports whether several GPUs of a process can share the store.
	Shared bool
}
