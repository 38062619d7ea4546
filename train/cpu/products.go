package cpu

import (
	"context"
	"sync"

	"diskgnn/train/cpu/blas"
	"diskgnn/train/engine"
)

// StepProducts takes a step on a batch and returns how often it computed
// a matrix product of which shape: what is left of a step when all else costs nothing.
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
