package cuda_test

import (
	"errors"
	"testing"

	"diskgnn/device/cuda"
	kernels "diskgnn/device/cuda/kernels/plain"
)

// TestEmulate: a process has the emulated GPUs, which reach each other's memory or do not, and see host memory that
// one of them has pinned, as long as it is open.
func TestEmulate(t *testing.T) {
	for _, apart := range []bool{false, true} {
		restore := cuda.Emulate(kernels.Emulate, 3, apart)
		gpus, err := cuda.Devices()
		check(t, err)
		if len(gpus) != 3 || gpus[2].Name != "emulated" {
			t.Errorf("the GPUs are %+v", gpus)
		}
		if _, err := cuda.Open(3, cuda.Options{}); !errors.Is(err, cuda.ErrNoDevice) {
			t.Errorf("a fourth GPU: %v", err)
		}
		first, err := cuda.Open(0, cuda.Options{})
		check(t, err)
		last, err := cuda.Open(2, cuda.Options{})
		check(t, err)
		if can, err := last.Reach(first); err != nil || can == apart {
			t.Errorf("apart %t: one reaches the other: %t, %v", apart, can, err)
		}
		mem, err := first.NewPinned(64)
		check(t, err)
		if _, err := last.Mapped(mem); err != nil {
			t.Errorf("memory that the other GPU has pinned: %v", err)
		}
		first.Close()
		if _, err := last.Mapped(mem); err == nil {
			t.Error("a closed GPU's pinned memory is visible")
		}
		last.Close()
		restore()
		if again, err := cuda.Devices(); err == nil && again[0].Name == "emulated" {
			t.Error("the emulated GPUs are still there")
		}
	}
}
