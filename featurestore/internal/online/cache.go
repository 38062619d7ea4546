package online

import (
	"context"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/devrows"
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
	// assemble completes the matrix once the misses have landed, and copies admitted rows to their frames.
	// On a GPU it prepares the lists with which fill does so.
	assemble()
	// See featurestore.Slot. inputs is the number of input nodes of the batch.
	memory() []byte
	x(inputs int) []float32
	fill(inputs int, copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error)
	// free releases the memory that open took.
	free()
}
