package cpu

import (
	"context"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

var _ engine.Engine = (*Engine)(nil)

// work is a batch prepared for the engine or its evaluator.
type work struct {
	by       *Preparer
	prepared Prepared
	input    Input
}

func (w *work) Prepare(b *graph.Batch) error { return w.by.Prepare(&w.prepared, b) }

func (w *work) Close() {}

func (w *work) with(f engine.Features) *Input {
	w.input.Prepared, w.input.X = &w.prepared, f.X()
	return &w.input
}

// NewWork implements engine.Engine. Features may lie anywhere.
func (e *Engine) NewWork(eval bool, _ []byte) (engine.Work, error) {
	switch {
	case !eval:
		return &work{by: e.preparer}, nil
	case e.eval == nil:
		return nil, fault.New(fault.ErrUsage, "cpu engine: there are no sizes for evaluation")
	}
	return &work{by: e.eval.preparer}, nil
}

// EvaluateAt lets Infer take batches of at most these sizes, as the config's EvalSizes do.
func (e *Engine) EvaluateAt(sizes graph.Sizes) (err error) {
	e.eval, err = e.NewEvaluator(sizes)
	return err
}

// WorkBytes returns the memory of a work for Backward, and of one for Infer.
func (e *Engine) WorkBytes() (train, eval int64) {
	if train = e.preparer.Bytes(); e.eval != nil {
		eval = e.eval.preparer.Bytes()
	}
	return train, eval
}

// Finish implements engine.Engine: batches are over when Backward returns.
func (e *Engine) Finish() (*engine.Outcome, error) { return nil, nil }

// Infer implements engine.Engine.
func (e *Engine) Infer(ctx context.Context, w engine.Work, f engine.Features) ([]float32, error) {
	return e.eval.Infer(ctx, w.(*work).with(f))
}

// Params implements engine.Engine.
func (e *Engine) Params() []model.Param { return e.plan.Params }
