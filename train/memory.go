package train

import (
	"cmp"
	"fmt"
	"math"

	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/pipeline"
)

// Slots in the training pipeline. Two let reading and computing overlap; a third
// keeps reads queued while a batch is assembled; beyond six there is nothing left to
// smooth.
const (
	leastSlots    = 2
	enoughSlots   = 3
	mostSlots     = 6
	mostEvalSlots = 2 // one is computed while the other is filled
)

// epochBytes is what an epoch takes: its line of metrics.jsonl in memory, 500 bytes, and
// when the run ends its part of run.json while that is written, and of the report.
const epochBytes = 10 << 10

// memoryPlan says how --memory is used.
type memoryPlan struct {
	layout           featurestore.Layout
	slots, evalSlots int // of each replica, and of the first
	replicas         int
	fixed            int64 // engine, reserve
	total            int64
}

// errMemory is the kind of the refusal that more of --memory would end.
var errMemory = fault.New(fault.ErrBudget, "--memory does not suffice")

// planMemory divides o.Memory: first what must be (the engine, two slots, the store's
// least cache), then a third slot, then the cache, wanted or as large as possible,
// then more slots. With a GPU, that holds as much of the cache as is wanted or has room
// there.
func planMemory(c featurestore.Candidate, o *Options, needs engineNeeds) (memoryPlan, error) {
	f := c.Facts()
	p := memoryPlan{replicas: max(1, needs.replicas), fixed: budget.Reserve + needs.engine + needs.stack + int64(o.Epochs)*epochBytes}
	if o.Trace {
		p.fixed += pipeline.RecorderBytes(traceSpans)
	}
	if o.Record != "" {
		p.fixed += recordBytes(&f, min(cmp.Or(o.Slots, mostSlots), o.Epochs*f.BatchesPerEpoch))
	}
	if needs.engine > 0 && f.Valid+f.Test > 0 {
		p.evalSlots = 1
	}
	steps := o.Epochs * f.BatchesPerEpoch
	try := func(slots int, least bool, memory int64) (featurestore.Layout, error) {
		works := int64(slots*p.replicas)*needs.work + int64(p.evalSlots)*needs.evalWork
		po := featurestore.PlanOptions{Cache: o.RAMCache, Policy: o.CachePolicy, FaultThreads: o.FaultThreads, Memory: memory - p.fixed - works, Least: least, Slots: slots * p.replicas, EvalSlots: p.evalSlots,
			GPU: needs.gpu, GPUMemory: needs.gpuLeft, GPUCache: o.GPUCache, Direct: needs.direct, Reads: needs.reads, MostSlots: min(cmp.Or(o.Slots, mostSlots), steps) * p.replicas}
		if b := needs.beside; b != nil {
			po.Peers, po.Divide = b.peers, b.divide
		}
		return c.Plan(po)
	}
	var err error
	numbers := []int{min(enoughSlots, steps), min(leastSlots, steps)}
	if o.Slots > 0 {
		numbers = []int{min(o.Slots, steps)}
	}
	for _, p.slots = range numbers {
		if p.layout, err = try(p.slots, false, o.Memory); err == nil {
			break
		}
	}
	if most := p.fixed + p.layout.TableBytes + p.resuming(needs); err == nil && most > o.Memory {
		return p, fault.New(errMemory, "--memory %s does not suffice to go on with the run once it was interrupted: the engine and the program take %s, a checkpoint %s (the least that would do: --memory %s)",
			budget.FormatBytes(o.Memory), budget.FormatBytes(p.fixed), budget.FormatBytes(p.resuming(needs)), mebibytes(most))
	}
	if err != nil {
		const endless = math.MaxInt64 / 2
		if _, other := try(p.slots, false, endless); other != nil {
			return p, other // memory has nothing to do with it
		}
		if p.layout, err = try(p.slots, true, endless); err != nil {
			return p, err
		}
		_, why := try(p.slots, false, o.Memory)
		return p, fault.New(errMemory, "--memory %s does not suffice: the engine and the program take %s; %w (the least that would do: --memory %s)",
			budget.FormatBytes(o.Memory), budget.FormatBytes(p.fixed), why, mebibytes(p.sum(needs)))
	}
	p.total = p.sum(needs)
	if p.evalSlots > 0 && max(f.Valid, f.Test) > 1 && p.total+p.layout.EvalSlotBytes+needs.evalWork <= o.Memory {
		p.evalSlots = mostEvalSlots
		p.total = p.sum(needs)
	}
	for o.Slots == 0 && p.slots < min(mostSlots, steps) && p.total+int64(p.replicas)*(p.layout.SlotBytes+needs.work) <= o.Memory {
		p.slots++
		p.total = p.sum(needs)
	}
	return p, nil
}

// sum returns the most that is held: with all buffers, or before they are taken, with a
// checkpoint that the run goes on from.
func (p *memoryPlan) sum(needs engineNeeds) int64 {
	slots := int64(p.slots*max(1, p.replicas))*(p.layout.SlotBytes+needs.work) + int64(p.evalSlots)*(p.layout.EvalSlotBytes+needs.evalWork)
	return p.fixed + p.layout.TableBytes + max(p.resuming(needs), p.layout.RAMBytes+p.layout.KeepBytes+p.layout.WindowBytes+p.layout.DecodeBytes+p.layout.QueueBytes+slots)
}

// checkpoint returns the most bytes that a checkpoint of the run has: with what the store
// holds, or held in an earlier process.
func (p *memoryPlan) checkpoint(needs engineNeeds) int64 {
	return needs.resume + max(p.layout.StateBytes, needs.state)
}

// resuming returns what it takes to go on from a checkpoint. A store that takes over a state
// has its levels by then.
func (p *memoryPlan) resuming(needs engineNeeds) int64 {
	n := p.checkpoint(needs)
	if p.layout.StateBytes > 0 {
		n += p.layout.RAMBytes + p.layout.KeepBytes
	}
	return n
}

// mebibytes rounds up to a size that can be given as a flag.
func mebibytes(n int64) string { return fmt.Sprintf("%dMiB", (n+1<<20-1)>>20) }

// outside returns the memory that Go's collector does not manage: what the driver of a
// GPU takes, and what is pinned for it, is some of it.
func (p *memoryPlan) outside(needs engineNeeds) int64 {
	n := p.layout.RAMBytes + p.layout.WindowBytes + p.layout.QueueBytes + int64(p.slots*max(1, p.replicas))*p.layout.SlotBytes + int64(p.evalSlots)*p.layout.EvalSlotBytes
	n += needs.stack
	if needs.gpu != nil {
		n += budget.DriverReserve + int64(p.slots*max(1, p.replicas))*needs.work + int64(p.evalSlots)*needs.evalWork
	}
	return n
}

// gpuBytes returns what the slots will take of the GPU's memory.
func (p *memoryPlan) gpuBytes() int64 { return int64(p.slots) * p.layout.GPUSlotBytes }

// String says how the memory is used, in one line.
func (p *memoryPlan) String() string {
	s := fmt.Sprintf("memory: %s = %s cache + %d slots of %s", budget.FormatBytes(p.total), budget.FormatBytes(p.layout.RAMBytes), p.slots, budget.FormatBytes(p.layout.SlotBytes))
	if p.layout.GPU != nil {
		s = fmt.Sprintf("GPU cache: %s; ", budget.FormatBytes(p.layout.GPUCacheBytes)) + s
	}
	if p.evalSlots > 0 {
		s += fmt.Sprintf(" + %d for evaluation of %s", p.evalSlots, budget.FormatBytes(p.layout.EvalSlotBytes))
	}
	return s + fmt.Sprintf(" + %s engine and program", budget.FormatBytes(p.fixed+p.layout.TableBytes))
}
