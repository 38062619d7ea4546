// Package gpureadtest lets tests have a GPU read from drives by itself, where there is none:
// emulated devices that run the kernels' twins, and drives in software that hold a directory.
package gpureadtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	training "diskgnn/device/cuda/kernels/plain"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/iostack/devread"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/gpuqueue/plain"
	"diskgnn/iostack/nvme/target"
	"diskgnn/iostack/nvme/volume"
)

var emulator = &plain.Emulator{Others: training.Emulate}

// Emulate computes the kernels of training and those that drive queues; see cuda.Emulation.
func Emulate(kernel string, args []uint64, at func(address uint64) []byte) {
	emulator.Run(kernel, args, at)
}

// Open returns an emulated device, which the test checks for leaks.
func Open(t testing.TB) *cuda.Device {
	t.Helper()
	d, err := cuda.OpenEmulated(Emulate, cuda.Options{Code: kernels.Code})
	return checked(t, d, err)
}

// OpenFaulty returns one that fails when fails says so; see cuda.OpenFaulty.
func OpenFaulty(t testing.TB, fails func(call string) *cuda.Fault) *cuda.Device {
	t.Helper()
	d, err := cuda.OpenFaulty(Emulate, cuda.Options{Code: kernels.Code}, fails)
	return checked(t, d, err)
}

// OpenLate returns one whose streams are late, in an order that the seed draws; see
// cuda.OpenLate.
func OpenLate(t testing.TB, seed uint64) *cuda.Device {
	t.Helper()
	d, err := cuda.OpenLate(Emulate, cuda.Options{Code: kernels.Code}, cuda.Late{Seed: seed, Wrong: func(what string) { t.Errorf("seed %d: %s", seed, what) }})
	return checked(t, d, err)
}

func checked(t testing.TB, d *cuda.Device, err error) *cuda.Device {
	t.Helper()
	check(t, err)
	t.Cleanup(func() {
		if device, pinned := d.Held(); device != 0 || pinned != 0 || d.Left() != nil {
			t.Errorf("left behind: %d bytes of the device, %d pinned ones, %v", device, pinned, d.Left())
		}
		d.Close()
	})
	return d
}

// Load copies a finished directory to so many drives in software, and returns the kind of the
// storage stack that reads it there.
func Load(t testing.TB, dir string, drives int) (kind string) {
	t.Helper()
	size := int64(0)
	entries, err := os.ReadDir(dir)
	check(t, err)
	for _, e := range entries {
		info, err := e.Info()
		check(t, err)
		size += info.Size()
	}
	where := t.TempDir()
	var names []string
	for i := range drives {
		name := filepath.Join(where, string(rune('a'+i)))
		check(t, os.WriteFile(name, nil, 0o600))
		check(t, os.Truncate(name, (2*size/int64(drives)+16<<20)/nvme.Page*nvme.Page))
		names = append(names, name)
	}
	kind = target.Prefix + target.Soft + ":" + strings.Join(names, ",")
	at, err := target.Parse(kind)
	check(t, err)
	controllers, err := at.Up(context.Background(), target.How{FS: vfs.OS}, nvme.Options{})
	check(t, err)
	var to []volume.Drive
	for _, c := range controllers {
		d, err := volume.OnQueue(c, c.Queues()[0])
		check(t, err)
		to = append(to, d)
	}
	m, err := stage.ReadMeta(vfs.OS, dir, "directory")
	check(t, err)
	_, err = volume.Load(context.Background(), to, vfs.OS, dir, m, volume.Options{})
	check(t, err)
	for i, c := range controllers {
		check(t, to[i].(*volume.QueueDrive).Close())
		check(t, c.Close())
	}
	return kind
}

// Stack opens a kind that Load returned, with queues for a device. The caller closes it.
func Stack(t testing.TB, kind string, d *cuda.Device) devread.Stack {
	t.Helper()
	s, _, err := all.Open(kind, iostack.Options{Device: func() (*cuda.Device, error) { return d, nil }})
	check(t, err)
	return s.(devread.Stack)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
