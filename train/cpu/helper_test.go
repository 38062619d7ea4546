package cpu

import (
	"context"

	"diskgnn/train/engine"
	"diskgnn/train/recipe"
)

// Step is Backward and Apply of a batch that a test has prepared itself.
func (e *Engine) Step(ctx context.Context, in *Input) (result, error) {
	r, err := e.backward(ctx, in, engine.Place{Batch: int(e.opt.step)})
	if err != nil {
		return r, err
	}
	return r, e.Apply()
}

func snapshot(e *Engine) []float32 {
	weights, _ := e.Snapshot(nil) // which does not fail
	return weights
}

func optimizerOf(decoupled bool) string {
	if decoupled {
		return recipe.OptimizerAdamW
	}
	return recipe.OptimizerAdam
}

func activationOf(k *layer) *activation {
	switch o := k.tail.(type) {
	case *norm:
		return o.activation
	case *typedTail:
		return o.activation
	}
	return k.tail.(*activation)
}
