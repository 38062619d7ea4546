package drives

// none is no page and no slot.
const none = ^uint32(0)

// lru is a page cache that evicts the least recently used page. It takes 8 bytes per page of the table, for a
// linked list in arrays.
type lru struct {
	newer, older []uint32 // by page; newer of pages that are not resident is absent
	first, last  uint32   // the newest, the oldest
	n, room      int64
}

// absent marks a page that is not resident. newer of the newest page is none.
const absent = none - 1

func newLRU(pages, room int64) *lru {
	c := &lru{newer: make([]uint32, pages), older: make([]uint32, pages), first: none, last: none, room: room}
	for i := range c.newer {
		c.newer[i] = absent
	}
	return c
}

// touch makes a page the newest, and reports whether it was resident.
func (c *lru) touch(p uint32) bool {
	hit := c.newer[p] != absent
	if hit {
		if c.first == p {
			return true
		}
		c.unlink(p)
	} else {
		if c.room == 0 {
			return false
		}
		if c.n == c.room {
			old := c.last
			c.unlink(old)
			c.newer[old] = absent
			c.n--
		}
		c.n++
	}
	c.newer[p], c.older[p] = none, c.first
	if c.first != none {
		c.newer[c.first] = p
	} else {
		c.last = p
	}
	c.first = p
	return hit
}

func (c *lru) unlink(p uint32) {
	newer, older := c.newer[p], c.older[p]
	if newer != none {
		c.older[newer] = older
	} else {
		c.first = older
	}
	if older != none {
		c.newer[older] = newer
	} else {
		c.last = newer
	}
}

// ring is GIDS's cache of pages: a hand goes round the slots and evicts pages, except pages with uses in the
// window. It takes 8 bytes per page of the table.
type ring struct {
	slot   []uint32 // by page: its slot, or none
	future []uint32 // by page: its uses in the window
	page   []uint32 // by slot: its page, or none
	hand   int
}

func newRing(pages, room int64) *ring {
	r := &ring{slot: make([]uint32, pages), future: make([]uint32, pages), page: make([]uint32, min(room, pages))}
	for i := range r.slot {
		r.slot[i] = none
	}
	for i := range r.page {
		r.page[i] = none
	}
	return r
}

// touch adds a page to the cache, unless all slots have pages of the window, and reports whether it was
// there.
func (r *ring) touch(p uint32) bool {
	if r.slot[p] != none {
		return true
	}
	for range r.page {
		at := r.hand
		if r.hand++; r.hand == len(r.page) {
			r.hand = 0
		}
		old := r.page[at]
		if old != none && r.future[old] > 0 {
			continue
		}
		if old != none {
			r.slot[old] = none
		}
		r.page[at], r.slot[p] = p, uint32(at)
		break
	}
	return false
}
