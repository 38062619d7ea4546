package decide

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/train/model"
	"diskgnn/train/recipe"
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
	Opening          int64 // held beside Fixed before any buffer
	Exact, GPUExact  int64 // of an exact validation, of the host's memory and of the GPU's
	gpuLeft          int64 // of the GPU's memory for the store
	Total            int64
}

// UnderWay returns the most batches of training that have slots, for each replica, in a run of steps batches.
func (o *Options) UnderWay(steps int) int { return min(cmp.Or(o.Slots, MostSlots), steps) }

// divide divides o.Memory: first the minimum (the engine, two slots, the store's least cache, and for exact validation a
// quarter of the memory, as far as it has a use for it, or its least), then a third slot, then the cache, of the wanted
// size or as large as possible, then a second slot for evaluation, then rows that the store holds for evaluation, then
// more slots, then the rest of exact validation. A GPU holds the wanted part of the cache, or the part that fits.
func divide(o *Options, facts *Facts) (Memory, error) {
	f, needs := &facts.Store.Facts, &facts.Needs
	p := Memory{Replicas: max(1, needs.Replicas), Fixed: budget.Reserve + needs.Engine + needs.Stack + int64(o.Epochs)*EpochBytes + facts.Records}
	exact, err := p.takeExact(facts)
	if err != nil {
		return p, err
	}
	if needs.Engine > 0 && f.Valid+f.Test > 0 && o.Validation != recipe.Exact {
		p.EvalSlots = 1
	}
	steps := o.Epochs * f.BatchesPerEpoch
	for _, least := range p.minimums(o, exact, steps) {
		p.Slots, p.Exact = least.slots, least.exact
		if p.Layout, err = p.plan(o, facts, false, o.Memory, featurestore.Hold{}); err == nil {
			break
		}
	}
	if most := p.Fixed + p.Layout.TableBytes + p.resuming(needs); err == nil && most > o.Memory {
		return p, fault.New(ErrMemory, "--memory %s does not suffice to resume the run after an interruption: the engine and the program take %s, a checkpoint %s (the least that would do: --memory %s)",
			budget.FormatBytes(o.Memory), budget.FormatBytes(p.Fixed), budget.FormatBytes(p.resuming(needs)), mebibytes(most))
	}
	if err != nil {
		return p.refuse(o, facts)
	}
	p.Total = p.Sum(needs)
	if p.EvalSlots > 0 && max(f.Valid, f.Test) > 1 && p.Total+p.Layout.EvalSlotBytes+needs.EvalWork <= o.Memory {
		p.EvalSlots = MostEvalSlots
		p.Total = p.Sum(needs)
	}
	if p.EvalSlots > 0 && o.Rank == 0 { // rank 0 alone evaluates
		hold := featurestore.Hold{Memory: o.Memory - p.Total, Validations: o.validations()}
		if p.Layout, err = p.plan(o, facts, false, o.Memory, hold); err != nil {
			return p, err
		}
		p.Total = p.Sum(needs)
	}
	for o.Slots == 0 && p.Slots < min(MostSlots, steps) && p.Total+int64(p.Replicas)*(p.Layout.SlotBytes+needs.Work) <= o.Memory {
		p.Slots++
		p.Total = p.Sum(needs)
	}
	p.Exact = min(max(p.Exact, exact.Most), p.Exact+max(0, o.Memory-p.Total))
	p.Total = p.Sum(needs)
	return p, nil
}

// exactShare is the part of memory, as a divisor, that exact validation takes before the cache does.
const exactShare = 4

// share returns the bytes of memory that exact validation takes if it needs at least least, and at most most.
func share(memory, least, most int64) int64 { return max(least, min(memory/exactShare, most)) }

// takeExact counts the memory that exact validation holds all the time, and its share of the GPU's memory, and returns its needs:
// none if the run validates on batches.
func (p *Memory) takeExact(facts *Facts) (Exact, error) {
	if p.gpuLeft = facts.Needs.GPULeft; facts.Exact == nil {
		return Exact{}, nil
	}
	e := *facts.Exact
	p.Fixed += e.Fixed
	p.Opening = e.Opening
	left := p.gpuLeft - e.GPUFixed
	if e.GPULeast > left {
		return e, fault.New(fault.ErrBudget, "exact validation takes at least %s of the GPU's memory, but the engine leaves %s: raise --gpu-memory, lower --hidden, or train with --engine %s or --validate sampled",
			budget.FormatBytes(e.GPULeast), budget.FormatBytes(max(0, left)), EngineCPU)
	}
	p.GPUExact = share(left, e.GPULeast, e.GPUMost)
	p.gpuLeft = left - p.GPUExact
	return e, nil
}

// minimum is the least that a run begins with.
type minimum struct {
	slots int
	exact int64 // bytes of exact validation
}

// minimums returns the minimums to try, the best first.
func (p *Memory) minimums(o *Options, e Exact, steps int) (list []minimum) {
	numbers := []int{min(enoughSlots, steps), min(LeastSlots, steps)}
	if o.Slots > 0 {
		numbers = []int{min(o.Slots, steps)}
	}
	for _, exact := range slices.Compact([]int64{share(o.Memory, e.Least, e.Most), e.Least}) {
		for _, slots := range numbers {
			list = append(list, minimum{slots, exact})
		}
	}
	return list
}

// plan returns the store's layout beside all else in memory; least is its least.
func (p *Memory) plan(o *Options, facts *Facts, least bool, memory int64, hold featurestore.Hold) (featurestore.Layout, error) {
	needs := &facts.Needs
	accesses, err := o.Accesses()
	if err != nil {
		return featurestore.Layout{}, err
	}
	works := int64(p.Slots*p.Replicas)*needs.Work + int64(p.EvalSlots)*needs.EvalWork
	return facts.Plan(featurestore.PlanOptions{Cache: o.RAMCache, Policy: o.CachePolicy, FaultThreads: o.FaultThreads, Accesses: accesses, Memory: memory - p.Fixed - p.Exact - works, Least: least,
		Unused: o.unused(needs), Stored: needs.Stored, InBits: needs.InBits, Slots: p.Slots * p.Replicas, EvalSlots: min(p.EvalSlots, 1), Hold: hold,
		GPUMemory: p.gpuLeft, GPUCache: o.GPUCache, MostSlots: o.UnderWay(o.Epochs*facts.Store.BatchesPerEpoch) * p.Replicas})
}

// unused returns the parts of batches that the model does not use. A process that takes the batches may use all.
func (o *Options) unused(needs *Needs) featurestore.Unused {
	if needs.Shared {
		return featurestore.Unused{}
	}
	m := o.Network()
	return featurestore.Unused{Ranks: m.InputProjection == 0, Degrees: m.Weighing() != model.ByGraph}
}

// refuse returns the error of a minimum that does not fit in memory.
func (p *Memory) refuse(o *Options, facts *Facts) (Memory, error) {
	const endless = math.MaxInt64 / 2
	if _, other := p.plan(o, facts, false, endless, featurestore.Hold{}); other != nil {
		return *p, other // memory has nothing to do with it
	}
	var err error
	if p.Layout, err = p.plan(o, facts, true, endless, featurestore.Hold{}); err != nil {
		return *p, err
	}
	_, why := p.plan(o, facts, false, o.Memory, featurestore.Hold{})
	takes := "the engine and the program take " + budget.FormatBytes(p.Fixed)
	if facts.Exact != nil {
		takes += fmt.Sprintf(", exact validation %s (--validate sampled may need less)", budget.FormatBytes(p.Exact))
	}
	return *p, fault.New(ErrMemory, "--memory %s does not suffice: %s; %w (the least that would do: --memory %s)",
		budget.FormatBytes(o.Memory), takes, why, mebibytes(p.Sum(&facts.Needs)))
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
	return p.Fixed + p.Layout.TableBytes + max(p.Opening, p.resuming(needs), p.Exact+p.Layout.RAMBytes+p.Layout.HeldBytes+p.Layout.KeepBytes+p.Layout.WindowBytes+p.Layout.DecodeBytes+p.Layout.QueueBytes+slots)
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
		n += budget.DriverReserve
	}
	if needs.OnGPU || needs.Shared {
		n += int64(p.Slots*max(1, p.Replicas))*needs.Work + int64(p.EvalSlots)*needs.EvalWork
	}
	return n
}

// onGPU records the GPU's memory: its rows, and the bytes of the slots beside the held bytes.
func (p *Memory) onGPU(s *rundir.Setup, held int64) {
	s.GPUCacheRows, s.GPUCacheSize = p.Layout.GPURows, p.Layout.GPURowsBytes
	s.GPUBytes = held + int64(p.Slots)*p.Layout.GPUSlotBytes + p.GPUExact
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
	if p.Exact > 0 {
		s += fmt.Sprintf(" + %s for exact validation", budget.FormatBytes(p.Exact))
	}
	return s + fmt.Sprintf(" + %s engine and program", budget.FormatBytes(p.Fixed+p.Layout.TableBytes))
}
