package gpu

import (
	"context"
	"encoding/binary"
	"testing"

	"diskgnn/graph"
	"diskgnn/train/cpu"
	"diskgnn/train/engine"
	"diskgnn/train/recipe"
)

// Step is Backward and Apply.
func (e *Engine) Step(ctx context.Context, w engine.Work, f engine.Features) (*engine.Outcome, error) {
	o, err := e.Backward(ctx, w, f, engine.Place{Batch: int(e.adam.step)})
	if err != nil {
		return o, err
	}
	return o, e.Apply()
}

// hostStep trains the CPU engine on one batch.
func hostStep(t testing.TB, e *cpu.Engine, b *graph.Batch, x []float32) *engine.Outcome {
	t.Helper()
	w, err := e.NewWork(false, nil)
	check(t, err)
	check(t, w.Prepare(b))
	state, err := e.State()
	check(t, err)
	o, err := e.Backward(context.Background(), w, engine.Rows(x), engine.Place{Batch: int(binary.LittleEndian.Uint64(state[engine.StepPart]))})
	check(t, err)
	check(t, e.Apply())
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
