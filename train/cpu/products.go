package cpu

import (
	"context"
	"sync"

	"diskgnn/train/cpu/blas"
)

// StepProducts takes a step on a batch as Step does and returns how often it computed
// a matrix product of which shape: what is left of a step when all else costs nothing.
func (e *Engine) StepProducts(ctx context.Context, in *Input) (map[blas.Product]int, error) {
	var mu sync.Mutex
	counts := make(map[blas.Product]int)
	e.net.blas = e.blas.Watched(func(p blas.Product) {
		mu.Lock()
		defer mu.Unlock()
		counts[p]++
	})
	defer func() { e.net.blas = e.blas }()
	_, err := e.Step(ctx, in)
	return counts, err
}
