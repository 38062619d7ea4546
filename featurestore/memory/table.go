package memory

import (
	"context"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/progress"
)

// table has all rows, for matrices of the host or of a GPU.
type table interface {
	// count adds the memory of the table to a layout.
	count(l *featurestore.Layout)
	// open allocates the memory. close releases it, also after an error of open.
	open() error
	close()
	// fill reads all rows, checked, and returns the bytes read.
	fill(ctx context.Context, r *tableReader, ranks []uint32, rep progress.Reporter) (int64, error)
	// matrix returns a slot's memory for matrices.
	matrix(eval bool) (machine.Entries, error)
	// name sets list to the entries of the input nodes, which it replaces in input by their ranks. It returns the
	// number of their rows in the GPU's memory.
	name(list, input, ranks []uint32) (near int)
}
