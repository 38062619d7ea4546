// Package decide derives a run's Decision from the user's options and from facts about the store
// and the machine: the division of memory, the run's records, and the lines printed before it
// begins. It opens nothing, holds nothing and reads nothing: equal options and equal facts give an
// equal Decision.
//
//	Options, Store ─► Resolve ─► Recipe, by which engines are made
//	Options, Facts ─► Decide ─► Decision ─► Setup, Lines
//
// Facts are values. A store's own arithmetic is part of them as a function of values.
package decide

import (
	"cmp"
	"fmt"

	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/train/rundir"
)

// Decision is the resolved plan of a run.
type Decision struct {
	Options Options // that it follows from, with the facts
	Facts   Facts
	Memory  Memory
	Grouped bool // the process is in a memory cgroup with the planned limit
}

// Decide divides the memory of a run between the cache and the slots of training and evaluation. If memory
// does not suffice, the error is of kind ErrMemory.
func Decide(o Options, f Facts) (Decision, error) {
	m, err := divide(&o, &f)
	return Decision{Options: o, Facts: f, Memory: m}, err
}

// Outside returns the planned bytes outside of Go's heap, without the part of the slots that drawing
// keeps in the heap.
func (d *Decision) Outside() int64 {
	n := d.Memory.outside(&d.Facts.Needs)
	if w := d.Facts.Drawing; w != nil {
		n += w.Host - d.slots(w.Heap)
	}
	return n
}

// slots returns the bytes of the first replica's slots, for training and evaluation.
func (d *Decision) slots(each [2]int64) int64 {
	return int64(d.Memory.Slots)*each[0] + int64(d.Memory.EvalSlots)*each[1]
}

// Checkpoint returns the most bytes of a checkpoint of the run, including the store's state,
// present or from an earlier process.
func (d *Decision) Checkpoint() int64 { return d.Memory.checkpoint(&d.Facts.Needs) }

// Setup returns the setup for the run's records. gpuHeld is the bytes held on the GPU.
func (d *Decision) Setup(gpuHeld int64) rundir.Setup {
	o, f, l := &d.Options, &d.Facts, &d.Memory.Layout
	s := rundir.Setup{Engine: o.Engine, IO: f.IO.Name, Threads: o.Threads, Memory: o.Memory, Planned: d.Memory.Total,
		CacheRows: l.CacheRows, CacheSize: l.RAMBytes, HeldSize: l.HeldBytes, Slots: d.Memory.Slots, EvalSlots: d.Memory.EvalSlots,
		CachePolicy: l.Policy, FaultThreads: l.FaultThreads, Accumulator: l.Accesses, PageCache: d.pageCache(), Unchecked: l.Unchecked, StoreState: max(l.StateBytes, f.Needs.State)}
	s.ExactSize = d.Memory.Exact
	if o.Ranks > 1 {
		s.Ranks = o.Ranks
	}
	if f.Drawing != nil {
		s.Topology, s.TopologySize = f.Drawing.Topology, f.Drawing.TopologyBytes
	}
	if f.Info == nil {
		return s
	}
	s.Info = *f.Info
	s.Note = cmp.Or(f.Note, s.Note)
	if f.Needs.OnGPU {
		d.Memory.onGPU(&s, gpuHeld)
		if f.Drawing != nil {
			s.GPUBytes += d.slots(f.Drawing.GPU)
		}
	}
	return s
}

// pageCache names the method that bounds the page cache, for a store that leaves rows to it.
func (d *Decision) pageCache() string {
	switch {
	case !d.Facts.Store.Paged:
		return ""
	case d.Grouped:
		return PageCacheCgroup
	}
	return PageCacheDrop
}

// Lines returns the lines about the decision that are printed before the run begins; s is its
// setup.
func (d *Decision) Lines(s *rundir.Setup) (lines []string) {
	o, f, l := &d.Options, &d.Facts, &d.Memory.Layout
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	lines = append(lines, f.Said...)
	say("store: %s", f.Store.Which)
	say("I/O: %s", f.IO.How)
	say("%s", d.Memory.String())
	if l.Note != "" {
		say("%s", l.Note)
	}
	if l.QueueBytes > 0 {
		say("the GPU submits the reads of training batches, and completes a batch's reads when it takes the batch")
	}
	switch {
	case f.Needs.Shared:
		say("engine: none; another process takes the batches from the slots, by shared memory")
		return lines
	case f.Info == nil:
		say("engine: none; batches are loaded, assembled and thrown away")
		return lines
	case s.Engine == EngineGPU:
		say("engine: gpu, %s, %s, products in %s, layer orders %v", s.Device, s.BLAS, s.Precision, s.Orders)
		say("GPU memory: %s", budget.FormatBytes(s.GPUBytes))
		decodes := "host"
		if f.Needs.InBits {
			decodes = "GPU"
		}
		say("the %s decodes the graphs of batches", decodes)
	default:
		say("engine: cpu, %s, %s, %s kernels, layer orders %v", units.Of(s.Threads, "thread"), s.BLAS, s.SIMD, s.Orders)
	}
	if s.Note != "" {
		say("%s", s.Note)
	}
	switch {
	case o.InitFrom != "" && f.Unsummed:
		say("initial weights: %s, which has no checksum and is read unchecked", o.WeightsPath)
	case o.InitFrom != "":
		say("initial weights: %s", o.WeightsPath)
	}
	if o.Ranks > 1 {
		say("a step has %d batches; each of the %d ranks computes %d of them", o.Accumulate, o.Ranks, o.Accumulate/o.Ranks)
	}
	if f.Store.Valid == 0 {
		say("no validation batches in %s: the last epoch counts as the best", f.Store.Dir)
	}
	if f.Store.Test == 0 {
		say("no test batches in %s: there will be no test score", f.Store.Dir)
	}
	return lines
}
