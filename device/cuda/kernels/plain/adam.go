package plain

import (
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/kernel"
)

// Adam updates the weights w by their gradients g, with the moments m and v, for the step s; see
// kernels.Adam. It may change g.
func Adam(w, g, m, v []float32, s *kernels.AdamStep) {
	if s.Shrink != 0 {
		kernel.AddScaled(w, w, s.Shrink)
	}
	if s.Decay != 0 {
		kernel.AddScaled(g, w, s.Decay)
	}
	kernel.Adam(w, g, m, v, &s.AdamStep)
}
