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
	"diskgnn/train/model"
)

// Outcome is what a training step found before it changed the weights. Its slices are
// the engine's, valid until the next step.
type Outcome struct {
	Loss    float64 // mean over the labelled seed nodes; 0 when there is none
	Correct int     // of the labelled seed nodes, those whose class, or classes, the logits name
	Count   int     // labelled seed nodes
	Logits  []float32
	Labels  []int32 // of the step's batch
	Targets []byte
	Times   Times
}

// Step trains on the batch that w holds, whose features are f: forward, loss, backward,
// Adam. It returns the outcome of the step before, nil if that was returned already; Finish
// returns that of the last step. w and the memory that f copies from may be used again when
// Step returns.
//
// A loss that is not finite is an error of kind fault.ErrInput, which comes after the step
// has changed the weights. A step that failed leaves the weights undefined: until LoadState,
// Step, Finish and State return its error.
func (e *Engine) Step(ctx context.Context, w *Work, f Features) (*Outcome, error) {
	if err := w.check(e.train, f); err != nil {
		return nil, err
	}
	if err := errors.Join(e.broken, ctx.Err()); err != nil {
		return nil, err
	}
	detach, err := e.device.Attach()
	if err != nil {
		return nil, err
	}
	defer detach()
	now, before := &e.inputs[e.adam.step%2], &e.inputs[(e.adam.step+1)%2]
	if e.broken = e.launch(now, w, f); e.broken != nil {
		_ = e.copies.Synchronize() // what is copied may go away now
		return nil, e.broken
	}
	e.stale = true
	now.remember(w.prepared.Batch(), w.prepared.Labelled, e.adam.step)
	e.adam.step++
	now.busy = true
	o, err := e.tell(before)
	e.broken = errors.Join(err, e.wait(now.copying))
	return o, e.broken
}

// launch enqueues all of a step.
func (e *Engine) launch(now *input, w *Work, f Features) error {
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

// compute asks for a step and for what it finds. The first step of a bucket is asked
// for kernel by kernel, as libraries may have to prepare themselves; then it is captured.
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
		e.main.CopyOut(results[kernels.ScoreBytes:], e.train.last().data), i.computing.End(e.main))
}

// work asks for all of a step that is the same for every batch.
func (e *Engine) work() error {
	n := e.train
	if err := n.forward(); err != nil {
		return err
	}
	if err := n.backward(); err != nil {
		return err
	}
	return e.adam.update(e.main, n.in.adamStep())
}

// Finish waits for the last step and returns what it found, nil if that was told.
func (e *Engine) Finish() (*Outcome, error) {
	if e.broken != nil {
		return nil, e.broken
	}
	var o *Outcome
	err := e.device.Attached(func() (err error) {
		if o, err = e.tell(&e.inputs[(e.adam.step+1)%2]); err != nil {
			return err
		}
		return e.clock.set(e.main)
	})
	return o, err
}

// tell waits for an input's step and returns what it found, nil if there is none.
func (e *Engine) tell(i *input) (*Outcome, error) {
	if !i.busy {
		return nil, nil
	}
	i.busy = false
	if err := e.wait(i.computing); err != nil {
		return nil, err
	}
	results, terms := i.results.Bytes(), i.labelled
	o := &i.outcome
	*o = Outcome{Count: i.labelled, Labels: i.labels, Targets: i.targets}
	o.Loss, o.Correct = kernels.Score(results[:kernels.ScoreBytes])
	if e.train.loss.kind == model.Binary {
		terms *= e.opts.Model.Classes()
	}
	if terms > 0 {
		o.Loss /= float64(terms)
	}
	if err := e.times(&o.Times, i); err != nil {
		return nil, err
	}
	o.Logits = binio.View[float32](results[kernels.ScoreBytes:])[:i.seeds*e.opts.Model.Classes()]
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
func (e *Engine) times(t *Times, i *input) error {
	t.Waited, e.waited = e.waited, 0
	var errs [3]error
	t.Copy, errs[0] = e.clock.tell(i.copying)
	t.Gather, errs[1] = e.clock.tell(i.gathering)
	t.Compute, errs[2] = e.clock.tell(i.computing)
	return errors.Join(errs[:]...)
}
