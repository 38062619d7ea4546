package cpu

import (
	"context"

	"diskgnn/device"
	"diskgnn/internal/kernel"
	"diskgnn/train/engine"
	"diskgnn/train/recipe"
)

// optimizer is Adam over all parameters at once: parameters, gradients and both moments each lie
// one after the other in a slice. Untrained values follow the weights.
type optimizer struct {
	weights                 []float32
	grads, moment1, moment2 []float32
	step                    uint64 // steps done
	rate, decay             float64
	decoupled               bool
	now                     kernel.AdamStep
}

func newOptimizer(p *plan, a *device.Arena, o *engine.Config) optimizer {
	take := func(n int) []float32 { return device.Take[float32](a, n) }
	return optimizer{weights: take(p.Count()), grads: take(p.Trained), moment1: take(p.Trained), moment2: take(p.Trained),
		rate: o.LR, decay: o.WeightDecay, decoupled: o.Optimizer == recipe.OptimizerAdamW}
}

// update takes one step along the gradient. It is not interruptible: the weights would be
// inconsistent.
func (o *optimizer) update(p *pool) {
	o.step++
	o.now = kernel.NewAdamStep(o.rate, o.step)
	_ = p.each(context.Background(), len(o.grads), updateGrain, o)
}

func (o *optimizer) chunk(_, lo, hi int) {
	switch {
	case o.decay == 0:
	case o.decoupled:
		kernel.AddScaled(o.weights[lo:hi], o.weights[lo:hi], float32(-o.rate*o.decay))
	default:
		kernel.AddScaled(o.grads[lo:hi], o.weights[lo:hi], float32(o.decay))
	}
	kernel.Adam(o.weights[lo:hi], o.grads[lo:hi], o.moment1[lo:hi], o.moment2[lo:hi], &o.now)
}
