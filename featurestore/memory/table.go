package memory

import (
	"context"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/progress"
)

// table has all rows, for matrices of the host or of a GPU.
type table interface {
	// count adds the memory of the table and its slots to a layout, without ranks and graphs.
	count(l *featurestore.Layout)
	// open allocates the memory. close releases it, also after an error of open.
	open() error
	close()
	// fill reads all rows, checked, and returns the bytes read.
	fill(ctx context.Context, r *tableReader, ranks []uint32, rep progress.Reporter) (int64, error)
	// matrix returns a slot's memory for matrices. After an error it is freed.
	matrix(eval bool) (matrix, error)
}

// matrix is a slot's memory for the matrices of its batches.
type matrix interface {
	// name copies the input nodes, and replaces them in input by their ranks. It returns the number of their
	// rows in the GPU's memory.
	name(input, ranks []uint32) (near int)
	machine.Matrix
}
