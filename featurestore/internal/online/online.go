// Package online is what stores have in common that read rows of a DATASET while training:
// a cache of frames in RAM, whose policy decides batch by batch, and reads of the rows that
// it does not hold.
//
//	LoadGraph  decode the graph; in the order of the batches, let the policy decide which
//	           rows are hits and which misses go into which frames; submit the first reads
//	Wait       check the pages of each round of reads, copy the rows out, submit the next
//	Assemble   gather the hits from their frames, then copy the admitted misses into theirs
//
// Decisions and data are apart. The policy decides for batch k after it has decided for
// batch k-1, whichever of them is decoded first: package residency has it, and course the
// order. Frames change in Assemble alone, which comes in the same order, so a hit lies in
// its frame when its batch is assembled, and there are no locks on frames and no rows that
// are in use by two batches. What is hit and what is read is a function of the batches in
// their order, not of time.
//
// Batches of evaluation read all of their rows, and change nothing.
//
// A store is a Design: its policies, a Planner that cuts misses into reads, and whether the
// accesses are recorded before the policy decides.
package online

import (
	"errors"
	"fmt"
	"slices"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/iostack"
)

// Design is what one store differs in from another.
type Design struct {
	Name     string
	Policies []string // that package residency knows, the default first
	Planner  Planner
	InFlight int // reads of a batch at the same time, at most; at least 2
	Reading  int // batches that read at the same time; 0: one
	// Recorded says that the accesses of superbatches are recorded before they begin. The
	// policy is Belady's, and no other.
	Recorded bool
}

// New returns the store of that design, of a dataset and the batches of a source. Features
// of which single rows cannot be read are an error of kind fault.ErrUsage.
func New(source featurestore.Source, data *dataset.Dataset, d Design) (featurestore.Candidate, error) {
	if err := data.RowsReadable(); err != nil {
		return nil, err
	}
	return &candidate{design: d, source: source, data: data, facts: source.Facts()}, nil
}

type candidate struct {
	design Design
	source featurestore.Source
	data   *dataset.Dataset
	facts  featurestore.Facts
}

func (c *candidate) Name() string                       { return c.design.Name }
func (c *candidate) Dir() string                        { return c.source.Dir() }
func (c *candidate) Facts() featurestore.Facts          { return c.facts }
func (c *candidate) Lineage() featurestore.Lineage      { return c.source.Lineage() }
func (c *candidate) Describe() featurestore.Description { return featurestore.Description{} }
func (c *candidate) InOrder() bool                      { return true }

// Reads implements featurestore.Reads.
func (c *candidate) Reads() iostack.Options {
	return iostack.Options{Workers: c.design.InFlight * max(1, c.design.Reading), MaxIO: longestRead}
}

// longestRead is the most bytes that the stack reads at a time: rows are short, and each read
// under way has a bounce buffer.
const longestRead = 16 << 10

// PlanEval has no cache: batches of evaluation do not use it.
func (c *candidate) PlanEval() (featurestore.Layout, error) {
	return c.layout(c.design.Policies[0], 0, 0), nil
}

// Plan makes the cache as large as is wanted, or as the memory allows. Of a cache whose size
// is not given, superbatches take a quarter of the memory that is left, at most.
func (c *candidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	none := featurestore.Layout{}
	if g := o.GPUCache; o.GPU != nil && g != nil && g.Value != 0 {
		return none, fault.New(fault.ErrUsage, "--gpu-cache %s: the cache of the store %s is in RAM; use --ram-cache", g, c.design.Name)
	}
	policy := o.Policy
	if policy == "" {
		policy = c.design.Policies[0]
	}
	if !slices.Contains(c.design.Policies, policy) {
		return none, fault.New(fault.ErrUsage, "--cache-policy %s: the store %s has %v", policy, c.design.Name, c.design.Policies)
	}
	finest := 0 // superbatches of one batch
	if c.design.Recorded {
		finest = c.facts.BatchesPerEpoch
	}
	least := c.layout(policy, 0, finest)
	n := least.Bytes(o.Slots, o.EvalSlots)
	if n > o.Memory {
		return least, fault.New(fault.ErrBudget, "%d slots and what finds and checks rows need %s of memory, %s is left for them; give more --memory",
			o.Slots, budget.FormatBytes(n), budget.FormatBytes(max(o.Memory, 0)))
	}
	fits := func(frames, parts int64, memory int64) bool {
		l := c.layout(policy, frames, int(parts))
		return l.Bytes(o.Slots, o.EvalSlots) <= memory && l.Own.(own).grid.numbered(c.facts.Nodes, c.facts.Inputs(false))
	}
	longest := func(frames, memory int64) int { // superbatches of an epoch that are as long as fits
		return finest - int(most(int64(max(finest-1, 0)), func(n int64) bool { return fits(frames, int64(finest)-n, memory) }))
	}
	switch {
	case o.Least:
		return least, nil
	case o.Cache == nil:
		parts := longest(0, n+(o.Memory-n)/4)
		frames := most(min(c.facts.Nodes, maxFrames), func(n int64) bool { return fits(n, int64(parts), o.Memory) })
		return c.layout(policy, frames, parts), nil
	}
	rows, err := o.Cache.Rows(c.facts.Nodes, c.facts.RowBytes)
	if err != nil {
		return none, err
	}
	if l := c.layout(policy, rows, finest); l.Bytes(o.Slots, o.EvalSlots) > o.Memory {
		return l, fault.New(fault.ErrBudget, "--ram-cache %s, %d rows, and %d slots need %s of memory, %s is left for them; give more --memory, or a smaller cache",
			o.Cache, rows, o.Slots, budget.FormatBytes(l.Bytes(o.Slots, o.EvalSlots)), budget.FormatBytes(o.Memory))
	}
	return c.layout(policy, rows, longest(rows, o.Memory)), nil
}

// most returns the largest number up to hi that fits. Zero does, and all below one that does.
func most(hi int64, fits func(int64) bool) int64 {
	lo := int64(0)
	for lo < hi {
		if mid := lo + (hi-lo+1)/2; fits(mid) {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// maxFrames is the most that a policy numbers.
const maxFrames = 1<<31 - 1

// layout counts what a store with so many frames, and superbatches of an epoch, holds.
func (c *candidate) layout(policy string, frames int64, parts int) featurestore.Layout {
	frames = min(frames, maxFrames)
	l := featurestore.Layout{
		CacheRows:  frames,
		TableBytes: c.source.TableBytes() + c.data.PageSumsBytes(),
		RAMBytes:   c.framesBytes(frames) + c.ranksBytes(),
		KeepBytes:  max(c.source.RanksBytes(), c.data.PageSumsWork(), c.refillBytes()),
		Policy:     policy,
	}
	g := grid{train: c.facts.Train, perEpoch: c.facts.BatchesPerEpoch, parts: parts}
	if parts > 0 {
		l.RAMBytes += g.recorderBytes(c.facts.Nodes, frames, c.facts.Inputs(false))
		l.Ahead, l.WindowBytes = windowAhead, c.source.WindowBytes(windowAhead)
		l.Note = fmt.Sprintf("superbatches of %d batches", g.longest())
	} else {
		l.StateBytes = stateBytes(frames)
		l.RAMBytes += residency.Size{Nodes: int(c.facts.Nodes), Frames: int(frames)}.Bytes(policy)
		l.KeepBytes += snapshots * l.StateBytes
	}
	l.SlotBytes, l.EvalSlotBytes = c.slotBytes(false), c.slotBytes(true)
	l.Own = own{policy: policy, frames: int(frames), grid: g}
	return l
}

// own is what Open must know of a layout besides.
type own struct {
	policy string
	frames int
	grid   grid
}

func (c *candidate) framesBytes(frames int64) int64 {
	return binio.AlignUp(frames*int64(c.facts.RowBytes), device.PageSize)
}

func (c *candidate) ranksBytes() int64 { return binio.AlignUp(4*c.facts.Nodes, device.PageSize) }

// Open takes the memory of the cache, and opens the features and the batches.
func (c *candidate) Open(stack iostack.Stack, l featurestore.Layout) (featurestore.Store, error) {
	s := &store{candidate: c}
	if err := s.open(l.Own.(own), stack); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// damaged adds to an error about the features how they are made again.
func (c *candidate) damaged(err error) error {
	return stage.Damaged(err, c.data.Dir(), c.data.Meta().Format)
}
