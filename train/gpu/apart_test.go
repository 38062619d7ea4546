package gpu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/recipe"
)

// TestUpdateApart: an update that Apply launches gives the bits of one in the captured
// step, however late the streams run.
func TestUpdateApart(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		run := func(apart bool) (found []string) {
			rng := rand.New(rand.NewPCG(3, 9))
			batches := []*graph.Batch{someBatch(rng), someBatch(rng)}
			e := newEngine(t, d, engine.Config{Network: someModel(), Sizes: graphtest.Roomy(batches...), Apart: apart, Recipe: recipe.Recipe{Seed: 7, WeightDecay: 0.1}})
			defer e.Close()
			tell := func(o *engine.Outcome, err error) {
				check(t, err)
				if o != nil {
					found = append(found, fmt.Sprint(o.Loss, o.Correct, bits(o.Logits)))
				}
			}
			for i := range 7 { // the last ones are graphs
				b := batches[i%2]
				tell(e.Step(context.Background(), work(t, e, false, b), engine.Rows(graphtest.Features(b, 6, rng))))
			}
			tell(e.Finish())
			return append(found, fmt.Sprint(bits(snapshot(t, e))))
		}
		want, got := run(false), run(true)
		if len(got) != 8 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("apart %v, together %v", got, want)
		}
	})
}

// TestApplyNeedsBackward: there is one Apply for every Backward.
func TestApplyNeedsBackward(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		b := someBatch(rand.New(rand.NewPCG(1, 1)))
		e := newEngine(t, d, engine.Config{Network: someModel(), Sizes: graphtest.Roomy(b)})
		step(t, e, work(t, e, false, b), graphtest.Features(b, 6, rand.New(rand.NewPCG(2, 2))))
		if _, err := e.Apply(); !errors.Is(err, fault.ErrUsage) {
			t.Error(err)
		}
	})
}
