package gpu

import (
	"context"
	"errors"

	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
)

// drop discards the step under way.
func (e *Engine) drop() { e.sum.labelled, e.sum.batches, e.pending = 0, 0, false }

// add enqueues the addition of the launched batch to its step.
func (e *Engine) add(labelled int) error {
	s, n := &e.sum, e.train
	if !e.opts.Sums() || e.opts.Apart {
		return nil
	}
	n.failed = nil
	if s.batches == 0 {
		n.try(e.main.Copy(s.gradients, e.adam.grads))
	} else {
		n.combine(n.layout.Trained, 1, e.adam.grads, 1, s.gradients)
	}
	n.eachBatchNorm(func(o *norm, mean, variance int) {
		n.try(e.main.Copy(part(s.of(s.first+s.batches), mean, mean+o.width), o.mean))
		n.try(e.main.Copy(part(s.of(s.first+s.batches), variance, variance+o.width), o.variance))
	})
	s.labelled += int64(labelled)
	s.batches++
	return n.failed
}

// update enqueues the step along the sum, and updates running statistics batch by batch.
func (e *Engine) update() error {
	s, n := &e.sum, e.train
	adam, given := e.adam.next(&e.opts), make([]float32, kernels.AdamStepBytes/4)
	adam.Put(given)
	n.failed = nil
	n.try(e.main.CopyIn(s.constants, binio.Bytes(given)))
	n.combine(n.layout.Trained, engine.Inverse(n.lossKind.Terms(s.labelled, n.model.Classes())), s.gradients, 0, e.adam.grads)
	n.try(e.adam.update(e.main, s.constants))
	for b := range s.batches {
		n.eachBatchNorm(func(o *norm, mean, variance int) {
			o.track(part(s.of(b), mean, mean+o.width), part(s.of(b), variance, variance+o.width))
		})
	}
	return n.failed
}

// Contribution implements engine.Engine. It waits for the batch.
func (e *Engine) Contribution(dst []float32) error {
	l := &e.adam.layout
	if len(dst) != l.Count() {
		return fault.New(fault.ErrInput, "gpu: a contribution of %d elements for %d parameters", len(dst), l.Count())
	}
	return e.device.Attached(func() error {
		n := e.train
		n.failed = nil
		n.try(e.main.CopyOut(binio.Bytes(dst[:l.Trained]), e.adam.grads))
		n.eachBatchNorm(func(o *norm, mean, variance int) {
			n.try(e.main.CopyOut(binio.Bytes(dst[l.Trained+mean:][:o.width]), o.mean))
			n.try(e.main.CopyOut(binio.Bytes(dst[l.Trained+variance:][:o.width]), o.variance))
		})
		return errors.Join(n.failed, e.main.Synchronize())
	})
}

// ApplySum implements engine.Engine.
func (e *Engine) ApplySum(whole *engine.Sum) error {
	s, l := &e.sum, &e.adam.layout
	if len(whole.Gradients) != l.Trained || len(whole.Statistics) != whole.Batches*s.each || whole.Batches > max(1, e.opts.Accumulate) {
		return fault.New(fault.ErrInput, "gpu: a sum of %d gradients and %d statistics of %d batches does not fit the model", len(whole.Gradients), len(whole.Statistics), whole.Batches)
	}
	if e.broken != nil {
		return e.broken
	}
	e.broken = e.device.Attached(func() error {
		if err := e.main.CopyIn(s.gradients, binio.Bytes(whole.Gradients)); err != nil {
			return err
		}
		if len(whole.Statistics) > 0 {
			if err := e.main.CopyIn(part(s.statistics, 0, len(whole.Statistics)), binio.Bytes(whole.Statistics)); err != nil {
				return err
			}
		}
		s.labelled, s.batches, e.stale = whole.Labelled, whole.Batches, true
		return e.update()
	})
	if e.broken == nil {
		e.adam.step++
	}
	e.drop()
	return e.broken
}

var _ engine.Sharing = (*Engine)(nil)

// Share implements engine.Sharing.
func (e *Engine) Share(first int) error {
	if !e.opts.Sums() || e.opts.Apart || first < 0 || first >= e.opts.Accumulate {
		return fault.New(fault.ErrUsage, "gpu: a share of a step of %d batches cannot begin at batch %d", e.opts.Accumulate, first)
	}
	e.sum.first = first
	return nil
}

// Reduce implements engine.Sharing. It does not wait: if an engine is missing, the device's work
// does not end until the reducer gives up.
func (e *Engine) Reduce(ctx context.Context, r engine.Reducer, labelled int64, batches int) error {
	s := &e.sum
	if e.broken != nil {
		return e.broken
	}
	if batches < 1 || batches > e.opts.Accumulate || s.batches > batches {
		return fault.New(fault.ErrUsage, "gpu: a step of %d batches, but this engine has added %d", batches, s.batches)
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
