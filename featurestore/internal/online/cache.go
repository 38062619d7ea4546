package online

import (
	"context"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/devrows"
	"diskgnn/featurestore/internal/machine"
)

// cache has the frames, for matrices of the host or of a GPU. A frame holds a row in the dataset's type.
type cache interface {
	// count adds the memory of the frames and of landing batches to a layout.
	count(l *featurestore.Layout)
	// open takes the memory. close releases it, also after an error.
	open() error
	close()
	// matrix takes a slot's memory for its batches' matrices, or counts it.
	matrix(m *memory, eval bool) matrix
	// settle waits until batches that were given up change no frames any more.
	settle() error
	// refill reads the rows of nodes into the frames from 0 on. No batch may be under way. Rows for the
	// GPU land in memory of m first.
	refill(ctx context.Context, m *memory, r *reader, nodes []uint32) error
	// refillBytes bounds the memory that refill takes of m, in bytes.
	refillBytes() int64
}

// matrix is a slot's memory for its batches' matrices.
type matrix interface {
	// open prepares the memory, after it was allocated.
	open() error
	// land begins the matrix of a batch with the policy's decision held and into. Both, and places, belong
	// to the matrix until the next batch. land returns the memory that misses land in, and sets places, for
	// each miss in the order of the input nodes, to its row in that memory. near is the number of hits in the
	// GPU's memory.
	land(held, into []int32, places []uint32) (rows []byte, near int)
	// device returns the slot that reads misses on the GPU; nil: the host reads them, and they land in rows.
	device() *devrows.Slot
	// Assemble also copies admitted rows to their frames, once the misses have landed. On a GPU, Fill does so
	// with the lists that Assemble prepares. Free releases the memory that open took.
	machine.Matrix
}
