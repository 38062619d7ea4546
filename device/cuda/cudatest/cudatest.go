// Package cudatest is a GPU for tests on machines that have none: memory is the host's,
// and the twins of package plain stand in for the kernels.
package cudatest

import (
	"fmt"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/device/cuda/kernels/plain"
)

// Open returns such a device, which the test checks for leaks.
func Open(t testing.TB) *cuda.Device {
	t.Helper()
	return OpenFaulty(t, cuda.Options{}, func(string) *cuda.Fault { return nil })
}

// OpenMachine returns such devices of one machine. They reach each other's memory, unless they
// are apart.
func OpenMachine(t testing.TB, devices int, apart bool) []*cuda.Device {
	t.Helper()
	list, err := cuda.OpenMachine(plain.Emulate, cuda.Options{Code: kernels.Code}, devices, apart)
	for _, d := range list {
		checked(t, d, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// OpenFaulty returns one that fails when fails says so; see cuda.OpenFaulty.
func OpenFaulty(t testing.TB, o cuda.Options, fails func(call string) *cuda.Fault) *cuda.Device {
	t.Helper()
	o.Code = kernels.Code
	d, err := cuda.OpenFaulty(plain.Emulate, o, fails)
	return checked(t, d, err)
}

// OpenLate returns one whose streams are late, in an order that the seed draws; see
// cuda.OpenLate. The test fails if memory is freed under work.
func OpenLate(t testing.TB, seed uint64) *cuda.Device {
	t.Helper()
	return OpenLateFaulty(t, seed, nil)
}

// OpenLateFaulty returns one that also fails when fails says so.
func OpenLateFaulty(t testing.TB, seed uint64, fails func(call string) *cuda.Fault) *cuda.Device {
	t.Helper()
	d, err := cuda.OpenLate(plain.Emulate, cuda.Options{Code: kernels.Code}, cuda.Late{Seed: seed, Fails: fails, Wrong: func(what string) { t.Errorf("seed %d: %s", seed, what) }})
	return checked(t, d, err)
}

// Orders is how many seeds draw all ways in which three streams are ahead or late.
const Orders = 8

// Late runs a test on late devices, of the seeds from 0 on.
func Late(t *testing.T, seeds int, test func(t *testing.T, d *cuda.Device)) {
	for seed := range seeds {
		t.Run(fmt.Sprintf("late %d", seed), func(t *testing.T) { test(t, OpenLate(t, uint64(seed))) })
	}
}

func checked(t testing.TB, d *cuda.Device, err error) *cuda.Device {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if device, pinned := d.Held(); device != 0 || pinned != 0 {
			t.Errorf("%d bytes of the device and %d pinned ones were left behind", device, pinned)
		}
		if left := d.Left(); left != nil {
			t.Errorf("left behind: %v", left)
		}
		d.Close()
	})
	return d
}
