package packed

import (
	"context"

	"diskgnn/internal/progress"
)

// level is one origin of the rows of batches, on disk or in memory. The levels of a store are chosen once,
// when it is opened, by policy, element type, codec and device.
type level interface {
	// part allocates the level's memory in a slot, and returns the level's part of the slot.
	part(b *batch, m *memory) part
}

// held is a level with rows in memory, which are read before training.
type held interface {
	level
	// bytes returns the memory of the level in addition to the sink's table, in bytes.
	bytes() int64
	open() error
	// fill reads the rows for a training that continues with the given batch into memory, and returns the
	// bytes read.
	fill(ctx context.Context, batch int, rep progress.Reporter) (int64, error)
	close() error
}
