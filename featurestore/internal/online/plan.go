package online

import (
	"fmt"
	"slices"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/devrows"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
)

// Plan makes the cache as large as the options ask for, or as the memory allows, on the GPU first. If they do
// not ask for a size, superbatches take at most a quarter of the memory left.
func (c *candidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	return devrows.Planned(o, c.shape(), func(reads *devrows.Plan) (featurestore.Layout, error) { return c.plan(o, reads) })
}

// shape returns the sizes of the training batches' reads.
func (c *candidate) shape() devrows.Shape {
	return devrows.Shape{Rows: c.facts.Inputs(false), RowBytes: c.facts.RowBytes, Most: c.design.Planner.Most(c.facts.RowBytes), Path: c.data.FeaturesPath()}
}

func (c *candidate) plan(o featurestore.PlanOptions, reads *devrows.Plan) (featurestore.Layout, error) {
	p, err := newPlanner(c, &o, reads)
	if err != nil {
		return featurestore.Layout{}, err
	}
	least := p.layout(size{}, p.finest)
	if n := p.bytes(&least); n > o.Memory {
		return least, fault.New(fault.ErrBudget, "%d slots and the tables of nodes and checksums need %s of memory, but only %s is left; give more --memory",
			o.Slots, budget.FormatBytes(n), budget.FormatBytes(max(o.Memory, 0)))
	}
	if o.Least {
		return least, nil
	}
	first, err := p.wanted()
	if err != nil {
		return featurestore.Layout{}, err
	}
	whole := p.largest(first)
	l := p.layout(first, p.finest)
	if p.bytes(&l) > o.Memory && p.fits(whole, p.finest, o.Memory) {
		first = whole // rows on the GPU take less RAM than rows in it
		l = p.layout(first, p.finest)
	}
	n := p.bytes(&l)
	if n > o.Memory {
		return l, p.tooLarge(first, n)
	}
	if first == whole {
		return p.layout(first, p.longest(first, o.Memory)), nil
	}
	parts := p.longest(first, n+(o.Memory-n)/4)
	if p.fits(whole, parts, o.Memory) {
		return p.layout(whole, parts), nil
	}
	k := most(p.more(first), func(k int64) bool { return p.fits(p.grown(first, k), parts, o.Memory) })
	return p.layout(p.grown(first, k), parts), nil
}

// planner divides the memory of a store by the options of a plan.
type planner struct {
	*candidate
	options *featurestore.PlanOptions
	policy  string
	finest  int   // superbatches of an epoch if each has one batch; 0: the store has no superbatches
	onGPU   int64 // the most frames on the GPU
	reads   *devrows.Plan
}

// size is the number of frames on the GPU and in RAM.
type size struct{ near, far int64 }

func newPlanner(c *candidate, o *featurestore.PlanOptions, reads *devrows.Plan) (*planner, error) {
	p := &planner{candidate: c, options: o, policy: o.Policy, reads: reads}
	if p.policy == "" {
		p.policy = c.design.Policies[0]
	}
	if !slices.Contains(c.design.Policies, p.policy) {
		return nil, fault.New(fault.ErrUsage, "--cache-policy %s: the store %s has %v", p.policy, c.design.Name, c.design.Policies)
	}
	if c.design.Recorded {
		p.finest = c.facts.BatchesPerEpoch
	}
	if o.GPU == nil {
		return p, nil
	}
	l := p.layout(size{}, p.finest)
	left, err := devrows.Fit(&l, o)
	if err != nil {
		return nil, err
	}
	p.onGPU, err = gpurows.Fit(o, left, p.limit(), c.facts.Nodes, c.facts.RowBytes)
	return p, err
}

// limit returns the most frames of the cache.
func (p *planner) limit() int64 { return min(p.facts.Nodes, maxFrames) }

// maxFrames is the most frames of a policy.
const maxFrames = 1<<31 - 1

// wanted returns the frames that the options ask for.
func (p *planner) wanted() (s size, err error) {
	if p.options.GPUCache != nil {
		s.near = p.onGPU
	}
	if p.options.Cache != nil {
		s.far, err = p.options.Cache.Rows(p.facts.Nodes, p.facts.RowBytes)
	}
	s.far = min(s.far, p.limit()-s.near)
	return s, err
}

// more returns the number of frames that may be added to s.
func (p *planner) more(s size) int64 {
	n := p.limit() - s.near - s.far
	if p.options.Cache != nil {
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
	return p.candidate.layout(own{policy: p.policy, frames: int(s.near + s.far), near: int(s.near), gpu: p.options.GPU, reads: p.reads, grid: p.grid(parts)})
}

// bytes returns the host memory that a layout takes with all slots.
func (p *planner) bytes(l *featurestore.Layout) int64 {
	return l.Bytes(p.options.Slots, p.options.EvalSlots)
}

func (p *planner) fits(s size, parts int, memory int64) bool {
	l := p.layout(s, parts)
	return p.bytes(&l) <= memory && p.grid(parts).numbered(p.facts.Nodes, p.facts.Inputs(false))
}

// longest returns the smallest number of superbatches of an epoch that fits into the memory.
func (p *planner) longest(s size, memory int64) int {
	return p.finest - int(most(int64(max(p.finest-1, 0)), func(n int64) bool { return p.fits(s, p.finest-int(n), memory) }))
}

// tooLarge returns the error for a cache that needs more memory than the options allow.
func (p *planner) tooLarge(s size, need int64) error {
	o := p.options
	if o.Cache == nil {
		return fault.New(fault.ErrBudget, "the index of --gpu-cache %[2]s (%[1]d rows) and %[3]d slots need %[4]s of memory, but only %[5]s is left; give more --memory, or a smaller cache",
			s.near, o.GPUCache, o.Slots, budget.FormatBytes(need), budget.FormatBytes(o.Memory))
	}
	return fault.New(fault.ErrBudget, "--ram-cache %s (%d rows) and %d slots need %s of memory, but only %s is left; give more --memory, or a smaller cache",
		o.Cache, s.far, o.Slots, budget.FormatBytes(need), budget.FormatBytes(o.Memory))
}

// most returns the largest number up to hi that fits. fits must be true for 0, and for all numbers below
// one for which it is true.
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

// Planner cuts the missed rows of a batch into requests. A request reads whole pages of the feature file; the
// last page of the file may be shorter.
type Planner interface {
	// Most returns the size of the longest request for rows of rowBytes bytes, in bytes: a multiple of the
	// page size.
	Most(rowBytes int) int64
	// Next returns the next request for the rows of nodes, in a file of size bytes: its offset off, its
	// length n, and the number of nodes, at least one, that it serves from nodes[0] on.
	Next(nodes []uint32, rowBytes int, size int64) (off, n int64, served int)
}

// Single is a Planner with one request for each row: the pages that cover it. A page with several rows is
// read once for each of them.
type Single struct{}

// Most returns the size of the pages of a row that begins as late in a page as possible. Rows begin at
// multiples of the greatest common divisor of the sizes of rows and pages.
func (Single) Most(rowBytes int) int64 {
	last := int64(binio.Page - gcd(rowBytes, binio.Page))
	return binio.AlignUp(last+int64(rowBytes), binio.Page)
}

// Next returns the pages of the row of nodes[0].
func (Single) Next(nodes []uint32, rowBytes int, size int64) (off, n int64, served int) {
	begin := int64(nodes[0]) * int64(rowBytes)
	off = begin / binio.Page * binio.Page
	return off, min(binio.AlignUp(begin+int64(rowBytes), binio.Page), size) - off, 1
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// PlanEval returns a layout without a cache: batches of evaluation do not use it.
func (c *candidate) PlanEval(int64) (featurestore.Layout, error) {
	return c.layout(own{policy: c.design.Policies[0], grid: c.grid(0)}), nil
}

// layout counts the memory of a store.
func (c *candidate) layout(o own) featurestore.Layout {
	frames, of := int64(o.frames), c.newCache(o)
	l := featurestore.Layout{
		CacheRows:  frames,
		TableBytes: c.source.TableBytes() + c.data.PageSumsBytes(),
		RAMBytes:   c.ranksBytes(),
		KeepBytes:  max(c.source.RanksBytes(), c.data.PageSumsWork(), c.refillBytes(of)),
		Policy:     o.policy,
		ByUse:      true,
		Own:        o,
	}
	of.count(&l)
	if g := o.grid; g.parts > 0 {
		l.RAMBytes += g.recorderBytes(c.facts.Nodes, frames, c.facts.Inputs(false))
		l.Ahead, l.WindowBytes = windowAhead, c.source.WindowBytes(windowAhead)
		l.Superbatch = g.longest()
		l.Note = fmt.Sprintf("superbatches of %d batches", l.Superbatch)
	} else {
		l.StateBytes = stateBytes(frames)
		l.RAMBytes += residency.Size{Nodes: int(c.facts.Nodes), Frames: o.frames}.Bytes(o.policy)
		l.KeepBytes += residency.MostStates * l.StateBytes
	}
	l.SlotBytes, l.EvalSlotBytes = c.slotBytes(of, false, o.reads), c.slotBytes(of, true, nil)
	o.reads.Count(&l)
	return l
}

// refillBytes bounds the work memory of Fill for restoring the cache, in bytes.
func (c *candidate) refillBytes(of cache) int64 {
	m := &memory{dry: true}
	newReader(m, &table{candidate: c}, nil)
	return m.held() + of.refillBytes() + 8*int64(c.facts.Inputs(false)) + c.source.LoaderBytes(false)
}
