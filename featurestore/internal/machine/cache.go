package machine

import (
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
)

// Frames describes the rows that a store holds. A frame holds a row in the dataset's type.
type Frames struct {
	All, Near int64          // all frames, and the first ones, on the GPU
	GPU       device.GPU     // that computes on the matrices; nil: the host
	Reads     *gpureads.Plan // for reads of training batches by GPU; nil: the host reads
	// Fixed reports whether no row enters a frame while training.
	Fixed bool
}

// Cache has the frames, for matrices of the host or of a GPU.
type Cache interface {
	// Count adds the memory of the frames and of landing batches to a layout.
	Count(l *featurestore.Layout)
	// Settle waits until batches that were given up change no frames any more.
	Settle() error
	// Fill calls put with a function that writes a row to a frame. No batch may be under way. Successive rows
	// for successive frames are fast. Rows for the GPU lie in memory of m first.
	Fill(m *Memory, put func(to FillFrame) error) error

	// open takes the memory. close releases it, also after an error.
	open(devices *gpureads.Reader) error
	close()
	// matrix takes a slot's memory for its batches' matrices, or counts it.
	matrix(m *Memory, eval bool) matrix
}

// FillFrame writes a row to a frame.
type FillFrame func(frame int32, row []byte) error

// matrix is a slot's memory for its batches' matrices.
type matrix interface {
	// open prepares the memory, after it was allocated.
	open() error
	// land begins the matrix of a batch with the decision held and into: see Decider. Both, and places,
	// belong to the matrix until the next batch. land sets places, for each miss in the order of the input
	// nodes, to its place for gpureads.Slot.Rows. near is the number of hits in the GPU's memory.
	land(held, into []int32, places []uint32) (near int)
	// device returns the slot that reads misses on the GPU; nil: the host reads them.
	device() *gpureads.Slot
	// Put takes the misses in the order of the input nodes, if the host reads them.
	Sink
	// Assemble also copies admitted rows to their frames, once the misses have landed. On a GPU, Fill does so
	// with the lists that Assemble prepares. Free releases the memory that open took.
	Matrix
}
