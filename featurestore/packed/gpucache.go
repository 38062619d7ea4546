package packed

import (
	"context"

	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
)

// gpuCache is the sink of a GPU whose table the batches of policy min change. Assembling a
// batch only notes what happens to the table; Fill submits it.
type gpuCache struct {
	*gpu
	// at is, by the entry of the plans, the entry of the table: rows stay where they are when
	// training goes around the circle of sample epochs. spare has room for the next.
	at, spare []uint32
}

func (g *gpu) cache() cache { return &gpuCache{gpu: g} }

func (c *gpuCache) bytes() int64 { return 8 * c.table.ram.end }

// fill puts the row of every entry where it belongs.
func (c *gpuCache) fill(ctx context.Context, rep progress.Reporter) (int64, error) {
	c.at, c.spare = binio.Grow(c.at, int(c.table.ram.end)), binio.Grow(c.spare, int(c.table.ram.end))
	for e := range c.at {
		c.at[e] = uint32(e)
	}
	return c.gpu.fill(ctx, rep)
}

func (c *gpuCache) lie(entries []uint32) {
	for i, e := range entries {
		entries[i] = c.at[e]
	}
}

func (c *gpuCache) admit(b *batch, from int, _ []byte, entries []uint32) {
	m := b.matrix.(*gpuMatrix)
	copy(m.ids.Uint32s()[b.RAMRows:], entries)
	m.admitted = stretch{to: from, from: from, rows: len(entries)} // chunks are first in the matrix, and sent first
}

func (c *gpuCache) set(list []arrival, rows []byte) error {
	return c.device.Attached(func() error { return c.table.set(c.turns.Stream(), list, rows) })
}

func (c *gpuCache) moveHome(home []uint32) {
	for e, to := range home {
		c.spare[to] = c.at[e]
	}
	c.at, c.spare = c.spare, c.at
}
