package gpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
)

// Backward computes the gradients of the batch in w with the features f, in a forward pass, the
// loss and a backward pass, and adds them to the sum of its step. If a step has one batch, the
// update follows in the same captured work. It returns the outcome of the batch before, nil if that
// was returned already; Finish returns the last outcome.
//
// After a batch that failed the weights are undefined: until LoadState, Backward, Apply, ApplySum,
// Finish and State return its error. A loss that is not finite is an error of kind fault.ErrInput, which comes when
// the weights are already lost.
func (e *Engine) Backward(ctx context.Context, work engine.Work, f engine.Features, at engine.Place) (o *engine.Outcome, err error) {
	defer func() {
		if err != nil {
			e.drop()
		}
	}()
	w := work.(*Work)
	if err := w.check(e.train.plan, f); err != nil {
		return nil, err
	}
	if err := errors.Join(e.broken, ctx.Err()); err != nil {
		return nil, err
	}
	if e.opts.Sums() && !e.opts.Apart && e.sum.batches == e.opts.Accumulate {
		return nil, fault.New(fault.ErrUsage, "gpu: the step already has its %d batches", e.opts.Accumulate)
	}
	err = e.device.Attached(func() error {
		now, before := &e.inputs[e.batches%2], &e.inputs[(e.batches+1)%2]
		err := e.launch(now, w, f, at)
		if err == nil {
			e.stale = true
			now.remember(w.prepared.Batch(), w.prepared.Labelled, e.adam.step)
			err = errors.Join(e.add(w.prepared.Labelled), now.computing.End(e.main))
		}
		if e.broken = err; err != nil {
			_ = e.copies.Synchronize() // the caller may free the source of a copy
			return err
		}
		e.batches++
		e.pending, now.busy = true, true
		o, err = e.tell(before)
		if err = errors.Join(err, e.wait(now.copying)); err == nil {
			err = engine.Landed(f)
		}
		e.broken = err
		return e.broken
	})
	return o, err
}

// Apply ends the step: it launches the update unless the batch's work ended with it.
func (e *Engine) Apply() error {
	if e.broken != nil {
		return e.broken
	}
	if !e.pending || e.opts.Apart {
		return fault.New(fault.ErrUsage, "gpu: no gradients to apply")
	}
	if e.opts.Sums() {
		if e.broken = e.device.Attached(e.update); e.broken != nil {
			return e.broken
		}
	}
	e.adam.step++
	e.drop()
	return nil
}

// launch enqueues the copies of a batch, its work, and the copy of its outcome.
func (e *Engine) launch(now *input, w *Work, f engine.Features, at engine.Place) error {
	adam := e.adam.next(&e.opts)
	now.put(e.opts.Seed, at, &adam)
	if err := now.copying.Begin(e.copies); err != nil {
		return err
	}
	if err := now.take(e.copies, w, f, !e.opts.NoGraphs); err != nil {
		return err
	}
	if err := errors.Join(e.copies.CopyIn(now.constants, now.given.Bytes()), now.copying.End(e.copies), e.main.Wait(now.copying.Ended()), now.awaitGather(e.main)); err != nil {
		return err
	}
	return errors.Join(now.computing.Begin(e.main), e.compute(now))
}

// compute enqueues the work on a batch and the copy of its outcome. The first batch of a bucket is
// launched kernel by kernel, so that libraries can initialise; then the work is captured.
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
	score, logits, _ := i.parts()
	return errors.Join(err, e.main.CopyOut(score, e.train.loss.score), e.main.CopyOut(logits, e.train.last().data), i.told(e.main))
}

// work launches the part that is the same for every batch.
func (e *Engine) work() error {
	n := e.train
	if err := n.forward(); err != nil {
		return err
	}
	if err := n.backward(); err != nil {
		return err
	}
	if e.opts.Sums() {
		return nil
	}
	return e.adam.update(e.main, n.in.adamStep())
}

// Finish waits for the last batch and returns its outcome, nil if that was returned.
func (e *Engine) Finish() (*engine.Outcome, error) {
	if e.broken != nil {
		return nil, e.broken
	}
	var o *engine.Outcome
	e.broken = e.device.Attached(func() (err error) {
		if o, err = e.tell(&e.inputs[(e.batches+1)%2]); err != nil {
			return err
		}
		return e.clock.set(e.main)
	})
	return o, e.broken
}

// tell waits for an input's step and returns its outcome, nil if there is none.
func (e *Engine) tell(i *input) (*engine.Outcome, error) {
	if !i.busy {
		return nil, nil
	}
	i.busy = false
	if err := e.wait(i.computing); err != nil {
		return nil, err
	}
	if err := i.wrong(); err != nil {
		return nil, fmt.Errorf("gpu: step %d: %w", i.step+1, err)
	}
	score, logits, _ := i.parts()
	o := &i.outcome
	*o = engine.Outcome{Count: i.labelled, Labels: i.labels, Targets: i.targets}
	o.Loss, o.Correct = kernels.Score(score)
	if terms := e.train.lossKind.Terms(int64(i.labelled), e.opts.Network.Classes()); terms > 0 {
		o.Loss /= float64(terms)
	}
	if err := e.times(&o.Times, i); err != nil {
		return nil, err
	}
	o.Logits = binio.View[float32](logits)[:i.seeds*e.opts.Network.Classes()]
	if math.IsNaN(o.Loss) || math.IsInf(o.Loss, 0) {
		return o, fault.New(fault.ErrInput, "gpu: step %d: the loss is %v: features are not finite, or the learning rate %v is too high",
			i.step+1, o.Loss, e.adam.rate)
	}
	return o, nil
}

// wait waits for a span's end, and adds the time to the host's waiting.
func (e *Engine) wait(s *cuda.Span) error {
	began := time.Now()
	err := s.Ended().Synchronize()
	e.waited += time.Since(began)
	return err
}

// times sets the periods in which the device worked on an input's finished step.
func (e *Engine) times(t *engine.Times, i *input) error {
	t.Waited, e.waited = e.waited, 0
	var errs [3]error
	t.Copy, errs[0] = e.clock.tell(i.copying)
	t.Gather, errs[1] = e.clock.tell(i.gathering)
	t.Compute, errs[2] = e.clock.tell(i.computing)
	return errors.Join(errs[:]...)
}

// Again trains once more on the batch of the last step, with the copy on the device, and returns
// the device's time for it, for benchmarks. There is no outcome.
func (e *Engine) Again() (took time.Duration, err error) {
	if _, err := e.Finish(); err != nil {
		return 0, err
	}
	return took, e.device.Attached(func() error {
		i := &e.inputs[(e.batches+1)%2]
		adam := e.adam.next(&e.opts)
		i.put(e.opts.Seed, engine.Place{Batch: int(e.adam.step)}, &adam)
		began, err := e.device.NewEvent()
		if err != nil {
			return err
		}
		defer began.Free()
		if err := e.main.CopyIn(i.constants, i.given.Bytes()); err != nil {
			return err
		}
		if err := errors.Join(began.Record(e.main), e.compute(i), i.computing.End(e.main), e.main.Synchronize()); err != nil {
			return err
		}
		e.adam.step++
		took, err = i.computing.Ended().Since(began)
		return err
	})
}
