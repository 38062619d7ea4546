package hyperion

import (
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/devrows"
	"diskgnn/featurestore/internal/machine"
)

// own has the further parameters of a layout for Open.
type own struct {
	near, rows int64         // frames on the GPU; all frames
	requests   int           // requests in flight of a slot, if the host reads
	reads      *devrows.Plan // for reads of training batches by the GPU; nil: the host reads

	// For a source that can hold lists of neighbours: room is the RAM for lists, in bytes, and if shared
	// is set, for the rows in RAM too; ofLists is the memory of the chosen lists, in bytes.
	room    int64
	shared  bool
	ofLists int64
}

// side is the host or the GPU that assembles matrices, with the held rows in frames.
type side interface {
	// count adds the memory of the side and its slots to a layout.
	count(l *featurestore.Layout)
	// open takes the memory. close releases it, also after an error.
	open() error
	close()
	// filling returns a filling, during which no batch may use the side. Call its end also after an error.
	filling() (filling, error)
	// matrix returns a slot's memory for matrices. After an error it is freed.
	matrix(eval bool) (matrix, error)
}

// filling writes rows to their frames.
type filling interface {
	put(frame int32, row []byte) error
	// end returns when all rows are in their frames.
	end() error
}

// matrix is a slot's memory for its batches' matrices.
type matrix interface {
	// begin takes the frame of every input node, or residency.Absent, and the places of the missed rows in
	// the matrix. Both lists belong to the slot, and do not change until the next call. It returns the
	// number of rows in the GPU's memory.
	begin(held, places []int32) (near int)
	// device returns the slot that reads missed rows on the GPU; nil: put takes them.
	device() *devrows.Slot
	// put takes the k-th missed row.
	put(k int, row []byte) error
	machine.Matrix
}
