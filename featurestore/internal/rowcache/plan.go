package rowcache

import (
	"fmt"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
)

// Shape implements machine.ReadByGPU.
func (v *levels) Shape() gpureads.Shape {
	return gpureads.Shape{Rows: v.Facts.Inputs(false), RowBytes: v.Facts.RowBytes, Most: v.design.Planner.Most(v.Facts.RowBytes), Path: v.Data.FeaturesPath()}
}

// Plan makes the cache as large as the options ask for, or as the memory allows, on the GPU first. If they do
// not ask for a size, superbatches take at most a quarter of the memory left.
func (v *levels) Plan(r machine.Room, reads *gpureads.Plan) (featurestore.Layout, error) {
	p := &planner{levels: v, Room: r, reads: reads}
	if v.design.Recorded {
		p.finest = v.Facts.BatchesPerEpoch
	}
	least := p.layout(size{}, p.finest)
	var err error
	if p.onGPU, err = r.OnGPU(least, p.limit()); err != nil {
		return featurestore.Layout{}, err
	}
	if err := r.Smallest(least, machine.Tables); err != nil || r.Least {
		return least, err
	}
	first, err := p.wanted()
	if err != nil {
		return featurestore.Layout{}, err
	}
	whole := p.largest(first)
	l := p.layout(first, p.finest)
	if !r.Fits(l) && p.fits(whole, p.finest, r.Memory) {
		first = whole // rows on the GPU take less RAM than rows in it
		l = p.layout(first, p.finest)
	}
	if !r.Fits(l) {
		return l, p.tooLarge(l, first)
	}
	if first == whole {
		return p.layout(first, p.longest(first, r.Memory)), nil
	}
	n := r.Need(l)
	parts := p.longest(first, n+(r.Memory-n)/4)
	if p.fits(whole, parts, r.Memory) {
		return p.layout(whole, parts), nil
	}
	k := machine.Most(p.more(first), func(k int64) bool { return p.fits(p.grown(first, k), parts, r.Memory) })
	return p.layout(p.grown(first, k), parts), nil
}

// planner divides the memory of a store by the options of a plan.
type planner struct {
	*levels
	machine.Room
	finest int   // superbatches of an epoch if each has one batch; 0: the store has no superbatches
	onGPU  int64 // the most frames on the GPU
	reads  *gpureads.Plan
}

// size is the number of frames on the GPU and in RAM.
type size struct{ near, far int64 }

// limit returns the most frames of the cache.
func (p *planner) limit() int64 { return min(p.Facts.Nodes, maxFrames) }

// maxFrames is the most frames of a policy.
const maxFrames = 1<<31 - 1

// wanted returns the frames that the options ask for.
func (p *planner) wanted() (s size, err error) {
	if p.GPUCache != nil {
		s.near = p.onGPU
	}
	if p.Cache != nil {
		s.far, err = p.Wanted()
	}
	s.far = min(s.far, p.limit()-s.near)
	return s, err
}

// more returns the number of frames that may be added to s.
func (p *planner) more(s size) int64 {
	n := p.limit() - s.near - s.far
	if p.Cache != nil {
		n = min(n, p.onGPU-s.near)
	}
	return n
}

// grown returns a size with k more frames, on the GPU first.
func (p *planner) grown(s size, k int64) size {
	near := min(k, p.onGPU-s.near)
	return size{s.near + near, s.far + k - near}
}

// largest returns s with as many frames added as possible. If every row has a frame then, the GPU holds
// the most frames that it can.
func (p *planner) largest(s size) size {
	s = p.grown(s, p.more(s))
	if s.near+s.far == p.limit() {
		moved := min(p.onGPU-s.near, s.far)
		s = size{s.near + moved, s.far - moved}
	}
	return s
}

func (p *planner) layout(s size, parts int) featurestore.Layout {
	return p.levels.layout(own{policy: p.Policy, grid: p.grid(parts),
		frames: machine.Frames{All: s.near + s.far, Near: s.near, GPU: p.GPU, Reads: p.reads}})
}

func (p *planner) fits(s size, parts int, memory int64) bool {
	l := p.layout(s, parts)
	return p.Need(l) <= memory && p.grid(parts).numbered(p.Facts.Nodes, p.Facts.Inputs(false))
}

// longest returns the smallest number of superbatches of an epoch that fits into the memory.
func (p *planner) longest(s size, memory int64) int {
	return p.finest - int(machine.Most(int64(max(p.finest-1, 0)), func(n int64) bool { return p.fits(s, p.finest-int(n), memory) }))
}

// tooLarge returns the error for a layout with the frames s that the options ask for, which does not fit.
func (p *planner) tooLarge(l featurestore.Layout, s size) error {
	if p.Cache != nil {
		return p.Cached(l, s.far)
	}
	return fault.New(fault.ErrBudget, "the index of --gpu-cache %[2]s (%[1]d rows) and %[3]d slots need %[4]s of memory, but only %[5]s is left; give more --memory, or a smaller cache",
		s.near, p.GPUCache, p.Slots, budget.FormatBytes(p.Need(l)), budget.FormatBytes(p.Memory))
}

// PlanEval returns a layout without a cache: batches of evaluation do not use it.
func (v *levels) PlanEval(int64) (featurestore.Layout, error) {
	return v.layout(own{policy: v.design.Policies[0], grid: v.grid(0)}), nil
}

// layout counts the memory of a store.
func (v *levels) layout(o own) featurestore.Layout {
	frames, of := o.frames.All, machine.NewCache(&v.Facts, o.frames)
	l := featurestore.Layout{
		CacheRows:  frames,
		TableBytes: v.Source.TableBytes() + v.Data.PageSumsBytes(),
		RAMBytes:   v.RanksBytes(),
		KeepBytes:  max(v.Source.RanksBytes(), v.Data.PageSumsWork(), v.refillBytes(of)),
		Policy:     o.policy,
		ByUse:      true,
		Own:        o,
	}
	of.Count(&l)
	if g := o.grid; g.parts > 0 {
		l.RAMBytes += g.recorderBytes(v.Facts.Nodes, frames, v.Facts.Inputs(false))
		l.Ahead, l.WindowBytes = windowAhead, v.Source.WindowBytes(windowAhead)
		l.Superbatch = g.longest()
		l.Note = fmt.Sprintf("superbatches of %d batches", l.Superbatch)
	} else {
		l.StateBytes = stateBytes(frames)
		l.RAMBytes += residency.Size{Nodes: int(v.Facts.Nodes), Frames: int(frames)}.Bytes(o.policy)
		l.KeepBytes += residency.MostStates * l.StateBytes
	}
	l.SlotBytes, l.EvalSlotBytes = machine.FrameSlotBytes(v.Table, of, v.reads(), o.frames.Reads != nil)
	o.frames.Reads.Count(&l)
	return l
}

// refillBytes bounds the work memory of Fill for restoring the cache, in bytes.
func (v *levels) refillBytes(of machine.Cache) int64 {
	return machine.RefillBytes(v.reads(), of) + 8*int64(v.Facts.Inputs(false)) + v.Source.LoaderBytes(false)
}
