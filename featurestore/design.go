package featurestore

import (
	"slices"
	"strings"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/fault"
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
	// Accesses returns the number of accesses that batches must exceed to be read together, on a drive that serves the
	// given number of random pages a second, and a single one in the given time. Nil: the store has no
	// accumulator.
	Accesses func(perSecond float64, single time.Duration) int64
	// HoldsLists reports whether the store divides its memory between rows and lists of in-neighbours.
	HoldsLists bool
	// OwnSamples reports whether the store takes only samples that were drawn for it.
	OwnSamples bool
	// ListOrder is the order in which lists of in-neighbours are held by default, if batches are drawn while
	// training: see package presample/sampler/topology. "": its default.
	ListOrder string
	// Shared reports whether several GPUs of a process can share the store.
	Shared bool
	// Remote reports whether the store can leave rows to a consumer of its batches: see Remote.
	Remote bool
	// InRAM says where the store holds its rows if a GPU cannot hold any, as a clause for errors; "": it can.
	InRAM string
	// UnlessGPUReads limits InRAM to stores for which the host reads: a GPU that reads can hold rows.
	UnlessGPUReads bool
}

// Refuse returns an error of kind fault.ErrUsage if the options have a value that the store has no use for.
func (d *Design) Refuse(o *PlanOptions) error {
	switch {
	case o.Policy != "" && len(d.Policies) == 0:
		return fault.New(fault.ErrUsage, "--cache-policy %s: the rows in the cache of the store %s are chosen before training", o.Policy, d.Name)
	case o.Policy != "" && !slices.Contains(d.Policies, o.Policy):
		return fault.New(fault.ErrUsage, "--cache-policy %s: the store %s has %s", o.Policy, d.Name, strings.Join(d.Policies, ", "))
	case o.FaultThreads != 0 && !d.Maps:
		return fault.New(fault.ErrUsage, "--fault-threads %d: the store %s does not map its rows", o.FaultThreads, d.Name)
	case o.Accesses != 0 && d.Accesses == nil:
		return fault.New(fault.ErrUsage, "--accumulator %d: the store %s has no accumulator", o.Accesses, d.Name)
	case len(o.Peers) > 0 && !d.Shared:
		return fault.New(fault.ErrUsage, "--gpus %d: the store %s is for one GPU; several share a pack", 1+len(o.Peers), d.Name)
	case o.GPU == nil && o.GPUCache != nil && o.GPUCache.Value != 0 && !d.Remote:
		return fault.New(fault.ErrUsage, "--gpu-cache %s: the store %s loads all rows of a batch; a consumer can hold rows of a pack", o.GPUCache, d.Name)
	case d.InRAM != "" && !(d.UnlessGPUReads && o.Reads != nil):
		return o.NoGPURows(d.InRAM)
	}
	return nil
}
