package drives

import (
	"context"
	"slices"

	"diskgnn/dataset"
	"diskgnn/internal/fault"
	"diskgnn/presample/mbfile"
	"diskgnn/simulate/trace"
)

// Workload is a trace in memory, with the hotness of its rows.
type Workload struct {
	Nodes    int64
	RowBytes int64
	Batches  []trace.Batch
	// Hotness is by node; caches hold the hottest rows. Nil: the number of batches in the workload with the
	// node.
	Hotness []uint32
	// Files are the files of the batches' reads. LongestRead is the longest read in bytes: longer reads
	// are cut. 0: no read is cut.
	Files       []trace.File
	LongestRead int64
}

// MaxRequests bounds the requests and rows of a batch.
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

// Bytes returns the memory of the workload, in bytes.
func (w *Workload) Bytes() (n int64) {
	for i := range w.Batches {
		n += 4*int64(len(w.Batches[i].Rows)) + 24*int64(len(w.Batches[i].Reads)) + 64
	}
	return n + 4*int64(len(w.Hotness))
}

// TableBytes returns the size of the feature table.
func (w *Workload) TableBytes() int64 { return w.Nodes * w.RowBytes }

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

// Samples returns the header of a trace made from samples and their dataset. If the samples were drawn
// from another dataset, the error is of kind fault.ErrLineage.
func Samples(d *dataset.Dataset, s *mbfile.Reader) (trace.Header, error) {
	if err := s.CheckDataset(d.Dir(), d.Fingerprint()); err != nil {
		return trace.Header{}, err
	}
	return trace.Header{
		Source: "samples",
		Nodes:  d.Facts().Nodes, RowBytes: int64(d.RowBytes()),
		Dataset: d.Fingerprint(), Samples: s.Fingerprint(),
	}, nil
}

// Each calls f with the first n training batches of samples, at most the first sample epoch, as batches of
// rows without times. f must not keep the batch.
func Each(ctx context.Context, s *mbfile.Reader, n int, f func(*trace.Batch) error) error {
	var b trace.Batch
	var buf []byte
	for i := range min(n, s.Facts().BatchesPerEpoch) {
		nodes, grown, err := s.Inputs(ctx, i, buf)
		if err != nil {
			return err
		}
		buf = grown
		b.Rows = append(b.Rows[:0], nodes...)
		if err := f(&b); err != nil {
			return err
		}
	}
	return nil
}
