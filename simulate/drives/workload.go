package drives

import (
	"slices"

	"diskgnn/internal/fault"
	"diskgnn/simulate/trace"
)

// Workload is a trace in memory, and how hot its rows are.
type Workload struct {
	Nodes    int64
	RowBytes int64
	Batches  []trace.Batch
	// Hotness of every node: by it caches choose their rows. Nil: how many of the batches
	// have it.
	Hotness []uint32
	// Files are those that reads of the batches are of, and LongestRead bounds the bytes of
	// one: longer ones are cut; 0: none is.
	Files       []trace.File
	LongestRead int64
}

// MaxRequests bounds the requests and rows of a workload: minutes of simulation.
const MaxRequests = 1 << 30

// Add appends a copy of a batch.
func (w *Workload) Add(b *trace.Batch) error {
	c := *b
	c.Reads, c.Rows = slices.Clone(b.Reads), slices.Clone(b.Rows)
	n := int64(len(c.Rows))
	for _, r := range c.Reads {
		if n++; w.LongestRead > 0 {
			n += r.Bytes / w.LongestRead
		}
	}
	if n > MaxRequests {
		return fault.New(fault.ErrInput, "batch %d has %d requests; at most %d can be simulated", len(w.Batches), n, MaxRequests)
	}
	w.Batches = append(w.Batches, c)
	return nil
}

// Bytes returns what the workload holds.
func (w *Workload) Bytes() (n int64) {
	for i := range w.Batches {
		n += 4*int64(len(w.Batches[i].Rows)) + 24*int64(len(w.Batches[i].Reads)) + 64
	}
	return n + 4*int64(len(w.Hotness))
}

// TableBytes returns the size of the feature table.
func (w *Workload) TableBytes() int64 { return w.Nodes * w.RowBytes }

// hotness returns how hot every node is.
func (w *Workload) hotness() []uint32 {
	if w.Hotness != nil {
		return w.Hotness
	}
	h := make([]uint32, w.Nodes)
	for i := range w.Batches {
		for _, v := range w.Batches[i].Rows {
			h[v]++
		}
	}
	return h
}
