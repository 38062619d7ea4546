package gpu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/graph"
	"diskgnn/graph/graphtest"
	"diskgnn/internal/fault"
	"diskgnn/train/engine"
	"diskgnn/train/recipe"
)

// TestSteps: a step along the gradients of three batches that are summed on the device has the
// bits of one whose contributions the caller sums, however late the streams run; and the
// statistics of every batch are followed.
func TestSteps(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		run := func(apart bool) (found []string) {
			rng := rand.New(rand.NewPCG(3, 9))
			batches := []*graph.Batch{someBatch(rng), someBatch(rng)}
			network := someModel() // with batch norm
			e := newEngine(t, d, engine.Config{Network: network, Sizes: graphtest.Roomy(batches...), Apart: apart, Recipe: recipe.Recipe{Seed: 7, WeightDecay: 0.1, Accumulate: 3}})
			defer e.Close()
			layout := network.Layout()
			sum, contribution := engine.NewSum(device.NewArena(), &layout, 3), make([]float32, layout.Count())
			tell := func(o *engine.Outcome, err error) {
				check(t, err)
				if o != nil {
					found = append(found, fmt.Sprint(o.Loss, o.Correct, bits(o.Logits)))
				}
			}
			for i := range 8 { // the last ones are graphs, and the last step has two
				b := batches[i%2]
				w := work(t, e, false, b)
				tell(e.Backward(context.Background(), w, engine.Rows(graphtest.Features(b, 6, rng)), engine.Place{Epoch: 1, Batch: i}))
				if apart {
					check(t, e.Contribution(contribution))
					sum.Add(contribution[:layout.Trained], contribution[layout.Trained:], w.prepared.Labelled)
				}
				switch {
				case i%3 < 2 && i < 7:
				case apart:
					check(t, e.ApplySum(sum))
					sum.Reset()
				default:
					check(t, e.Apply())
				}
			}
			tell(e.Finish())
			return append(found, fmt.Sprint(bits(snapshot(t, e))))
		}
		want, got := run(false), run(true)
		if len(got) != 9 || fmt.Sprint(got) != fmt.Sprint(want) {
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
		if err := e.Apply(); !errors.Is(err, fault.ErrUsage) {
			t.Error(err)
		}
	})
}
