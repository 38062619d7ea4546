package cut

import (
	"diskgnn/internal/idset"
	"math"
)

// The outcome of an access, in the two upper bits of its code. The lower bits number an entry of the
// cache; a miss that the cache does not admit has none.
const (
	Admit     = 1 << 30 // a miss; the entry takes the row once the batch has used it
	Hit       = 2 << 30 // the entry holds the row
	EntryMask = 1<<30 - 1

	// mostEntries bounds the entries that a code can number.
	mostEntries = EntryMask
	NoEntry     = math.MaxUint32
)

// belady is a cache under Belady's MIN with bypass (Belady, A study of replacement algorithms for a
// virtual-storage computer, 1966). After every batch it keeps the rows with the nearest next uses, among
// the rows in it and the batch's rows. Among rows with equal next uses a held row has precedence over a new
// one, and of new rows the one of the lower node. No policy has more hits on a given trace with a given
// initial content.
//
// Entries that may be evicted are queued in one list per batch of next use, so that the
// entry with the farthest next use is found in constant time. Batches are numbered from 0
// within one cycle; a next use may lie in the following cycle.
type belady struct {
	entryOf []uint32 // by node
	nodeOf  []uint32 // by entry
	link    []uint32 // by entry: another entry with the next use in the same batch
	head    []uint32 // by batch of the cycle: an entry with its next use there
	free    []uint32 // empty entries
	far     int      // no queued entry has a later next use
	queued  int      // entries in the lists

	// keep, if not nil, is the set of nodes that the cycle must end with, as it began.
	// Its rows are not evicted before their first use, nor after their last.
	keep *idset.Set

	scratch []uint32
}

func newBelady(entryOf []uint32, batches, rows int) *belady {
	c := &belady{entryOf: entryOf, nodeOf: make([]uint32, rows), link: make([]uint32, rows), head: make([]uint32, batches), free: make([]uint32, rows), far: -1}
	empty(c.entryOf)
	empty(c.head)
	for i := range c.free {
		c.free[i] = uint32(rows - 1 - i)
	}
	return c
}

func (c *belady) put(v, entry uint32) { c.entryOf[v], c.nodeOf[entry] = entry, v }

// take returns an empty entry.
func (c *belady) take() uint32 {
	entry := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	return entry
}

// move moves every node v of a full cache to the entry place(v). All entries are queued.
func (c *belady) move(place func(v uint32) uint32) {
	link := c.free[:len(c.link)] // a full cache has no use for it
	for b, s := range c.head {
		c.head[b] = NoEntry
		for s != NoEntry {
			v, next := c.nodeOf[s], c.link[s]
			to := place(v)
			c.entryOf[v] = to
			link[to], c.head[b] = c.head[b], to
			s = next
		}
	}
	c.link, c.free = link, c.link[:0]
	for v, s := range c.entryOf {
		if s != NoEntry {
			c.nodeOf[s] = uint32(v)
		}
	}
}

// hold makes the next cycle end with the set. The cache holds exactly this set now.
func (c *belady) hold(set *idset.Set) {
	c.keep = set
	empty(c.head)
	c.far, c.queued = -1, 0
}

// queue lets an entry with the given next use be evicted.
func (c *belady) queue(entry uint32, use int) {
	b := use % len(c.head)
	c.link[entry], c.head[b] = c.head[b], entry
	c.far = max(c.far, use)
	c.queued++
}

// farthest returns the latest next use of the queued entries.
func (c *belady) farthest() (use int, ok bool) {
	if c.queued == 0 {
		return 0, false
	}
	for c.head[c.far%len(c.head)] == NoEntry {
		c.far--
	}
	return c.far, true
}

// evict empties the queued entry with the farthest next use; there must be one.
func (c *belady) evict() {
	use, _ := c.farthest()
	b := use % len(c.head)
	s := c.head[b]
	c.head[b] = c.link[s]
	c.queued--
	c.entryOf[c.nodeOf[s]] = NoEntry
	c.free = append(c.free, s)
}

// step serves batch t. nodes ascend; next[i] is the number of batches until nodes[i] is
// used again; order lists the places in nodes by ascending next use, then node. step
// fills codes, in the order of nodes, and returns the number of hits. order is changed.
func (c *belady) step(t int, nodes, next, order, codes []uint32) (hits int) {
	// All entries queued for this batch are used by it.
	for s := c.head[t]; s != NoEntry; s = c.link[s] {
		c.queued--
	}
	c.head[t] = NoEntry
	for i, v := range nodes {
		codes[i] = 0
		if s := c.entryOf[v]; s != NoEntry {
			codes[i] = Hit | s
			hits++
		}
	}
	room, keeps, last := len(c.free)+hits, 0, len(order)
	if c.keep != nil {
		keeps, last = c.closing(t, nodes, next, order)
	}
	for ; room < keeps; room++ {
		c.evict()
	}
	kept := keeps + c.admit(t, next, order[keeps:last], room-keeps)
	c.favour(next, order[keeps:last], codes, kept-keeps)
	for _, i := range order[kept:] {
		if codes[i]&Hit != 0 {
			v := nodes[i]
			c.free = append(c.free, c.entryOf[v])
			c.entryOf[v] = NoEntry
		}
	}
	for k, i := range order[:kept] {
		if codes[i]&Hit == 0 {
			s := c.take()
			c.put(nodes[i], s)
			codes[i] = Admit | s
		}
		if k >= keeps {
			c.queue(codes[i]&EntryMask, t+int(next[i]))
		}
	}
	return hits
}

// admit returns the number of candidates, soonest first, that the cache keeps: first until it is full, and
// then each candidate with a sooner next use than the entry that is evicted for it.
func (c *belady) admit(t int, next, order []uint32, room int) (kept int) {
	kept = min(room, len(order))
	for ; kept < len(order); kept++ {
		far, ok := c.farthest()
		if !ok || far <= t+int(next[order[kept]]) {
			break
		}
		c.evict()
	}
	return kept
}

// favour moves hits to the front of the candidates with the same next use as the last kept one: held rows
// have precedence.
func (c *belady) favour(next, order, codes []uint32, kept int) {
	if kept == 0 || kept == len(order) || next[order[kept]] != next[order[kept-1]] {
		return
	}
	lo, hi := kept-1, kept
	for lo > 0 && next[order[lo-1]] == next[order[kept]] {
		lo--
	}
	for hi < len(order) && next[order[hi]] == next[order[kept]] {
		hi++
	}
	run := order[lo:hi]
	c.scratch = append(c.scratch[:0], run...)
	n := 0
	for _, hit := range []bool{true, false} {
		for _, i := range c.scratch {
			if (codes[i]&Hit != 0) == hit {
				run[n] = i
				n++
			}
		}
	}
}

// closing separates the nodes that the batch uses for the last time in the cycle. The nodes in keep move to
// the front of order: the cycle must end with them. The others move to its end, since nothing uses them
// again. closing returns the number of nodes at the front, and the place in order where the nodes at the
// end begin.
func (c *belady) closing(t int, nodes, next, order []uint32) (keeps, last int) {
	last = len(order)
	for last > 0 && t+int(next[order[last-1]]) >= len(c.head) {
		last--
	}
	c.scratch = append(c.scratch[:0], order...)
	for _, i := range c.scratch[last:] {
		if c.keep.Has(nodes[i]) {
			order[keeps] = i
			keeps++
		}
	}
	n := keeps + copy(order[keeps:], c.scratch[:last])
	last = n
	for _, i := range c.scratch[n-keeps:] {
		if !c.keep.Has(nodes[i]) {
			order[n] = i
			n++
		}
	}
	return keeps, last
}

// empty makes every number of a list NoEntry.
func empty(list []uint32) {
	for i := range list {
		list[i] = NoEntry
	}
}
