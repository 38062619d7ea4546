package cuda

import (
	"errors"
	"testing"
)

func TestDevicesOrTheReason(t *testing.T) {
	gpus, err := Devices()
	if errors.Is(err, ErrNoDevice) {
		t.Logf("no GPU: %v", err)
		return
	}
	if err != nil || len(gpus) == 0 {
		t.Fatalf("%d GPUs, %v", len(gpus), err)
	}
	for _, g := range gpus {
		if g.Name == "" || g.Memory <= 0 || g.Multiprocessors <= 0 || g.Major <= 0 {
			t.Errorf("%+v", g)
		}
	}
}
