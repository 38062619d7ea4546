// Package cudatest is a GPU for tests on machines that have none: memory is the host's,
// and package plain's functions stand in for the kernels.
package cudatest

import (
	"testing"

	"diskgnn/device/cuda"
)

// Open returns such a device, which the test checks for leaks.
func Open(t testing.TB) *cuda.Device {
	t.Helper()
	return OpenFaulty(t, cuda.Options{}, func(string) *cuda.Fault { return nil })
}

// OpenFaulty returns one that fails when fails says so; see cuda.OpenFaulty.
func OpenFaulty(t testing.TB, o cuda.Options, fails func(call string) *cuda.Fault) *cuda.Device {
	t.Helper()
	d, err := cuda.OpenFaulty(launch, o, fails)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if device, pinned := d.Held(); device != 0 || pinned != 0 {
			t.Errorf("%d bytes of the device and %d pinned ones were left behind", device, pinned)
		}
		d.Close()
	})
	return d
}
