package cpu

import (
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/prepare"
)

// Prepared is a prepared mini-batch.
type Prepared = prepare.Prepared

// Input is one mini-batch and its features.
type Input struct {
	*Prepared
	// X holds the features of the outermost block's sources, row-major, in the
	// model's input width. It may be longer; only these rows are read, and only
	// during the call.
	X []float32
}

// result is the outcome of a training step, with the weights before it.
type result struct {
	Loss float64 // mean over the labelled seed nodes; 0 when there is none
	// Correct counts the labelled seed nodes with the largest logit at their class; with the loss
	// Binary, those with the right sign of all logits.
	Correct int
	Count   int // labelled seed nodes
}

// checkInput checks that the features cover all rows that are read.
func checkInput(p *plan, r *prepare.Preparer, in *Input) error {
	if in.Prepared == nil || in.Prepared.Batch() == nil {
		return fault.New(fault.ErrInput, "cpu engine: the batch was not prepared")
	}
	if !in.Prepared.By(r) {
		return fault.New(fault.ErrInput, "cpu engine: the batch was prepared for another engine or evaluator")
	}
	if n := in.Prepared.Batch().Blocks[0].NumSrc; len(in.X) < n*p.width() {
		return fault.New(fault.ErrInput, "cpu engine: %d feature elements do not fill %d input nodes of width %d", len(in.X), n, p.width())
	}
	return nil
}

// work is a batch prepared for the engine or its evaluator.
type work struct {
	by       *prepare.Preparer
	prepared Prepared
	input    Input
}

func (w *work) Prepare(b *graph.Batch) error { return w.by.Prepare(&w.prepared, b) }

func (w *work) Close() {}

func (w *work) with(f engine.Features) *Input {
	w.input.Prepared, w.input.X = &w.prepared, f.X()
	return &w.input
}
