package packed

import (
	"fmt"
	"strings"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/pack/packfile"
)

// Plan returns the layout with the largest of the pack's caches that the options allow and that fits. If the
// smallest cache does not fit, the error is of kind fault.ErrBudget.
func Plan(r *packfile.Reader, o PlanOptions) (Layout, error) { return plan(r, o, nil) }

// plan is Plan for reads of chunks by the GPU, or if queued is nil, by the host.
func plan(r *packfile.Reader, o PlanOptions, queued *queuedReads) (Layout, error) {
	p, err := newPlanner(r, o, queued)
	if err != nil {
		return Layout{}, err
	}
	first, note, err := p.wanted()
	if err != nil {
		return Layout{}, err
	}
	for i := first; i < len(p.edges); i++ {
		l := p.layout(i)
		if p.total(&l) > o.Memory {
			continue
		}
		if i > first && o.Cache != nil {
			return Layout{}, fault.New(fault.ErrBudget, "a cache of %s and %[3]d slots need %[2]s of memory, but %[4]s is left; the next smaller cache is %[5]s",
				share(r, p.edges[first]), p.needs(first), o.Slots, left(o.Memory), share(r, p.edges[i]))
		}
		l.Note = note
		if o.Cache == nil && i > 0 {
			l.Note = fmt.Sprintf("cache of %s: memory has no room for all hot rows of the pack, %s", share(r, p.edges[i]), share(r, p.edges[0]))
		}
		return p.hold(l, o.Hold), nil
	}
	least := len(p.edges) - 1
	return Layout{}, fault.New(fault.ErrBudget, "the smallest cache of this pack, %s, and %d slots need %s of memory, but %s is left; give more --memory, or sample smaller batches",
		share(r, p.edges[least]), o.Slots, p.needs(least), left(o.Memory))
}

// PlanEval returns the layout of a store that loads each evaluation batch once, and no training batches.
// It has no cache, and holds rows of these batches in at most the given bytes of memory.
func PlanEval(r *packfile.Reader, hold int64) Layout {
	p := planner{r: r, edges: r.Index().Edges}
	l := p.layout(len(p.edges) - 1)
	l.CacheRows, l.RAMBytes = 0, 0
	return p.hold(l, featurestore.Hold{Memory: hold, Validations: 1})
}

// planner computes layouts for the cache sizes of a pack.
type planner struct {
	r      *packfile.Reader
	o      PlanOptions
	edges  []int64
	queued *queuedReads
	onGPU  int64                             // the most rows on the GPU
	caches string                            // the caches of the options, for messages
	rows   func(wanted int64) (int64, error) // the rows of the cache, for the rows that the options ask for
}

func newPlanner(r *packfile.Reader, o PlanOptions, queued *queuedReads) (*planner, error) {
	p := &planner{r: r, o: o, queued: queued, edges: r.Index().Edges, rows: func(wanted int64) (int64, error) { return wanted, nil }}
	if isMin(r) {
		p.rows = func(wanted int64) (int64, error) { return p.edges[0], p.exactly(wanted) }
	}
	if o.Cache != nil {
		p.caches = o.Cache.String()
	}
	if o.GPU == nil && o.GPUCache == nil {
		return p, nil
	}
	switch {
	case o.Cache != nil && o.GPUCache == nil:
		p.caches += " in RAM beside the rows on the GPU"
	case o.Cache != nil:
		p.caches += fmt.Sprintf(" in RAM and %s on the GPU", o.GPUCache)
	}
	var err error
	p.onGPU, err = p.mostOnGPU()
	return p, err
}

// mostOnGPU returns the most rows on the GPU, of this process or of a consumer.
func (p *planner) mostOnGPU() (int64, error) {
	o, f := &p.o, p.r.Facts()
	if o.GPU == nil { // a consumer holds them, as float32
		rows, err := o.GPUCache.Rows(f.Nodes, 4*f.Dim)
		if i := edgeBelow(p.edges, rows); i < len(p.edges) { // the rows of a band are not in the order of ranks
			rows = p.edges[i]
		}
		return rows, err
	}
	room := o.GPUMemory
	for i := range p.edges {
		l := p.layout(i) // onGPU is 0 here
		room = min(room, o.GPUMemory-l.GPUBytes-int64(o.MostSlots)*l.GPUSlotBytes)
	}
	if room < 0 {
		return 0, fault.New(fault.ErrBudget, "batches in flight need %s of GPU memory, but %s is left; give more --gpu-memory, or sample smaller batches",
			budget.FormatBytes(o.GPUMemory-room), left(o.GPUMemory))
	}
	fits, err := gpurows.Fit(o, room, f.HotRows, f.Nodes, f.RowBytes)
	if o.Divide {
		fits = min(fits*int64(1+len(o.Peers)), f.HotRows)
	}
	return fits, err
}

// wanted returns the number of the largest of the pack's caches that is not larger than the options ask
// for, and a note if it is smaller.
func (p *planner) wanted() (first int, note string, err error) {
	r, f := p.r, p.r.Facts()
	if p.o.Cache == nil {
		return 0, "", nil
	}
	wanted, err := p.o.Cache.Rows(f.Nodes, f.RowBytes)
	if err != nil {
		return 0, "", err
	}
	if wanted, err = p.rows(wanted + p.onGPU); err != nil {
		return 0, "", err
	}
	if first = edgeBelow(p.edges, wanted); first == len(p.edges) {
		return 0, "", fault.New(fault.ErrBudget, "%s was packed for a cache of at least %s, but a cache of %s (%d rows) is requested; give at least that, or pack again with a smaller --cache",
			r.Dir(), share(r, p.edges[len(p.edges)-1]), p.caches, wanted)
	}
	if p.edges[first] < wanted {
		note = fmt.Sprintf("cache rounded down to %s: the pack was cut for caches of %s", share(r, p.edges[first]), list(r, p.edges))
	}
	return first, note, nil
}

// layout returns the layout with the i-th of the pack's caches.
func (p *planner) layout(i int) Layout {
	rows := p.edges[i]
	// Under min there is one edge above two bands: both bands of a chunk are read.
	through := i + p.r.Index().Bands - len(p.edges)
	onGPU, f := min(rows, p.onGPU), p.r.Facts()
	// The host copies rows of whole float32s, and a consumer that holds rows has float32.
	stored := p.o.Stored && p.o.GPU == nil && onGPU == 0 && f.RowBytes%4 == 0
	return p.measured(Layout{Layout: featurestore.Layout{CacheRows: rows, GPU: p.o.GPU, GPURows: onGPU, Stored: stored},
		Peers: p.o.Peers, Divided: p.o.Divide, direct: p.o.Direct && len(p.o.Peers) == 0, queued: p.queued,
		Through: through, needs: packfile.Needs{Degrees: !p.o.Unused.Degrees, Ranks: !p.o.Unused.Ranks, Through: through, InBits: p.o.InBits && p.r.InBits()}})
}

// measured returns the layout with its memory.
func (p *planner) measured(l Layout) Layout {
	s := compose(p.r, &l)
	s.sink.count(&l.Layout)
	l.KeepBytes = s.held.bytes() + s.pieceBytes()
	l.DecodeBytes = int64(1+len(s.peers)) * s.cold.codec.memory(s.copies.Workers())
	l.SlotBytes, l.GPUSlotBytes = s.slotBytes(&s.train)
	l.EvalSlotBytes, _ = s.slotBytes(&s.eval)
	p.queued.count(&l.Layout, s.cold.most())
	return l
}

// hold adds rows to a layout that evaluation batches find in memory.
func (p *planner) hold(l Layout, h featurestore.Hold) Layout {
	cached := l.RAMBytes
	l.HeldHot, l.HeldEval = holding(p.r, l.CacheRows, h)
	l = p.measured(l)
	l.HeldBytes, l.RAMBytes = l.RAMBytes-cached, cached
	return l
}

// total returns the host memory that a layout takes with all slots.
func (p *planner) total(l *Layout) int64 {
	return l.Bytes(p.o.Slots, p.o.EvalSlots)
}

// needs returns the total of the layout with the i-th cache, for messages.
func (p *planner) needs(i int) string {
	l := p.layout(i)
	return budget.FormatBytes(p.total(&l))
}

// left returns the memory left, for messages.
func left(memory int64) string {
	if memory <= 0 {
		return "nothing"
	}
	return budget.FormatBytes(memory)
}

// exactly returns an error if the options ask for another cache than the cache of a pack of policy min.
// With rows on a GPU they may ask for more.
func (p *planner) exactly(wanted int64) error {
	r, rows := p.r, p.edges[0]
	if wanted == rows || wanted == r.Params().CacheRows || p.onGPU > 0 && wanted > rows {
		return nil
	}
	kind := fault.ErrUsage
	if wanted < rows {
		kind = fault.ErrBudget
	}
	return fault.New(kind, "%s has the policy min and needs a cache of exactly %s, but a cache of %s (%d rows) is requested; give --ram-cache %dB, or leave it out",
		r.Dir(), share(r, rows), p.caches, wanted, (rows-min(rows, p.onGPU))*int64(r.Facts().RowBytes))
}

// edgeBelow returns the first, largest edge of at most rows, or len(edges).
func edgeBelow(edges []int64, rows int64) int {
	for i, e := range edges {
		if e <= rows {
			return i
		}
	}
	return len(edges)
}

func share(r *packfile.Reader, rows int64) string {
	f := r.Facts()
	return fmt.Sprintf("%.3g%% (%s)", 100*float64(rows)/float64(max(f.Nodes, 1)), budget.FormatBytes(rows*int64(f.RowBytes)))
}

func list(r *packfile.Reader, edges []int64) string {
	s := make([]string, len(edges))
	for i, e := range edges {
		s[i] = share(r, e)
	}
	return strings.Join(s, ", ")
}
