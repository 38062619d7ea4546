package online

import (
	"context"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/devrows"
)

// cache is the frames and the side that computes on the matrices: the host, or a GPU. A
// frame has a row, as the dataset has it.
type cache interface {
	// count adds the memory of the frames and of landing batches to a layout.
	count(l *featurestore.Layout)
	// open takes the memory. close releases it, also after an error.
	open() error
	close()
	// matrix takes a slot's memory for its batches' matrices, or counts it.
	matrix(m *memory, eval bool) matrix
	// settle returns once batches that were given up change nothing any more.
	settle() error
	// refill reads the rows of nodes into the frames from 0 on. No batch is under way. Rows that have
	// to land elsewhere first do so in memory of m.
	refill(ctx context.Context, m *memory, r *reader, nodes []uint32) error
	// refillBytes bounds that memory.
	refillBytes() int64
}

// matrix is a slot's memory for its batches' matrices.
type matrix interface {
	// open prepares memory that was taken.
	open() error
	// land begins the matrix of a batch of which the policy said held and into, which are the
	// matrix's until the next batch; so is places. It returns the rows that the misses land
	// in, and makes places, for each miss in the order of the input nodes, its number there.
	// near is how many hits the GPU's memory has.
	land(held, into []int32, places []uint32) (rows []byte, near int)
	// device reads the misses on the GPU; nil: the host does, and they land in rows.
	device() *devrows.Slot
	// assemble completes the matrix once the misses have landed, and puts the rows of into in
	// their frames; or it notes what fill does so by.
	assemble()
	// See featurestore.Slot. The batch has so many input nodes.
	memory() []byte
	x(inputs int) []float32
	fill(inputs int, copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error)
	// free releases the memory that open took.
	free()
}
