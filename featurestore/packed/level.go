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

// part is a level's part of one slot. Its methods are called in the order of their declaration, after the
// sink's matrix was begun. Their errors have the name of the batch.
type part interface {
	// start claims rows of the matrix and submits their reads, if both are known without the graph.
	start() error
	// follow does the same for rows that depend on the graph, after the graph has been decoded.
	follow() error
	// wait returns when all reads have landed. err is the error of an earlier level. After that error, or one
	// of its own, it returns as soon as no read can land any more. It returns err, or its own error.
	wait(ctx context.Context, err error) error
	// place checks the bytes and puts the rows into their places.
	place() error
}

// quiet is the part of a level without reads.
type quiet struct{}

func (quiet) start() error                            { return nil }
func (quiet) follow() error                           { return nil }
func (quiet) wait(_ context.Context, err error) error { return err }

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
