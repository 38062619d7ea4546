package gpu

import (
	"context"
	"testing"

	"diskgnn/graph"
	"diskgnn/train/cpu"
	"diskgnn/train/engine"
	"diskgnn/train/recipe"
)

// Step is Backward and Apply.
func (e *Engine) Step(ctx context.Context, w engine.Work, f engine.Features) (*engine.Outcome, error) {
	if err := e.Backward(ctx, w, f); err != nil {
		return nil, err
	}
	return e.Apply()
}

// hostStep trains the CPU engine on one batch.
func hostStep(t testing.TB, e *cpu.Engine, b *graph.Batch, x []float32) *engine.Outcome {
	t.Helper()
	w, err := e.NewWork(false, nil)
	check(t, err)
	check(t, w.Prepare(b))
	check(t, e.Backward(context.Background(), w, engine.Rows(x)))
	o, err := e.Apply()
	check(t, err)
	return o
}

func hostWeights(e *cpu.Engine) []float32 {
	weights, _ := e.Snapshot(nil) // which does not fail
	return weights
}

func optimizerOf(decoupled bool) string {
	if decoupled {
		return recipe.OptimizerAdamW
	}
	return recipe.OptimizerAdam
}
