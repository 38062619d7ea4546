package packed

import (
	"context"

	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
)

// gpuCache is the sink of a GPU with a table that the batches of policy min change. Assembling a batch only
// records the changes of the table; Fill submits them.
type gpuCache struct {
	*gpu
	// at maps entries of the plans to entries of the table: rows do not move when training goes around the
	// circle of sample epochs. spare is memory for the next mapping.
	at, spare []uint32
}

func (g *gpu) cache() cache { return &gpuCache{gpu: g} }

func (c *gpuCache) bytes() int64 { return 8 * c.table.ram.end }

// fill fills the table, with every row in the entry of its rank.
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

func (c *gpuCache) set(list []arrival, rows []byte) error {
	return c.device.Attached(func() error { return c.table.set(c.turns.Stream(), list, rows) })
}

func (c *gpuCache) moveHome(home []uint32) {
	for e, to := range home {
		c.spare[to] = c.at[e]
	}
	c.at, c.spare = c.spare, c.at
}
