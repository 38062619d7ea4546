package gpu

import (
	"context"
	"errors"

	"diskgnn/internal/fault"
	"diskgnn/train/engine"
)

var _ engine.Sharing = (*Engine)(nil)

// Share implements engine.Sharing.
func (e *Engine) Share(first int) error {
	if !e.opts.Sums() || e.opts.Apart || first < 0 || first >= e.opts.Accumulate {
		return fault.New(fault.ErrUsage, "gpu: batches of a step of %d from %d on", e.opts.Accumulate, first)
	}
	e.sum.first = first
	return nil
}

// Reduce implements engine.Sharing. Nothing is waited for: when an engine is missing, the
// device's work does not end until the reducer gives up.
func (e *Engine) Reduce(ctx context.Context, r engine.Reducer, labelled int64, batches int) error {
	s := &e.sum
	if e.broken != nil {
		return e.broken
	}
	if batches < 1 || batches > e.opts.Accumulate || s.batches > batches {
		return fault.New(fault.ErrUsage, "gpu: a step of %d batches, of which this engine has %d", batches, s.batches)
	}
	e.broken = e.device.Attached(func() error {
		var errs []error
		if s.batches == 0 {
			errs = append(errs, e.main.Fill(s.gradients, 0))
		}
		if s.each > 0 { // of other engines' batches there are zeros, which add nothing
			errs = append(errs, e.main.Fill(part(s.statistics, 0, s.first*s.each), 0),
				e.main.Fill(after(s.statistics, (s.first+s.batches)*s.each), 0))
		}
		errs = append(errs, r.AllReduce(ctx, e.main, s.gradients))
		if s.each > 0 {
			errs = append(errs, r.AllReduce(ctx, e.main, s.statistics))
		}
		return errors.Join(errs...)
	})
	if e.broken == nil {
		s.labelled, s.batches, e.pending, e.stale = labelled, batches, true, true
	}
	return e.broken
}
