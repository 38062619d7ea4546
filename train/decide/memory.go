package decide

import (
	"cmp"
	"fmt"
	"math"

	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/train/rundir"
)

// Slots in the training pipeline. Two let reading and computing overlap; a third
// keeps reads queued while a batch is assembled; beyond six there is nothing left to
// smooth.
const (
	LeastSlots    = 2
	enoughSlots   = 3
	MostSlots     = 6
	MostEvalSlots = 2 // one is computed while the other is filled
)

// EpochBytes is the memory of an epoch in bytes: 500 for its line of metrics.jsonl, and at the end
// of the run the buffers for its part of run.json and of the report.
const EpochBytes = 10 << 10

// ErrMemory is the kind of errors that a larger --memory resolves.
var ErrMemory = fault.New(fault.ErrBudget, "--memory does not suffice")

// Memory is the division of --memory.
type Memory struct {
	Layout           featurestore.Layout
	Slots, EvalSlots int // of each replica, and of the first
	Replicas         int
	Fixed            int64 // engine, reserve
	Total            int64
}

// UnderWay returns the most batches of training that have slots, for each replica, in a run of steps batches.
func (o *Options) UnderWay(steps int) int { return min(cmp.Or(o.Slots, MostSlots), steps) }

// divide divides o.Memory: first the minimum (the engine, two slots, the store's least cache), then
// a third slot, then the cache, of the wanted size or as large as possible, then a second slot for
// evaluation, then rows that the store holds for evaluation, then more slots. A GPU holds the wanted part
// of the cache, or the part that fits.
func divide(o *Options, facts *Facts) (Memory, error) {
	f, needs := &facts.Store.Facts, &facts.Needs
	p := Memory{Replicas: max(1, needs.Replicas), Fixed: budget.Reserve + needs.Engine + needs.Stack + int64(o.Epochs)*EpochBytes + facts.Records}
	if needs.Engine > 0 && f.Valid+f.Test > 0 {
		p.EvalSlots = 1
	}
	steps := o.Epochs * f.BatchesPerEpoch
	var hold featurestore.Hold
	try := func(slots int, least bool, memory int64) (featurestore.Layout, error) {
		works := int64(slots*p.Replicas)*needs.Work + int64(p.EvalSlots)*needs.EvalWork
		po := featurestore.PlanOptions{Cache: o.RAMCache, Policy: o.CachePolicy, FaultThreads: o.FaultThreads, Memory: memory - p.Fixed - works, Least: least, Slots: slots * p.Replicas, EvalSlots: min(p.EvalSlots, 1), Hold: hold,
			GPUMemory: needs.GPULeft, GPUCache: o.GPUCache, MostSlots: o.UnderWay(steps) * p.Replicas}
		return facts.Plan(po)
	}
	var err error
	numbers := []int{min(enoughSlots, steps), min(LeastSlots, steps)}
	if o.Slots > 0 {
		numbers = []int{min(o.Slots, steps)}
	}
	for _, p.Slots = range numbers {
		if p.Layout, err = try(p.Slots, false, o.Memory); err == nil {
			break
		}
	}
	if most := p.Fixed + p.Layout.TableBytes + p.resuming(needs); err == nil && most > o.Memory {
		return p, fault.New(ErrMemory, "--memory %s does not suffice to resume the run after an interruption: the engine and the program take %s, a checkpoint %s (the least that would do: --memory %s)",
			budget.FormatBytes(o.Memory), budget.FormatBytes(p.Fixed), budget.FormatBytes(p.resuming(needs)), mebibytes(most))
	}
	if err != nil {
		const endless = math.MaxInt64 / 2
		if _, other := try(p.Slots, false, endless); other != nil {
			return p, other // memory has nothing to do with it
		}
		if p.Layout, err = try(p.Slots, true, endless); err != nil {
			return p, err
		}
		_, why := try(p.Slots, false, o.Memory)
		return p, fault.New(ErrMemory, "--memory %s does not suffice: the engine and the program take %s; %w (the least that would do: --memory %s)",
			budget.FormatBytes(o.Memory), budget.FormatBytes(p.Fixed), why, mebibytes(p.Sum(needs)))
	}
	p.Total = p.Sum(needs)
	if p.EvalSlots > 0 && max(f.Valid, f.Test) > 1 && p.Total+p.Layout.EvalSlotBytes+needs.EvalWork <= o.Memory {
		p.EvalSlots = MostEvalSlots
		p.Total = p.Sum(needs)
	}
	if p.EvalSlots > 0 && o.Rank == 0 { // rank 0 alone evaluates
		hold = featurestore.Hold{Memory: o.Memory - p.Total, Validations: o.validations()}
		if p.Layout, err = try(p.Slots, false, o.Memory); err != nil {
			return p, err
		}
		p.Total = p.Sum(needs)
	}
	for o.Slots == 0 && p.Slots < min(MostSlots, steps) && p.Total+int64(p.Replicas)*(p.Layout.SlotBytes+needs.Work) <= o.Memory {
		p.Slots++
		p.Total = p.Sum(needs)
	}
	return p, nil
}

// validations returns the number of validations of a run that does not stop early.
func (o *Options) validations() (n int) {
	for epoch := range o.Epochs {
		if o.Validates(epoch) {
			n++
		}
	}
	return n
}

// Sum returns the most bytes held: with all buffers, or before they are taken, while the run
// resumes from a checkpoint.
func (p *Memory) Sum(needs *Needs) int64 {
	slots := int64(p.Slots*max(1, p.Replicas))*(p.Layout.SlotBytes+needs.Work) + int64(p.EvalSlots)*(p.Layout.EvalSlotBytes+needs.EvalWork)
	return p.Fixed + p.Layout.TableBytes + max(p.resuming(needs), p.Layout.RAMBytes+p.Layout.HeldBytes+p.Layout.KeepBytes+p.Layout.WindowBytes+p.Layout.DecodeBytes+p.Layout.QueueBytes+slots)
}

// checkpoint returns the most bytes of a checkpoint, including the store's state, present or from
// an earlier process.
func (p *Memory) checkpoint(needs *Needs) int64 {
	return needs.Resume + max(p.Layout.StateBytes, needs.State)
}

// resuming returns the bytes needed to resume from a checkpoint. A store that takes over a state
// has its levels by then.
func (p *Memory) resuming(needs *Needs) int64 {
	n := p.checkpoint(needs)
	if p.Layout.StateBytes > 0 {
		n += p.Layout.RAMBytes + p.Layout.KeepBytes
	}
	return n
}

// mebibytes rounds up to a size for a flag.
func mebibytes(n int64) string { return fmt.Sprintf("%dMiB", (n+1<<20-1)>>20) }

// outside returns the bytes that Go's collector does not manage, among them the GPU driver's memory
// and pinned memory.
func (p *Memory) outside(needs *Needs) int64 {
	n := p.Layout.RAMBytes + p.Layout.HeldBytes + p.Layout.WindowBytes + p.Layout.QueueBytes + int64(p.Slots*max(1, p.Replicas))*p.Layout.SlotBytes + int64(p.EvalSlots)*p.Layout.EvalSlotBytes
	n += needs.Stack
	if needs.OnGPU {
		n += budget.DriverReserve + int64(p.Slots*max(1, p.Replicas))*needs.Work + int64(p.EvalSlots)*needs.EvalWork
	}
	return n
}

// onGPU records the GPU's memory: its rows, and the bytes of the slots beside the held bytes.
func (p *Memory) onGPU(s *rundir.Setup, held int64) {
	s.GPUCacheRows, s.GPUCacheSize = p.Layout.GPURows, p.Layout.GPURowsBytes
	s.GPUBytes = held + int64(p.Slots)*p.Layout.GPUSlotBytes
}

// String describes the division in one line.
func (p *Memory) String() string {
	s := fmt.Sprintf("memory: %s = %s cache + %d slots of %s", budget.FormatBytes(p.Total), budget.FormatBytes(p.Layout.RAMBytes), p.Slots, budget.FormatBytes(p.Layout.SlotBytes))
	if p.Layout.GPU != nil {
		s = fmt.Sprintf("GPU cache: %s; ", budget.FormatBytes(p.Layout.GPURowsBytes)) + s
	}
	if p.EvalSlots > 0 {
		s += fmt.Sprintf(" + %d for evaluation of %s", p.EvalSlots, budget.FormatBytes(p.Layout.EvalSlotBytes))
	}
	if p.Layout.HeldBytes > 0 {
		s += fmt.Sprintf(" + %s of rows for evaluation", budget.FormatBytes(p.Layout.HeldBytes))
	}
	return s + fmt.Sprintf(" + %s engine and program", budget.FormatBytes(p.Fixed+p.Layout.TableBytes))
}
