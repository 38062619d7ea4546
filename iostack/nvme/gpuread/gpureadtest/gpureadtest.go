// Package gpureadtest lets tests have a GPU read from drives by itself, where there is none:
// emulated devices that run the kernels' twins, and drives in software that hold a directory.
package gpureadtest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
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

// Devices have the twins of the kernels of training, and of those that drive queues.
var Devices = cudatest.Emulator((&plain.Emulator{Others: training.Emulate}).Run)

// Open returns an emulated device, which the test checks for leaks.
func Open(t testing.TB) *cuda.Device {
	t.Helper()
	return Devices.Open(t)
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

// Spoil changes a bit of every page that a directory's files of some names, which are patterns,
// have on the drive of a kind that Load returned for one drive.
func Spoil(t testing.TB, kind, dir string, patterns ...string) {
	t.Helper()
	at, err := target.Parse(kind)
	check(t, err)
	b, err := os.ReadFile(at.Parts[0])
	check(t, err)
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		check(t, err)
		for _, name := range names {
			content, err := os.ReadFile(name)
			check(t, err)
			from := bytes.Index(b, content[:min(len(content), nvme.Page)])
			for k := 0; k < len(content); k += nvme.Page {
				b[from+k] ^= 1
			}
		}
	}
	check(t, os.WriteFile(at.Parts[0], b, 0o600))
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
