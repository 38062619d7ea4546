package residency

import (
	"encoding/binary"

	"diskgnn/internal/binio"
)

// clock evicts the row that came in first, except rows that were used since the hand last passed: these go to
// the end of the queue. The queue is the ring of frames from the hand on. The frame of the evicted row, which
// the new row takes, becomes the end of the queue.
type clock struct {
	of   *online
	hand int32 // frame of the row that came in first, once all frames are taken
}

// used marks, for clock and sieve, a row that was used since it came in and since the hand last passed it.
const used = 1

func (c *clock) begin() {}

func (c *clock) hit(f int32) { c.of.mark[f] |= used }

func (c *clock) evict() int32 {
	for {
		f := c.hand
		if c.hand++; int(c.hand) == len(c.of.mark) {
			c.hand = 0
		}
		if c.of.mark[f]&(used|inUse) == 0 {
			c.of.leave(f)
			return f
		}
		c.of.mark[f] &^= used
	}
}

func (c *clock) insert(int32, uint32) {}

func (c *clock) save(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(c.hand))
	return c.of.saveMarks(b, used)
}

func (c *clock) load(d *binio.Decoder) {
	rows := len(c.of.nodeOf)
	hand := d.U32()
	if hand > 0 && (int64(hand) >= int64(rows) || !c.of.full()) {
		d.Fail("the hand is at frame %d of a cache with %d rows", hand, rows)
		return
	}
	c.hand = int32(hand)
	copy(c.of.mark, flags(d, rows, used))
}

func (c *clock) bytes() int64 { return 0 }
