package cpu

import (
	"context"
	"math"
	"sync"

	"diskgnn/internal/fault"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

// Backward implements engine.Engine. Its outcome is this batch's. A loss that is not finite is
// an error of kind fault.ErrInput, and adds nothing.
func (e *Engine) Backward(ctx context.Context, w engine.Work, f engine.Features, at engine.Place) (*engine.Outcome, error) {
	in := w.(*work).with(f)
	r, err := e.backward(ctx, in, at)
	if err != nil && !notFinite(r.Loss) {
		return nil, err
	}
	b := in.Prepared.Batch()
	e.found = engine.Outcome{Loss: r.Loss, Correct: r.Correct, Count: r.Count, Logits: e.logits(in), Labels: b.Labels, Targets: b.Targets}
	return &e.found, err
}

// backward computes the loss and the gradients of one batch, and adds them to the step's if that
// has several. A batch without labelled seed nodes has loss and gradient zero, and still counts.
// When the context ends first, it returns its error, and there is nothing to apply.
func (e *Engine) backward(ctx context.Context, in *Input, at engine.Place) (r result, err error) {
	defer func() {
		if err != nil && e.sum != nil {
			e.sum.Reset()
		}
	}()
	if err := checkInput(e.plan, e.preparer, in); err != nil {
		return r, err
	}
	if len(in.Prepared.Batch().Targets) > 0 && e.net.loss.kind == model.CrossEntropy {
		return r, fault.New(fault.ErrInput, "cpu engine: the loss %s needs one class per seed node, but the batch is multi-label: use %s", model.CrossEntropy, model.Binary)
	}
	if e.sum != nil && e.sum.Batches == e.opts.Accumulate {
		return r, fault.New(fault.ErrUsage, "cpu engine: the step already has its %d batches", e.opts.Accumulate)
	}
	if err := e.net.run(ctx, in, e.opts.Seed, at); err != nil {
		return r, err
	}
	if r = e.net.loss.sum; notFinite(r.Loss) {
		return r, fault.New(fault.ErrInput, "cpu engine: step %d: the loss is %v: features are not finite, or the learning rate %v is too high",
			e.opt.step+1, r.Loss, e.opt.rate)
	}
	e.net.statistics(e.batch)
	if e.sum != nil {
		e.sum.Add(e.opt.grads, e.batch, r.Count)
	}
	return r, nil
}

func notFinite(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

// Apply implements engine.Engine: Adam; the running statistics of batch norms follow.
func (e *Engine) Apply() error {
	switch {
	case e.opts.Apart:
		return fault.New(fault.ErrUsage, "cpu engine: with Apart, ApplySum applies the gradients")
	case e.sum == nil:
		e.opt.update(e.pool)
		e.net.track(e.batch)
		return nil
	}
	e.apply(e.sum)
	e.sum.Reset()
	return nil
}

// Contribution implements engine.Engine.
func (e *Engine) Contribution(dst []float32) error {
	if len(dst) != e.plan.Count() {
		return fault.New(fault.ErrInput, "cpu engine: a contribution of %d elements for %d parameters", len(dst), e.plan.Count())
	}
	copy(dst, e.opt.grads)
	copy(dst[e.plan.Trained:], e.batch)
	return nil
}

// ApplySum implements engine.Engine.
func (e *Engine) ApplySum(s *engine.Sum) error {
	if each := e.plan.Count() - e.plan.Trained; len(s.Gradients) != e.plan.Trained || len(s.Statistics) != s.Batches*each {
		return fault.New(fault.ErrInput, "cpu engine: a sum of %d gradients and %d statistics of %d batches does not fit the model", len(s.Gradients), len(s.Statistics), s.Batches)
	}
	e.apply(s)
	return nil
}

// apply takes the step of a sum.
func (e *Engine) apply(s *engine.Sum) {
	o := &e.opt
	inverse := engine.Inverse(e.net.loss.kind.Terms(s.Labelled, e.plan.model.Classes()))
	for i, g := range s.Gradients {
		o.grads[i] = g * inverse
	}
	o.update(e.pool)
	each := len(e.batch)
	for b := range s.Batches {
		e.net.track(s.Statistics[b*each : (b+1)*each])
	}
}

// logits returns the logits of the batch's seed nodes, row-major, a column per
// class, as the last Step computed them: with dropout, and with the weights from
// before it. in must be that step's input. They are the engine's own memory, valid
// until its next step.
func (e *Engine) logits(in *Input) []float32 {
	last := e.net.last()
	return last.data[:in.Prepared.Batch().NumSeeds()*last.width]
}

// StepProducts takes a training step on the batch in w with the features f, and returns the number of
// its matrix products, by shape. Benchmarks compute from it the least time of a step.
func (e *Engine) StepProducts(ctx context.Context, w engine.Work, f engine.Features) (map[blas.Product]int, error) {
	var mu sync.Mutex
	counts := make(map[blas.Product]int)
	e.net.blas = e.blas.Watched(func(p blas.Product) {
		mu.Lock()
		defer mu.Unlock()
		counts[p]++
	})
	defer func() { e.net.blas = e.blas }()
	if _, err := e.Backward(ctx, w, f, engine.Place{}); err != nil {
		return nil, err
	}
	return counts, e.Apply()
}
