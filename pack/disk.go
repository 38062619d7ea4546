package pack

import (
	"context"
	"runtime/debug"
	"strings"

	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

// diskCosts is what the size of a pack follows from, whatever its bands and segments.
type diskCosts struct {
	facts  packfile.Facts // the counts of batches, and a row's bytes
	form   packfile.Form
	edges  []int64 // all wanted edges, descending
	eval   []int64 // rows of eval.bin, by the coldest edge
	graphs int64   // bytes of the graphs without plans, whole pages
}

// level counts the training batches' rows that lie outside hot.bin.
type level struct {
	cold, ssd int64 // rows stored
	uses      int64 // of the rows in ssd, by batches
	segment   int   // batches that share them
}

// unshared is the level of segments of one batch.
func unshared(accesses int64) level { return level{cold: accesses, segment: 1} }

// level returns what the census found for segments of its i-th length, at the lowest
// edge.
func (c *Census) level(i int) level {
	e := len(c.Edges) - 1
	stored, shared := c.Stored[e][i], c.Shared[e][i]
	return level{cold: stored - shared, ssd: shared, uses: c.Accesses[e] - (stored - shared), segment: c.Segments[i]}
}

// bytes returns what a pack takes whose coldest edge is the given one, at most: it is
// over by less than a page for every chunk, plan and segment, and a little for
// meta.json.
func (d *diskCosts) bytes(edge int, l level) int64 {
	f, rb := &d.facts, int64(d.facts.RowBytes)
	const page = binio.Page
	padded := func(rows, parts int64) int64 { return rows*rb + parts*(page-1) }
	sums := func(size int64) int64 { return 32 + size/page*4 }
	train, segments := int64(f.Train), int64(0)
	n := d.graphs
	files := int64(8)
	for _, rows := range []int64{d.edges[edge], d.eval[edge]} {
		n += rows*rb + sums(rows*rb)
	}
	n += padded(l.cold, train)
	groups := (train + int64(packfile.GroupBatches(l.segment)) - 1) / int64(packfile.GroupBatches(l.segment))
	files += 2 * groups
	if l.segment > 1 {
		segments = int64(segmentsOf(f.Train, l.segment))
		n += padded(l.ssd, segments) + sums(padded(l.ssd, segments)) + 36*groups
		n += 4*l.uses + train*(page-1)
		files += 2 * groups
	}
	bands := int64(len(d.edges) - edge)
	pieces := l.cold*rb/d.form.PieceBytes() + train*bands
	n += 64 + 8*bands + train*(44+8*bands) + 12*segments + 32*int64(f.Valid+f.Test) + 4*pieces
	if d.form.Compressed() {
		n += pieces * (page - 1 + 4)
	}
	return n + 4096 + 256*files
}

// graphBytesOf returns the bytes that the batches' graphs take without plans, each
// from a page on. Renumbering adds the positions of the outermost destinations to
// what presample wrote of training and evaluation batches, and changes no width.
func graphBytesOf(samples *mbfile.Reader) int64 {
	n := int64(0)
	for i := range samples.Facts().Batches() {
		info := samples.Info(i)
		size := info.Size
		if len(info.Nodes) > 1 {
			size += int64(info.Nodes[1]) * int64(binio.Width(uint32(max(int64(info.Nodes[0])-1, 0))))
		}
		n += binio.AlignUp(size, binio.Page)
	}
	return n
}

// evalCounts returns the rows of eval.bin by the coldest edge, from the evaluation
// batches' nodes ranked at the lowest edge or above.
func evalCounts(set *bitset, rank []uint32, edges []int64) []int64 {
	counts := make([]int64, len(edges)+1)
	for v, r := range rank {
		if set.has(uint32(v)) {
			counts[bandOf(edges, r)]++
		}
	}
	for i := 1; i < len(edges); i++ {
		counts[i] += counts[i-1]
	}
	return counts[:len(edges)]
}

// retain removes the nodes whose rank is below hot.
func (s *bitset) retain(rank []uint32, hot int64) {
	for v, r := range rank {
		if int64(r) < hot {
			s.words[v/64] &^= 1 << (v % 64)
		}
	}
}

// chooseCut decides band edges and segments: the shortest segments with which the
// pack keeps within --max-disk, and, of the wanted edges, as many as it then can hold
// as hot. Rows are counted by a census, so that the choice is exact but for the pages'
// padding. (DiskGNN looks at the first segment and supposes that all are like it.)
func (p *packing) chooseCut(ctx context.Context, d *diskCosts, accesses int64) (int64, error) {
	f := &p.facts
	take := func(edge int, l level) int64 {
		p.index.Edges = d.edges[edge:]
		p.index.Bands = len(p.index.Edges)
		f.HotRows, f.EvalRows = d.edges[edge], d.eval[edge]
		f.Segment, f.Segments = l.segment, segmentsOf(f.Train, l.segment)
		p.sharedMost = min(l.ssd, f.Nodes-d.edges[len(d.edges)-1])
		p.ownCold, p.ownSSD = p.share(l.cold), p.share(l.ssd)
		p.scratch = 4 * (p.ownCold + p.ownSSD)
		return d.bytes(edge, l)
	}
	limit := p.params.MaxDisk
	need := take(0, unshared(accesses))
	if limit == 0 || need <= limit {
		return need, nil
	}
	last := len(d.edges) - 1
	if p.params.Policy == packfile.PolicyMin {
		return 0, p.beyondBudget("a pack of policy min", need, "that")
	}
	slots, err := p.censusSlots()
	if err != nil {
		return 0, err
	}
	task := p.rep.Task("count shared rows", 0, "")
	c, err := takeCensus(ctx, p.samples, p.rank, d.edges[last:], slots)
	task.Done()
	if err != nil {
		return 0, err
	}
	defer debug.FreeOSMemory() // the census makes room for the first pass
	least := need
	for i := range c.Segments {
		l := c.level(i)
		least = min(least, d.bytes(last, l))
		for edge := range d.edges {
			if d.bytes(edge, l) <= limit {
				return take(edge, l), nil
			}
		}
	}
	return 0, p.beyondBudget("the least possible pack of these samples", least, "that")
}

// beyondBudget refuses what --max-disk does not allow; allow says what it should.
func (p *packing) beyondBudget(what string, need int64, allow string) error {
	// Rounded up, so that asking for the figure suffices.
	times := float64((need*1000+p.facts.TableBytes-1)/max(p.facts.TableBytes, 1)) / 1000
	return fault.New(fault.ErrBudget, "%s needs %s (%d bytes, %.3fx the features) and --max-disk allows %s; allow %s, %sor presample fewer epochs",
		what, budget.FormatBytes(need), need, times, budget.FormatBytes(p.params.MaxDisk), allow, p.narrower())
}

// narrower advises the element types whose rows are shorter than the pack's.
func (p *packing) narrower() string {
	var names []string
	for _, n := range []string{"bf16", "int8"} {
		if t, err := dtype.Parse(n); err == nil && t.RowBytes(p.facts.Dim) < p.facts.RowBytes {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "use --dtype " + strings.Join(names, " or ") + ", "
}

// censusSlots returns the number of batches that a census may hold at once.
func (p *packing) censusSlots() (int, error) {
	s := p.samples.Facts()
	held := heldMemory(p.facts.Nodes) + recordMemory(s) + censusMemory(p.facts.Nodes)
	slot := slotBytes(s) / 2
	if err := budget.Check("counting what the batches share", held+slot, p.o.Memory); err != nil {
		return 0, err
	}
	return min(p.o.Workers+1, int((p.o.Memory-held)/slot)), nil
}

// checkFree compares what of a pack of the given bytes is made here with the free space.
func (p *packing) checkFree(need int64, state stage.State) error {
	if state == stage.StateResumed {
		return nil // part of the need is on the disk already
	}
	need = p.ownNeed(need)
	lo, hi := p.part().Batches(&p.facts)
	scratch := p.scratch
	if p.plan.spill {
		scratch += p.facts.HotRows * int64(p.facts.RowBytes+4)
	}
	if p.packedForm().Compressed() {
		// Chunks lie there uncompressed, and are replaced group by group: two, since
		// groups differ.
		group := min(2*int64(packfile.GroupBatches(p.facts.Segment)), int64(hi-lo))
		scratch += need * group / int64(max(hi-lo, 1))
	}
	free, err := p.fs.Free(p.dir.Path())
	if err != nil {
		return err
	}
	if need+scratch > free {
		return fault.New(fault.ErrBudget, "the pack needs about %s of disk and %s of scratch, %s has %s free; give a --max-disk or a larger --cache, %sor presample fewer epochs",
			budget.FormatBytes(need), budget.FormatBytes(scratch), p.out, budget.FormatBytes(free), p.narrower())
	}
	return nil
}
