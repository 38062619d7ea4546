// Package decide settles what a run does, from what its user wants and what was found: how memory is
// divided, what the run records of itself, and what it says before it begins. It opens nothing,
// holds nothing and reads nothing: equal options and equal facts come to an equal Decision.
//
//	Options, Store ─► Resolve ─► Recipe, by which engines are made
//	Options, Facts ─► Decide ─► Decision ─► Setup, Lines
//
// Facts are values. Where a store's own arithmetic is needed, they have it as a function of values.
package decide

import (
	"cmp"
	"fmt"

	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/train/rundir"
)

// Decision is what a run does.
type Decision struct {
	Options Options // that it follows from, with the facts
	Facts   Facts
	Memory  Memory
	Grouped bool // the process is in a memory cgroup of what is planned
}

// Decide settles what a run does. What memory does not suffice for is refused with ErrMemory.
func Decide(o Options, f Facts) (Decision, error) {
	m, err := divide(&o, &f)
	return Decision{Options: o, Facts: f, Memory: m}, err
}

// Outside returns the memory outside of Go's heap, less what slots have there for drawing.
func (d *Decision) Outside() int64 {
	n := d.Memory.outside(&d.Facts.Needs)
	if w := d.Facts.Drawing; w != nil {
		n += w.Host - d.slots(w.Heap)
	}
	return n
}

// slots sums up what the slots of the first replica take, of training and of evaluation.
func (d *Decision) slots(each [2]int64) int64 {
	return int64(d.Memory.Slots)*each[0] + int64(d.Memory.EvalSlots)*each[1]
}

// Checkpoint returns the most bytes that a checkpoint of the run has: with what the store
// holds, or held in an earlier process.
func (d *Decision) Checkpoint() int64 { return d.Memory.checkpoint(&d.Facts.Needs) }

// Setup is what the run records of how it was done, of whose GPU so many bytes are held.
func (d *Decision) Setup(gpuHeld int64) rundir.Setup {
	o, f, l := &d.Options, &d.Facts, &d.Memory.Layout
	s := rundir.Setup{Engine: o.Engine, IO: f.IO.Name, Threads: o.Threads, Memory: o.Memory, Planned: d.Memory.Total,
		CacheRows: l.CacheRows, CacheSize: l.RAMBytes, Slots: d.Memory.Slots, EvalSlots: d.Memory.EvalSlots,
		CachePolicy: l.Policy, FaultThreads: l.FaultThreads, PageCache: d.pageCache(), Unchecked: l.Unchecked, StoreState: max(l.StateBytes, f.Needs.State)}
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

// pageCache names what holds the page cache, of a store that leaves rows to it.
func (d *Decision) pageCache() string {
	switch {
	case !d.Facts.Store.Paged:
		return ""
	case d.Grouped:
		return PageCacheCgroup
	}
	return PageCacheDrop
}

// Lines say what was chosen, before a run of that setup begins.
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
		say("the GPU submits the reads of training batches, and completes them when it takes the batch")
	}
	switch {
	case f.Info == nil:
		say("engine: none; batches are loaded, assembled and thrown away")
		return lines
	case s.Engine == EngineGPU:
		say("engine: gpu, %s, %s, products in %s, layer orders %v", s.Device, s.BLAS, s.Precision, s.Orders)
		say("GPU memory: %s", budget.FormatBytes(s.GPUBytes))
	default:
		say("engine: cpu, %s, %s, %s kernels, layer orders %v", units.Of(s.Threads, "thread"), s.BLAS, s.SIMD, s.Orders)
	}
	if s.Note != "" {
		say("%s", s.Note)
	}
	switch {
	case o.InitFrom != "" && f.Unsummed:
		say("the weights begin as those of %s, which has no checksum and is read unchecked", o.WeightsPath)
	case o.InitFrom != "":
		say("the weights begin as those of %s", o.WeightsPath)
	}
	if o.Ranks > 1 {
		say("steps of %d batches, of which each of %d ranks computes %d", o.Accumulate, o.Ranks, o.Accumulate/o.Ranks)
	}
	if f.Store.Valid == 0 {
		say("no validation batches in %s: the last epoch counts as the best", f.Store.Dir)
	}
	if f.Store.Test == 0 {
		say("no test batches in %s: there will be no test score", f.Store.Dir)
	}
	return lines
}
