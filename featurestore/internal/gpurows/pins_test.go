package gpurows

import (
	"errors"
	"testing"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/internal/fault"
)

// TestPinAll pins two pieces of memory, or none of them: the device is checked for leaks.
func TestPinAll(t *testing.T) {
	var hosts []*device.Host
	for _, bytes := range []int{100, 200} {
		h, err := device.NewHost(bytes)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Free()
		hosts = append(hosts, h)
	}
	for _, room := range []int64{300, 299} {
		d := cudatest.OpenFaulty(t, cuda.Options{PinnedBytes: room}, func(string) *cuda.Fault { return nil })
		p, err := Pin(d, hosts...)
		if room == 299 {
			if p != nil || !errors.Is(err, fault.ErrBudget) {
				t.Errorf("of %d bytes 300 are pinned: %v", room, err)
			}
			continue
		}
		if _, pinned := d.Held(); err != nil || pinned != 300 {
			t.Errorf("%d bytes are pinned, %v", pinned, err)
		}
		p.Free()
		p.Free()
	}
}
