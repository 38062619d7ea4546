package packed

import "context"

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

// chunkRows is a part of the cold level.
type chunkRows interface {
	part
	// packed returns the chunk's rows from the given one on in packed form, if host memory has them: all
	// rows, or the rows that the cache admits.
	packed(row int) []byte
}
