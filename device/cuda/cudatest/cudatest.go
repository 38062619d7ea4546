// Package cudatest provides GPUs for tests, emulated or real. An emulated GPU uses the host's memory
// and runs Go twins of the kernels.
package cudatest

import (
	"errors"
	"fmt"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/device/cuda/kernels/plain"
)

// Emulator opens emulated devices, with itself as the implementation of the kernels. When the test ends,
// memory, streams and events that are not freed fail it.
type Emulator cuda.Emulation

// training has the kernels of package plain.
var training = Emulator(plain.Emulate)

// Open returns an emulated device with the kernels of package plain. It is closed, and checked for leaks,
// when the test ends.
func Open(t testing.TB) *cuda.Device {
	t.Helper()
	return training.Open(t)
}

// OpenFaulty returns an emulated device with injected faults; see cuda.OpenFaulty.
func OpenFaulty(t testing.TB, o cuda.Options, fails func(call string) *cuda.Fault) *cuda.Device {
	t.Helper()
	return training.OpenFaulty(t, o, fails)
}

// OpenLate returns an emulated device with streams that do their work as late as possible, except some that
// the seed draws; see cuda.OpenLate. The test fails if memory is freed while enqueued work uses it.
func OpenLate(t testing.TB, seed uint64) *cuda.Device {
	t.Helper()
	return training.OpenLate(t, seed)
}

// OpenLateFaulty returns a device of OpenLate with injected faults; see cuda.OpenFaulty.
func OpenLateFaulty(t testing.TB, seed uint64, fails func(call string) *cuda.Fault) *cuda.Device {
	t.Helper()
	return training.openLate(t, cuda.Late{Seed: seed, Fails: fails})
}

// OpenMachine returns emulated devices of one machine. Unless apart is set, each can reach the others'
// memory.
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

// Orders is the number of seeds, from 0 on, that cover all combinations of three streams being ahead or
// late.
const Orders = 8

// Late runs a test as subtests, one on a device of OpenLate for each seed from 0 to seeds-1.
func Late(t *testing.T, seeds int, test func(t *testing.T, d *cuda.Device)) {
	training.Late(t, seeds, test)
}

// Everywhere runs a test as subtests: on an emulated device, on late devices of the given number of seeds,
// and on a real GPU if there is one.
func Everywhere(t *testing.T, late int, test func(t *testing.T, d *cuda.Device)) {
	training.Everywhere(t, late, test)
}

// Open is the package's Open with e's kernels.
func (e Emulator) Open(t testing.TB) *cuda.Device {
	t.Helper()
	d, err := cuda.OpenEmulated(cuda.Emulation(e), cuda.Options{Code: kernels.Code})
	return checked(t, d, err)
}

// OpenFaulty is the package's OpenFaulty with e's kernels.
func (e Emulator) OpenFaulty(t testing.TB, o cuda.Options, fails func(call string) *cuda.Fault) *cuda.Device {
	t.Helper()
	o.Code = kernels.Code
	d, err := cuda.OpenFaulty(cuda.Emulation(e), o, fails)
	return checked(t, d, err)
}

// OpenLate is the package's OpenLate with e's kernels.
func (e Emulator) OpenLate(t testing.TB, seed uint64) *cuda.Device {
	t.Helper()
	return e.openLate(t, cuda.Late{Seed: seed})
}

func (e Emulator) openLate(t testing.TB, l cuda.Late) *cuda.Device {
	t.Helper()
	l.Wrong = func(what string) { t.Errorf("seed %d: %s", l.Seed, what) }
	d, err := cuda.OpenLate(cuda.Emulation(e), cuda.Options{Code: kernels.Code}, l)
	return checked(t, d, err)
}

// Late is the package's Late with e's kernels.
func (e Emulator) Late(t *testing.T, seeds int, test func(t *testing.T, d *cuda.Device)) {
	for seed := range seeds {
		t.Run(fmt.Sprintf("late %d", seed), func(t *testing.T) { test(t, e.OpenLate(t, uint64(seed))) })
	}
}

// Everywhere is the package's Everywhere with e's kernels.
func (e Emulator) Everywhere(t *testing.T, late int, test func(t *testing.T, d *cuda.Device)) {
	t.Run("emulated", func(t *testing.T) { test(t, e.Open(t)) })
	e.Late(t, late, test)
	t.Run("gpu", func(t *testing.T) { test(t, Real(t, cuda.Options{})) })
}

// Real opens the first GPU of the machine, or skips the test if there is none.
func Real(t testing.TB, o cuda.Options) *cuda.Device {
	t.Helper()
	d, err := kernels.Open(0, o)
	if errors.Is(err, cuda.ErrNoDevice) {
		t.Skipf("no GPU: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
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
