package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime/debug"

	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/pack/packfile"
)

// minSlotsFile is the scratch list of the cache's content before batch 0: node ids by
// slot.
const minSlotsFile = "min-slots.tmp"

// prepareMin does under policy min what prepare does: it simulates the cache, which
// says what every chunk will hold. An interrupted simulation begins anew.
func (p *packing) prepareMin(ctx context.Context, state stage.State, touched int64) (err error) {
	f := &p.facts
	if p.eval, err = p.evalNodes(ctx, 0); err != nil {
		return err
	}
	evalRows := p.eval.count()
	if p.packed {
		p.plan, err = planMemory(&p.o, p.planned(), p.samples.Facts(), p.ledger(0, f.ColdRows, 0))
		return err
	}
	rows := min(p.params.CacheRows, touched)
	p.index.Edges, p.index.Bands = []int64{rows}, 2
	f.HotRows, f.EvalRows = rows, evalRows
	if p.plan, err = planMemory(&p.o, p.planned(), p.samples.Facts(), p.ledger(0, 0, 0)); err != nil {
		return err // whatever the misses
	}
	accesses := int64(0)
	for i := range f.Train {
		accesses += int64(inputs(p.samples, i))
	}
	d := &diskCosts{facts: *f, form: p.packedForm(), graphs: graphBytesOf(p.samples), edges: p.index.Edges, eval: []int64{evalRows}}
	// What is known to be needed, before the work that says how much it is in all.
	p.scratch = 8*accesses + p.share(4*accesses)
	if err := p.checkMin(d.minBytes(accesses, 0), "more than that", state); err != nil {
		return err
	}
	stats, err := p.simulate(ctx)
	if err != nil {
		return err
	}
	misses := stats.Accesses - stats.Hits
	p.rep.Logf("policy min: the cache serves %.1f%% of the rows; %d cycles simulated", 100*float64(stats.Hits)/float64(max(stats.Accesses, 1)), len(stats.Cycles)+1)
	p.scratch = p.share(4 * (misses + accesses))
	if p.plan, err = planMemory(&p.o, p.planned(), p.samples.Facts(), p.ledger(0, p.share(misses), 0)); err != nil {
		return err
	}
	return p.checkMin(d.minBytes(accesses, misses), "that", state)
}

// checkMin compares what the pack will take with --max-disk, which should allow what
// is said, and with the free space.
func (p *packing) checkMin(need int64, allow string, state stage.State) error {
	if limit := p.params.MaxDisk; limit > 0 && need > limit {
		return p.beyondBudget("a pack of policy min", need, allow)
	}
	return p.checkFree(need, state)
}

// minBytes returns what a pack of policy min takes, at most, for the given misses.
func (d *diskCosts) minBytes(accesses, misses int64) int64 {
	train, rows := int64(d.facts.Train), d.edges[0]
	plans := 4*(accesses-misses+min(misses, accesses)) + train*(binio.Page-1)
	refill := refills(d.facts.Train) * 8 * rows
	return d.bytes(0, unshared(misses)) + 20*train + plans + refill + refill/binio.Page*4 + 1024
}

// refills returns the number of records of refill.bin.
func refills(batches int) int64 {
	return int64(batches+packfile.RefillBatches-1) / packfile.RefillBatches
}

// simulate runs the cache and leaves the codes of all accesses, refill.bin, and the
// list of the cache's first content.
func (p *packing) simulate(ctx context.Context) (stats MinStats, err error) {
	f, s := &p.facts, p.samples.Facts()
	rows := f.HotRows
	held := heldMemory(f.Nodes) + recordMemory(s) + minMemory(f.Nodes, rows, f.Train) + 2*appendBuffer
	slot := minSlotBytes(s) + 1<<16
	if err := budget.Check("simulating the cache", held+slot, p.o.Memory); err != nil {
		return stats, err
	}
	if rows > mostMinRows {
		return stats, fault.New(fault.ErrUsage, "--cache: %d rows; policy min has at most %d", rows, mostMinRows)
	}
	undo := budget.LimitHeap(p.o.Memory, 0)
	defer undo()
	defer debug.FreeOSMemory()
	slots := newMinSlots(min(p.o.Workers+1, int((p.o.Memory-held)/slot)))
	task := p.rep.Task("simulate the cache", 0, progress.Batches)
	defer task.Done()
	nodes := make([]uint32, f.Nodes)
	trace, err := buildTrace(ctx, p.fs, p.dir.Path(), p.samples, nodes, slots)
	if err != nil {
		return stats, err
	}
	defer func() { err = errors.Join(err, trace.remove()) }()
	sim := newSimulation(trace, nodes, rows, slots)
	set, err := sim.circle(ctx)
	if err != nil {
		return stats, err
	}
	place := p.slotByRank(set)
	w, err := newMinWriter(p, trace, int(rows))
	if err != nil {
		return stats, err
	}
	defer func() {
		w.close()
		if err != nil {
			err = errors.Join(err, w.codes.remove())
		}
	}()
	if err := sim.run(ctx, set, place, func(t int, nodes, codes []uint32) error {
		task.Add(1)
		return w.batch(t, codes, sim.cache, place)
	}); err != nil {
		return stats, err
	}
	p.codes, p.minBytes = w.codes, 8*sim.stats.Accesses+4*(trace.start[w.hi]-trace.start[w.lo])
	if w.refill == nil {
		return sim.stats, nil
	}
	if p.minSlots, err = p.writeMinSlots(set, place, nodes); err != nil {
		return stats, err
	}
	p.files, err = w.refill.finish(packfile.RefillSums)
	return sim.stats, err
}

// slotByRank gives the members of a set the slots 0, 1, … by ascending rank: what is
// used most lies together, in the slots that a GPU would hold.
func (p *packing) slotByRank(set *bitset) func(v uint32) uint32 {
	ranks := newBitset(int64(len(p.rank)))
	for v := range set.all() {
		ranks.add(p.rank[v])
	}
	ranks.count()
	return func(v uint32) uint32 { return ranks.place(p.rank[v]) }
}

// writeMinSlots writes the nodes of the set, by slot, and returns the list's checksum.
// scratch has room for them.
func (p *packing) writeMinSlots(set *bitset, place func(v uint32) uint32, scratch []uint32) (uint32, error) {
	list := scratch[:p.facts.HotRows]
	for v := range set.all() {
		list[place(v)] = v
	}
	a, err := newAppender(p.open, minSlotsFile, appendBuffer)
	if err != nil {
		return 0, err
	}
	defer a.close()
	if err := a.write(binio.Bytes(list)); err != nil {
		return 0, err
	}
	return a.crc, a.finish()
}

// hotPlaces returns the row of hot.bin that a node has, by node; others have one beyond
// its end.
func (p *packing) hotPlaces() ([]uint32, error) {
	if p.params.Policy != packfile.PolicyMin {
		return p.rank, nil
	}
	p.rank = nil
	name := p.dir.File(minSlotsFile)
	f, err := p.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, touched(name, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	places := make([]uint32, p.facts.Nodes)
	fill(places, noSlot)
	crc, buf := uint32(0), make([]uint32, 1<<16)
	for slot := int64(0); slot < p.facts.HotRows; {
		list := buf[:min(int64(len(buf)), p.facts.HotRows-slot)]
		if _, err := io.ReadFull(f, binio.Bytes(list)); err != nil {
			return nil, touched(name, err)
		}
		crc = binio.UpdateCRC(crc, binio.Bytes(list))
		for _, v := range list {
			if int64(v) < p.facts.Nodes { // else the checksum tells
				places[v] = uint32(slot)
			}
			slot++
		}
	}
	if crc != p.minSlots {
		return nil, touched(name, errors.New("it does not match its checksum"))
	}
	return places, nil
}

// minWriter records what becomes of every access, and what the slots contain.
type minWriter struct {
	lo, hi int // batches whose codes are of use here
	codes  *batchLists
	refill *summedFile // nil in all shards but the first
	// content is, by slot, the batch and the row of its matrix that the slot has its
	// content from, as in refill.bin.
	content [][2]uint32
	last    int // batch
	pairs   []uint32
}

func newMinWriter(p *packing, trace *minTrace, rows int) (*minWriter, error) {
	part := p.part()
	w := &minWriter{last: trace.batches - 1}
	w.lo, w.hi = part.Batches(&p.facts)
	var err error
	if w.codes, err = newBatchLists(p.fs, filepath.Join(p.dir.Path(), minCodesFile), trace.start); err != nil || !part.Common {
		return w, err
	}
	w.content, w.pairs = make([][2]uint32, rows), make([]uint32, 0, 1<<14)
	for slot := range w.content {
		w.content[slot] = [2]uint32{packfile.RefillHot, uint32(slot)}
	}
	if w.refill, err = newSummedFile(p.open, packfile.RefillFile); err != nil {
		return nil, errors.Join(err, w.codes.remove())
	}
	return w, nil
}

// close gives refill.bin up, unless it is finished.
func (w *minWriter) close() {
	if w.refill != nil {
		w.refill.close()
	}
}

// batch takes the codes of batch t, after which the cache is as given. place returns
// the slot in which a node begins the circle.
func (w *minWriter) batch(t int, codes []uint32, c *minCache, place func(v uint32) uint32) error {
	if t >= w.lo && t < w.hi {
		if err := w.codes.write(t, codes); err != nil {
			return err
		}
	}
	if w.refill == nil {
		return nil
	}
	row := uint32(0)
	for _, code := range codes {
		if code&(codeHit|codeAdmit) == 0 {
			row++
		}
	}
	for _, code := range codes {
		if code&codeAdmit != 0 {
			w.content[code&codeSlot] = [2]uint32{uint32(t), row}
			row++
		}
	}
	if t == w.last { // the same rows as in the beginning, in other slots
		for slot, v := range c.nodeOf {
			w.content[slot] = [2]uint32{packfile.RefillHot, place(v)}
		}
	}
	if t != w.last && (t+1)%packfile.RefillBatches != 0 {
		return nil
	}
	for lo := 0; lo < len(w.content); {
		w.pairs = w.pairs[:0]
		for ; lo < len(w.content) && len(w.pairs) < cap(w.pairs); lo++ {
			w.pairs = append(w.pairs, w.content[lo][0], w.content[lo][1])
		}
		if err := w.refill.write(binio.Bytes(w.pairs)); err != nil {
			return fmt.Errorf("write %s: %w", packfile.RefillFile, err)
		}
	}
	return nil
}
