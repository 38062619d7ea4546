package packed

import (
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/pack/packfile"
)

// PlanOptions are the limits of a layout.
type PlanOptions = featurestore.PlanOptions

// Layout is the memory of the store, and the place of each row. Ranks below CacheRows are in memory: ranks below
// GPURows on the GPU, of this process or of a consumer, the others in RAM.
type Layout struct {
	featurestore.Layout
	// Through is the last band of a chunk that is read from disk. Bands 0 to Through have the ranks from
	// CacheRows on.
	Through int
	// HeldHot and HeldEval are numbers of rows that are in RAM for evaluation batches alone: of the ranks from
	// CacheRows on, and from the beginning of eval.bin. HeldBytes is their memory.
	HeldHot, HeldEval int64

	// Peers are further devices, with a view each. If Divided is set, the hottest rows are divided among all
	// devices; otherwise each device has all of them. GPUBytes is the memory of each.
	Peers   []device.GPU
	Divided bool

	needs  packfile.Needs // of graphs
	direct bool           // reads can land in the GPU's memory
	queued *queuedReads   // the GPU submits and completes the reads of chunks; nil: the host does
}

// heldHot returns the number of hot rows in memory for evaluation batches.
func (l *Layout) heldHot() int64 { return l.CacheRows + l.HeldHot }
