package drives

import (
	"slices"
	"strings"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/presample/mbfile"
	"diskgnn/simulate/kernel"
)

// Page is the unit of the page cache, of direct reads and of GIDS, in bytes.
const Page = 4096

// chunkRead is the size of the longest read of a chunk, in bytes.
const chunkRead = 1 << 20

// maxPages bounds a table with pages cached one by one: 8 TiB.
const maxPages = 1 << 31

// Caches has the sizes of a store's caches.
type Caches struct {
	Memory int64 // in RAM, in bytes
	GPU    int64 // on the GPU, in bytes: gids' pages
	Window int   // gids: number of next batches with pages that are not evicted
	Warmup int   // number of first batches that only fill the caches, without a load
}

// Reads is a number of requests of one size.
type Reads struct{ Bytes, Count int64 }

// Load is the work of a store for one batch.
type Load struct {
	Sample, Compute kernel.Time
	Assemble        kernel.Time // by the host, of the bytes read, before they cross the link
	Reads           []Reads     // in order; sizes may repeat
	Striped         bool        // reads go to the drives in turn, not by hash
	Direct          bool        // reads cross the link one by one
	Zero            int64       // bytes of rows in RAM that the GPU reads over the link
	Copy            int64       // bytes that cross the link when all reads are done
	Touched         int64       // pages that the page cache serves
	Rows, Hits      int64       // rows of the batch, and rows among them without a read
	Useful          int64       // bytes of its rows
	Merged          int         // number of batches that Accumulate has merged into this one
}

// Requests returns the number of reads, and their bytes.
func (l *Load) Requests() (n, bytes int64) {
	for _, r := range l.Reads {
		n += r.Count
		bytes += r.Count * r.Bytes
	}
	return n, bytes
}

// Times returns a load with n times the reads, bytes, pages and rows, to undo a workload's scaling by 1/n.
func (l Load) Times(n int64) Load {
	l.Reads = slices.Clone(l.Reads)
	for i := range l.Reads {
		l.Reads[i].Count *= n
	}
	l.Zero, l.Copy, l.Touched, l.Rows, l.Hits, l.Useful = n*l.Zero, n*l.Copy, n*l.Touched, n*l.Rows, n*l.Hits, n*l.Useful
	return l
}

// Stores returns the names of the stores of Plan.
func Stores() []string { return []string{"rows", "packed", "mmap", "gids", "memory", "recorded"} }

// Plan returns the loads of a store, one for each batch after the first Warmup batches. It takes PlanBytes of
// memory. Unknown stores, and workloads that the store cannot use, are errors of kind fault.ErrUsage or
// fault.ErrInput.
func Plan(store string, w *Workload, c Caches) ([]Load, error) {
	p := &planner{w: w, c: c}
	if !slices.Contains(Stores(), store) {
		return nil, fault.New(fault.ErrUsage, "no store %q can be simulated; use one of %s", store, strings.Join(Stores(), ", "))
	}
	if len(w.Batches) <= c.Warmup {
		return nil, fault.New(fault.ErrUsage, "the workload has %d batches, and %d of them fill the caches: none is left to simulate", len(w.Batches), c.Warmup)
	}
	if store != "recorded" && w.Nodes == 0 {
		return nil, fault.New(fault.ErrUsage, "the trace has recorded reads and no rows: it can be simulated as recorded only")
	}
	if p.pages() > maxPages && (store == "mmap" || store == "gids") {
		return nil, fault.New(fault.ErrInput, "the feature table has %d pages; at most %d can be simulated for the store %s", p.pages(), int64(maxPages), store)
	}
	each := map[string]func(int, *Load){
		"rows": p.rows, "packed": p.packed, "mmap": p.mmap, "gids": p.gids, "memory": p.memory, "recorded": p.recorded,
	}[store]
	loads := make([]Load, 0, len(w.Batches)-c.Warmup)
	for i := range w.Batches {
		b := &w.Batches[i]
		l := Load{
			Sample: kernel.Time(b.SampleNanos) * kernel.Nanosecond, Compute: kernel.Time(b.ComputeNanos) * kernel.Nanosecond,
			Assemble: kernel.Time(b.AssembleNanos) * kernel.Nanosecond,
			Rows:     int64(len(b.Rows)), Useful: int64(len(b.Rows)) * w.RowBytes,
		}
		each(i, &l)
		if i >= c.Warmup {
			loads = append(loads, l)
		}
	}
	return loads, nil
}

// planner has the state of a store's caches.
type planner struct {
	w *Workload
	c Caches

	rank     []uint32 // by node, by hotness
	resident *lru
	ring     *ring
}

// hot reports whether a row is among the hottest rows, which are in RAM.
func (p *planner) hot(v uint32) bool {
	if p.rank == nil {
		p.rank = make([]uint32, p.w.Nodes)
		mbfile.Ranks(p.w.hotness(), p.rank)
	}
	return int64(p.rank[v]) < p.c.Memory/p.w.RowBytes
}

// span returns the first and the last page of a row.
func (p *planner) span(v uint32) (first, last int64) {
	at := int64(v) * p.w.RowBytes
	return at / Page, (at + p.w.RowBytes - 1) / Page
}

func (p *planner) memory(_ int, l *Load) { l.Hits, l.Copy = l.Rows, l.Useful }

// recorded adds a batch's recorded reads in the form in which its storage stack carried them out: in
// order, in whole pages for files that are read directly, cut into pieces of the longest read. The useful
// part of the bytes is unknown, and all bytes cross the link.
func (p *planner) recorded(i int, l *Load) {
	for _, r := range p.w.Batches[i].Reads {
		n := p.w.Files[r.File].Extent(r.Offset, r.Bytes)
		if most := p.w.LongestRead; most > 0 {
			l.follow(most, n/most)
			n %= most
		}
		if n > 0 {
			l.follow(n, 1)
		}
	}
	if l.Copy = l.Useful; l.Rows == 0 {
		_, l.Copy = l.Requests()
		l.Useful = l.Copy
	}
}

// follow appends n reads of a size.
func (l *Load) follow(bytes, n int64) {
	if k := len(l.Reads) - 1; k >= 0 && l.Reads[k].Bytes == bytes {
		l.Reads[k].Count += n
	} else if n > 0 {
		l.Reads = append(l.Reads, Reads{bytes, n})
	}
}

func (p *planner) rows(i int, l *Load) {
	l.Copy = l.Useful
	for _, v := range p.w.Batches[i].Rows {
		if p.hot(v) {
			l.Hits++
			continue
		}
		first, last := p.span(v)
		l.add((last-first+1)*Page, 1)
	}
}

func (l *Load) add(bytes, n int64) {
	for i := range l.Reads {
		if l.Reads[i].Bytes == bytes {
			l.Reads[i].Count += n
			return
		}
	}
	l.Reads = append(l.Reads, Reads{Bytes: bytes, Count: n})
}

func (p *planner) packed(i int, l *Load) {
	l.Copy, l.Striped = l.Useful, true
	for _, v := range p.w.Batches[i].Rows {
		if p.hot(v) {
			l.Hits++
		}
	}
	chunk := binio.AlignUp((l.Rows-l.Hits)*p.w.RowBytes, Page)
	if n := chunk / chunkRead; n > 0 {
		l.add(chunkRead, n)
	}
	if rest := chunk % chunkRead; rest > 0 {
		l.add(rest, 1)
	}
}

func (p *planner) pages() int64 { return (p.w.TableBytes() + Page - 1) / Page }

func (p *planner) mmap(i int, l *Load) {
	if p.resident == nil {
		p.resident = newLRU(p.pages(), p.c.Memory/Page)
	}
	l.Copy = l.Useful
	for _, v := range p.w.Batches[i].Rows {
		missed := false
		for first, last := p.span(v); first <= last; first++ {
			if p.resident.touch(uint32(first)) {
				l.Touched++
				continue
			}
			l.add(Page, 1)
			missed = true
		}
		if !missed {
			l.Hits++
		}
	}
}

func (p *planner) gids(i int, l *Load) {
	if p.ring == nil {
		p.ring = newRing(p.pages(), p.c.GPU/Page)
		for j := range min(p.c.Window, len(p.w.Batches)) {
			p.foresee(j)
		}
	}
	if p.c.Window > 0 && i+p.c.Window < len(p.w.Batches) {
		p.foresee(i + p.c.Window)
	}
	l.Direct = true
	for _, v := range p.w.Batches[i].Rows {
		if p.hot(v) {
			l.Zero += p.w.RowBytes
			l.Hits++
			continue
		}
		missed := false
		for first, last := p.span(v); first <= last; first++ {
			if !p.ring.touch(uint32(first)) {
				l.add(Page, 1)
				missed = true
			}
			if p.c.Window > 0 {
				p.ring.future[uint32(first)]--
			}
		}
		if !missed {
			l.Hits++
		}
	}
}

// foresee counts the pages that a batch of the window will use.
func (p *planner) foresee(i int) {
	for _, v := range p.w.Batches[i].Rows {
		if p.hot(v) {
			continue
		}
		for first, last := p.span(v); first <= last; first++ {
			p.ring.future[first]++
		}
	}
}

// PlanBytes returns the memory of Plan without the workload, in bytes.
func PlanBytes(store string, w *Workload) int64 {
	pages := (w.TableBytes() + Page - 1) / Page
	ranks := 4 * w.Nodes
	if w.Hotness == nil {
		ranks += 4 * w.Nodes
	}
	switch store {
	case "mmap":
		return 8 * pages
	case "gids":
		return 12*pages + ranks
	case "rows", "packed":
		return ranks
	}
	return 0
}
