package gpu

import (
	"context"
	"errors"
	"math"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

// Backward computes the gradients of the batch that w holds, whose features are f: forward,
// loss, backward. Unless the config keeps it apart, the update follows in the same captured
// step.
//
// After a step that failed the weights are undefined: until LoadState, Backward, Finish and
// State return its error.
func (e *Engine) Backward(ctx context.Context, work engine.Work, f engine.Features) error {
	w := work.(*Work)
	if err := w.check(e.train, f); err != nil {
		return err
	}
	if err := errors.Join(e.broken, ctx.Err()); err != nil {
		return err
	}
	return e.device.Attached(func() error {
		now := &e.inputs[e.adam.step%2]
		if e.broken = e.launch(now, w, f); e.broken != nil {
			_ = e.copies.Synchronize() // what is copied may go away now
			return e.broken
		}
		e.stale = true
		now.remember(w.prepared.Batch(), w.prepared.Labelled, e.adam.step)
		e.pending, now.features = now, f
		return nil
	})
}

// Apply ends the step: where the update was kept apart, it launches it. It returns what
// the step before it found, nil where that was returned already; Finish has the last one's.
//
// A loss that is not finite is an error of kind fault.ErrInput. It comes after the
// weights are lost.
func (e *Engine) Apply() (*engine.Outcome, error) {
	now := e.pending
	if now == nil {
		return nil, fault.New(fault.ErrUsage, "gpu: there are no gradients to apply")
	}
	e.pending = nil
	detach, err := e.device.Attach()
	if err != nil {
		return nil, err
	}
	defer detach()
	if e.opts.Apart {
		err = e.adam.update(e.main, now.adamStep())
	}
	if e.broken = errors.Join(err, now.computing.End(e.main)); e.broken != nil {
		_ = e.copies.Synchronize() // what is copied may go away now
		return nil, e.broken
	}
	before := &e.inputs[(e.adam.step+1)%2]
	e.adam.step++
	now.busy = true
	o, err := e.tell(before)
	if err = errors.Join(err, e.wait(now.copying)); err == nil {
		err = engine.Landed(now.features)
	}
	e.broken, now.features = err, nil
	return o, e.broken
}

// launch enqueues the copies of a step, its work, and the copy of what it finds.
func (e *Engine) launch(now *input, w *Work, f engine.Features) error {
	adam := e.adam.next(&e.opts)
	now.put(e.opts.Seed, e.adam.step, &adam)
	if err := now.copying.Begin(e.copies); err != nil {
		return err
	}
	if err := now.take(e.copies, w, f); err != nil {
		return err
	}
	if err := errors.Join(e.copies.CopyIn(now.constants, now.given.Bytes()), now.copying.End(e.copies), now.await(e.main)); err != nil {
		return err
	}
	return errors.Join(now.computing.Begin(e.main), e.compute(now))
}

// compute enqueues a step and the copy of what it finds. The first step of a bucket is
// launched kernel by kernel, as libraries may have to prepare themselves; then it is captured.
func (e *Engine) compute(i *input) error {
	e.train.compute(i)
	var err error
	switch b := i.now; {
	case b.graph == nil && b.warm && !e.opts.NoGraphs:
		if b.graph, err = e.main.Capture("training step", e.work); err == nil {
			err = b.graph.Launch(e.main)
		}
	case b.graph != nil:
		err = b.graph.Launch(e.main)
	default:
		b.warm = true
		err = e.work()
	}
	results := i.results.Bytes()
	return errors.Join(err, e.main.CopyOut(results[:kernels.ScoreBytes], e.train.loss.score),
		e.main.CopyOut(results[kernels.ScoreBytes:], e.train.last().data))
}

// work launches all of a step that is the same for every batch.
func (e *Engine) work() error {
	n := e.train
	if err := n.forward(); err != nil {
		return err
	}
	if err := n.backward(); err != nil {
		return err
	}
	if e.opts.Apart {
		return nil
	}
	return e.adam.update(e.main, n.in.adamStep())
}

// Finish waits for the last step and returns what it found, nil if that was returned.
func (e *Engine) Finish() (*engine.Outcome, error) {
	if e.broken != nil {
		return nil, e.broken
	}
	var o *engine.Outcome
	err := e.device.Attached(func() (err error) {
		if o, err = e.tell(&e.inputs[(e.adam.step+1)%2]); err != nil {
			return err
		}
		return e.clock.set(e.main)
	})
	return o, err
}

// tell waits for an input's step and returns what it found, nil if there is none.
func (e *Engine) tell(i *input) (*engine.Outcome, error) {
	if !i.busy {
		return nil, nil
	}
	i.busy = false
	if err := e.wait(i.computing); err != nil {
		return nil, err
	}
	results, terms := i.results.Bytes(), i.labelled
	o := &i.outcome
	*o = engine.Outcome{Count: i.labelled, Labels: i.labels, Targets: i.targets}
	o.Loss, o.Correct = kernels.Score(results[:kernels.ScoreBytes])
	if e.train.loss.kind == model.Binary {
		terms *= e.opts.Network.Classes()
	}
	if terms > 0 {
		o.Loss /= float64(terms)
	}
	if err := e.times(&o.Times, i); err != nil {
		return nil, err
	}
	o.Logits = binio.View[float32](results[kernels.ScoreBytes:])[:i.seeds*e.opts.Network.Classes()]
	if math.IsNaN(o.Loss) || math.IsInf(o.Loss, 0) {
		return o, fault.New(fault.ErrInput, "gpu: step %d: the loss is %v: features that are not finite, or a learning rate (%v) that is too high",
			i.step+1, o.Loss, e.adam.rate)
	}
	return o, nil
}

// wait waits for a span's end, and counts the time.
func (e *Engine) wait(s *cuda.Span) error {
	began := time.Now()
	err := s.Ended().Synchronize()
	e.waited += time.Since(began)
	return err
}

// times says when the device worked on an input's step, which is done.
func (e *Engine) times(t *engine.Times, i *input) error {
	t.Waited, e.waited = e.waited, 0
	var errs [3]error
	t.Copy, errs[0] = e.clock.tell(i.copying)
	t.Gather, errs[1] = e.clock.tell(i.gathering)
	t.Compute, errs[2] = e.clock.tell(i.computing)
	return errors.Join(errs[:]...)
}
