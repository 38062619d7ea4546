package pack

import "math"

// What becomes of an access, in the two upper bits of its code; the lower ones are
// the slot.
const (
	codePass  = 0 << 30 // a miss that passes by the cache; no slot
	codeAdmit = 1 << 30 // a miss that the slot takes once the batch has used it
	codeHit   = 2 << 30 // the slot holds it
	codeSlot  = 1<<30 - 1

	// mostMinRows bounds the slots that a code can name.
	mostMinRows = codeSlot
	noSlot      = math.MaxUint32
)

// minCache is a cache under Belady's MIN with bypass. After every batch it keeps, of
// its rows and the batch's, those with the nearest next uses; rows that are equally
// near stay rather than come, then lower nodes come. For a trace and initial content
// that are given, no policy has more hits (property tests compare with all).
//
// Rows that the batches to come may push out wait in a list per batch of next use, so
// that the row with the farthest is found at once. Time runs through one cycle of
// batches, from 0; a next use may lie in the cycle after.
type minCache struct {
	slotOf []uint32 // by node
	nodeOf []uint32 // by slot
	link   []uint32 // by slot: another one whose next use is in the same batch
	head   []uint32 // by batch of the circle: a slot with its next use there
	free   []uint32 // empty slots
	far    int      // no row that may be pushed out has a later next use
	queued int      // their number

	// keep, in a cycle that must end with what it began with, is that set. Rows of it
	// are not pushed out before their first use, nor after their last.
	keep *bitset

	scratch []uint32
}

func newMinCache(slotOf []uint32, batches, rows int) *minCache {
	c := &minCache{slotOf: slotOf, nodeOf: make([]uint32, rows), link: make([]uint32, rows), head: make([]uint32, batches), free: make([]uint32, rows), far: -1}
	fill(c.slotOf, noSlot)
	fill(c.head, noSlot)
	for i := range c.free {
		c.free[i] = uint32(rows - 1 - i)
	}
	return c
}

func fill(list []uint32, v uint32) {
	for i := range list {
		list[i] = v
	}
}

// put gives a node a slot.
func (c *minCache) put(v, slot uint32) { c.slotOf[v], c.nodeOf[slot] = slot, v }

// take returns an empty slot.
func (c *minCache) take() uint32 {
	slot := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	return slot
}

// move gives every node of a full cache, all of whose rows may be pushed out, the slot
// slot(v).
func (c *minCache) move(slot func(v uint32) uint32) {
	link := c.free[:len(c.link)] // a full cache has no use for it
	for b, s := range c.head {
		c.head[b] = noSlot
		for s != noSlot {
			v, next := c.nodeOf[s], c.link[s]
			to := slot(v)
			c.slotOf[v] = to
			link[to], c.head[b] = c.head[b], to
			s = next
		}
	}
	c.link, c.free = link, c.link[:0]
	for v, s := range c.slotOf {
		if s != noSlot {
			c.nodeOf[s] = uint32(v)
		}
	}
}

// hold makes the cycle to come end with the set, which the cache now has.
func (c *minCache) hold(set *bitset) {
	c.keep = set
	fill(c.head, noSlot)
	c.far, c.queued = -1, 0
}

// queue lets a row with the given next use be pushed out.
func (c *minCache) queue(slot uint32, use int) {
	b := use % len(c.head)
	c.link[slot], c.head[b] = c.head[b], slot
	c.far = max(c.far, use)
	c.queued++
}

// farthest returns the latest next use of the rows that may be pushed out.
func (c *minCache) farthest() (use int, ok bool) {
	if c.queued == 0 {
		return 0, false
	}
	for c.head[c.far%len(c.head)] == noSlot {
		c.far--
	}
	return c.far, true
}

// evict pushes out the row with the farthest next use; there must be one.
func (c *minCache) evict() {
	use, _ := c.farthest()
	b := use % len(c.head)
	s := c.head[b]
	c.head[b] = c.link[s]
	c.queued--
	c.slotOf[c.nodeOf[s]] = noSlot
	c.free = append(c.free, s)
}

// step serves batch t: its nodes ascend, next are the batches from here to each one's
// next use, and order lists the nodes' places by ascending next use, then node. It
// fills codes, and returns the number of hits. order is changed.
func (c *minCache) step(t int, nodes, next, order, codes []uint32) (hits int) {
	// All that is queued for this batch is used by it.
	for s := c.head[t]; s != noSlot; s = c.link[s] {
		c.queued--
	}
	c.head[t] = noSlot
	for i, v := range nodes {
		codes[i] = codePass
		if s := c.slotOf[v]; s != noSlot {
			codes[i] = codeHit | s
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
		if codes[i]&codeHit != 0 {
			v := nodes[i]
			c.free = append(c.free, c.slotOf[v])
			c.slotOf[v] = noSlot
		}
	}
	for k, i := range order[:kept] {
		if codes[i]&codeHit == 0 {
			s := c.take()
			c.put(nodes[i], s)
			codes[i] = codeAdmit | s
		}
		if k >= keeps {
			c.queue(codes[i]&codeSlot, t+int(next[i]))
		}
	}
	return hits
}

// admit returns how many candidates, soonest first, the cache keeps: as many as there
// is room for, and then those that are nearer than the row which they push out.
func (c *minCache) admit(t int, next, order []uint32, room int) (kept int) {
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

// favour moves hits to the front of the run of equally near candidates that the end
// of the kept ones cuts: what is there stays.
func (c *minCache) favour(next, order, codes []uint32, kept int) {
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
			if (codes[i]&codeHit != 0) == hit {
				run[n] = i
				n++
			}
		}
	}
}

// closing moves to the front of order the nodes to be kept that have their last use of
// the cycle, and to its end the others that have: no use of theirs is left to keep them
// for. It returns the number of the former, and where the latter begin.
func (c *minCache) closing(t int, nodes, next, order []uint32) (keeps, last int) {
	last = len(order)
	for last > 0 && t+int(next[order[last-1]]) >= len(c.head) {
		last--
	}
	c.scratch = append(c.scratch[:0], order...)
	for _, i := range c.scratch[last:] {
		if c.keep.has(nodes[i]) {
			order[keeps] = i
			keeps++
		}
	}
	n := keeps + copy(order[keeps:], c.scratch[:last])
	last = n
	for _, i := range c.scratch[n-keeps:] {
		if !c.keep.has(nodes[i]) {
			order[n] = i
			n++
		}
	}
	return keeps, last
}
