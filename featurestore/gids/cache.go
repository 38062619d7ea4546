package gids

import (
	"encoding/binary"

	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/binio"
)

// absent is the line of a page that the cache does not hold.
const absent = int32(-1)

// cache decides which pages of the feature file are in lines. It does not hold the content of pages. It
// belongs to one goroutine at a time.
type cache struct {
	lineOf []int32  // by page
	ahead  []uint32 // by page: its accesses by the batches of the window
	pageOf []uint32 // by taken line; the capacity is the number of lines
	used   []int64  // by line: the last batch that used it
	hand   int      // the next line to examine, once all lines are taken
	batch  int64    // batches decided
	looked int      // lines that the hand has skipped for the present batch
}

// recordBytes is the size of BaM's record of one page of the file: its state and its line.
const recordBytes = 32

// pageBytes is the size of the cache's entry for one page: its line, and its accesses in the window.
const pageBytes = 4 + 4

func newCache(pages, lines int, mem *machine.Memory) *cache {
	c := &cache{lineOf: machine.Numbers[int32](mem, pages), ahead: machine.Numbers[uint32](mem, pages), pageOf: machine.Numbers[uint32](mem, lines)[:0], used: machine.Numbers[int64](mem, lines)}
	c.clear()
	return c
}

// clear empties the lines and the window.
func (c *cache) clear() {
	for p := range c.lineOf {
		c.lineOf[p] = absent
	}
	clear(c.ahead)
	c.pageOf, c.hand, c.batch = c.pageOf[:0], 0, 0
}

// decide finds the lines of the distinct pages of the next batch. On a hit, held[j] becomes the line that
// holds pages[j]. On a miss, held[j] becomes absent, and into[j] the line that takes the page, or absent
// if the page passes by. A line keeps its page if this batch or one of the `before` batches before it uses
// the line, or if a batch in the window uses the page.
func (c *cache) decide(pages []uint32, held, into []int32, before int64) {
	c.batch++
	c.looked = 0
	for j, p := range pages {
		held[j], into[j] = absent, absent
		if len(c.lineOf) == 0 { // a cache without lines
			continue
		}
		if held[j] = c.lineOf[p]; held[j] != absent {
			c.used[held[j]] = c.batch
		}
	}
	for j, p := range pages {
		if held[j] != absent {
			continue
		}
		f := c.take(before)
		if f == absent {
			return
		}
		into[j] = f
		c.pageOf[f], c.lineOf[p], c.used[f] = p, f, c.batch
	}
}

// take frees a line for another page and returns it, or returns absent. A line that the hand skips stays
// unavailable for the whole batch, so the hand makes at most one turn for each batch. If it finds no line,
// it returns to its old position.
func (c *cache) take(before int64) int32 {
	if n := len(c.pageOf); n < cap(c.pageOf) {
		c.pageOf = c.pageOf[:n+1]
		return int32(n)
	}
	stood := c.hand
	for ; c.looked < len(c.pageOf); c.looked++ {
		f := c.hand
		if c.hand++; c.hand == len(c.pageOf) {
			c.hand = 0
		}
		if p := c.pageOf[f]; c.used[f] < c.batch-before && c.ahead[p] == 0 {
			c.lineOf[p] = absent
			return int32(f)
		}
	}
	c.hand = stood
	return absent
}

// ageMost is the greatest age of a line in a state, above any number of batches in flight.
const ageMost = 255

// save appends the state: the number of taken lines and the hand, 4 bytes each; then for each line its
// page, 4 bytes, and the number of batches since its last use, 1 byte, 255 at most.
func (c *cache) save(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.pageOf)))
	b = binary.LittleEndian.AppendUint32(b, uint32(c.hand))
	for f, p := range c.pageOf {
		b = binary.LittleEndian.AppendUint32(b, p)
		b = append(b, byte(min(c.batch-c.used[f], ageMost)))
	}
	return b
}

// load reads the result of save. It clears the window. Errors are in d.
func (c *cache) load(d *binio.Decoder) {
	c.clear()
	n, hand := d.Count(5), d.U32()
	if d.Err() == nil && (n > cap(c.pageOf) || int64(hand) > int64(max(0, n-1)) || hand > 0 && n < cap(c.pageOf)) {
		d.Fail("%d of %d lines hold pages, with the hand at line %d", n, cap(c.pageOf), hand)
	}
	c.batch = ageMost
	for f := range n {
		p, age := d.U32(), d.U8()
		switch {
		case d.Err() != nil:
			return
		case int64(p) >= int64(len(c.lineOf)):
			d.Fail("a line holds page %d, but the features have %d pages", p, len(c.lineOf))
			return
		case c.lineOf[p] != absent:
			d.Fail("two lines hold page %d", p)
			return
		}
		c.pageOf = append(c.pageOf, p)
		c.lineOf[p], c.used[f] = int32(f), c.batch-int64(age)
	}
	c.hand = int(hand)
}
