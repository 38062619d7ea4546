package drives

import (
	"context"

	"diskgnn/dataset"
	"diskgnn/internal/stage"
	"diskgnn/presample/mbfile"
	"diskgnn/simulate/trace"
)

// Samples returns the header of a trace of samples and the dataset that they were drawn
// from. Samples of another dataset are an error of kind fault.ErrLineage.
func Samples(d *dataset.Dataset, s *mbfile.Reader) (trace.Header, error) {
	if err := stage.CheckParent(s.Dir(), s.Meta(), stage.RoleDataset, d.Dir(), d.Fingerprint()); err != nil {
		return trace.Header{}, err
	}
	return trace.Header{
		Source: "samples",
		Nodes:  d.Facts().Nodes, RowBytes: int64(d.RowBytes()),
		Dataset: d.Fingerprint(), Samples: s.Fingerprint(),
	}, nil
}

// Each calls f with the first training batches of samples, at most n of the first sample
// epoch, as batches of rows that take no time. f must not keep the batch.
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
