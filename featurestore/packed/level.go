package packed

import (
	"context"

	"diskgnn/internal/progress"
)

// level is where rows of the batches lie: on disk, or in memory. The levels of a store are
// chosen once, when it is opened; the policy, the element type, the codec and the device
// decide which, and no code compares them later.
type level interface {
	// part takes what the level needs in a slot, and returns its part of the slot.
	part(b *batch, m *memory) part
}

// part is what a level does for the batch of one slot. Its methods are called in the
// order of their declaration, after the sink's matrix was begun. They name the batch in
// their errors.
type part interface {
	// start claims rows of the matrix and submits their reads, as far as both are known
	// without the graph.
	start() error
	// follow does so once the graph has been decoded.
	follow() error
	// wait returns when all reads have landed. After an error of an earlier level, or of
	// its own, it returns once no read can land any more. It returns err, or its own error.
	wait(ctx context.Context, err error) error
	// place checks the bytes and brings the rows to their places.
	place() error
}

// quiet is a part without reads, of a level in memory.
type quiet struct{}

func (quiet) start() error                            { return nil }
func (quiet) follow() error                           { return nil }
func (quiet) wait(_ context.Context, err error) error { return err }

// held is the level whose rows are in memory, and have to be brought there before training.
type held interface {
	level
	// bytes returns what the level takes beside the sink's table, by which it finds the rows
	// and fills it.
	bytes() int64
	open() error
	// fill makes the rows in memory those for a training that goes on with the given batch,
	// and returns the bytes read.
	fill(ctx context.Context, batch int, rep progress.Reporter) (int64, error)
	close() error
}
