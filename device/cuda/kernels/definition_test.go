package kernels_test

import (
	"math"
	"slices"
	"testing"

	"diskgnn/device/cuda/cudatest"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/kernel"
)

// Kernels and their twins share what prepares their arguments, so that a comparison of the
// two does not see it. Here both are held to definitions.

// byDefinition runs a test on the emulated device and on a real one.
func byDefinition(t *testing.T, test func(g *gpu)) {
	t.Run("emulated", func(t *testing.T) { test(emulatedGPU(t)) })
	t.Run("gpu", func(t *testing.T) { test(newGPU(t, testMemory)) })
}

// emulatedGPU is newGPU for the emulated device.
func emulatedGPU(t testing.TB) *gpu {
	g := &gpu{TB: t, Device: cudatest.Open(t)}
	var err error
	g.Stream, err = g.NewStream()
	check(t, err)
	g.arena, err = g.NewArena(testMemory)
	check(t, err)
	t.Cleanup(func() {
		g.arena.Free()
		g.Stream.Free()
	})
	return g
}

// TestDropoutByDefinition: of units of one, each becomes zero with the probability of the
// rate, and 1/(1−rate) otherwise, so that the mean stays; gradients take the factors that
// their units took. Bounds of counts are six standard deviations.
func TestDropoutByDefinition(t *testing.T) {
	const rows, width = 1000, 100
	byDefinition(t, func(g *gpu) {
		for _, rate := range []float64{0.1, 0.5, 0.8} {
			for _, unit := range []kernels.Activation{kernels.ReLU, kernels.ELU} {
				g.reset()
				kept := float32(1 / (1 - rate))
				dropout := kernels.Dropout{Rate: kernel.NewDropout(rate), Stream: put(g, []uint64{uint64(kernel.NewStream(5, 0, 3, 1))})}
				f := kernels.Tail{Z: put(g, slices.Repeat([]float32{1}, rows*width)), Width: width, Bias: put(g, make([]float32, width)), Activation: unit, Dropout: dropout, Rows: kernels.Rows(rows)}
				check(g, f.Launch(g.Stream))
				y, sum, dropped := get[float32](g, f.Z), 0.0, 0
				for i, v := range y {
					if sum += float64(v); v == 0 {
						dropped++
					} else if v != kept {
						t.Fatalf("rate %v, unit %d: %v is left of one, want 0 or %v", rate, i, v, kept)
					}
				}
				const n = rows * width
				if sd := math.Sqrt(rate * (1 - rate) * n); math.Abs(float64(dropped)-rate*n) > 6*sd || math.Abs(sum-n) > 6*sd*float64(kept) {
					t.Errorf("rate %v: %d of %d are dropped, the sum is %v", rate, dropped, n, sum)
				}
				b := kernels.TailBackward{G: put(g, slices.Repeat([]float32{1}, n)), Y: f.Z, Width: width, Sums: g.empty(4 * width * kernels.SumRows(rows)),
					DBias: g.empty(4 * width), Activation: unit, Dropout: dropout, Rows: kernels.Rows(rows)}
				check(g, b.Launch(g.Stream))
				for i, v := range get[float32](g, b.G) {
					if v != y[i] {
						t.Fatalf("rate %v, unit %d: its factor is %v, its gradient's %v", rate, i, y[i], v)
					}
				}
			}
		}
	})
}

// TestAdamByDefinition takes steps with weight decay, written out in float64: Adam's decay
// is part of the gradient (Kingma and Ba, algorithm 1), AdamW's shrinks the weights by the
// rate times the decay (Loshchilov and Hutter, algorithm 2).
func TestAdamByDefinition(t *testing.T) {
	const rate, decay = 0.01, 0.3
	byDefinition(t, func(g *gpu) {
		for _, decoupled := range []bool{false, true} {
			for _, n := range []int{7, 1000} { // one weight at a time, and four
				g.reset()
				r := newRandom(1)
				first := r.floats(n)
				a := kernels.Adam{Weights: put(g, first), Moment1: put(g, make([]float32, n)), Moment2: put(g, make([]float32, n)), Parameters: n}
				w, m, v := make([]float64, n), make([]float64, n), make([]float64, n)
				for i, x := range first {
					w[i] = float64(x)
				}
				for k := 1; k <= 5; k++ {
					step := kernels.AdamStep{AdamStep: kernel.NewAdamStep(rate, uint64(k))}
					if step.Decay = decay; decoupled {
						step.Decay, step.Shrink = 0, -rate*decay
					}
					constants := make([]float32, kernels.AdamStepBytes/4)
					step.Put(constants)
					grads := r.floats(n)
					a.Step, a.Grads = put(g, constants), put(g, grads)
					check(g, a.Launch(g.Stream))
					got := get[float32](g, a.Weights)
					for i := range w {
						d := float64(grads[i])
						if decoupled {
							w[i] *= 1 - rate*decay
						} else {
							d += decay * w[i]
						}
						m[i] = 0.9*m[i] + 0.1*d
						v[i] = 0.999*v[i] + 0.001*d*d
						w[i] -= rate * m[i] / (1 - math.Pow(0.9, float64(k))) / (math.Sqrt(v[i]/(1-math.Pow(0.999, float64(k)))) + 1e-8)
						if math.Abs(float64(got[i])-w[i]) > 1e-5*max(1, math.Abs(w[i])) {
							t.Fatalf("decoupled %v, step %d: weight %d is %v, want %v", decoupled, k, i, got[i], w[i])
						}
					}
				}
			}
		}
	})
}
