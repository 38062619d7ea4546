package storetest

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
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/gpuqueue/plain"
	"diskgnn/iostack/nvme/target"
	"diskgnn/iostack/nvme/volume"
)

// DriveDevices have the twins of the kernels of training, and of those that drive queues.
var DriveDevices = cudatest.Emulator((&plain.Emulator{Others: training.Emulate}).Run)

// OpenDriveDevice returns an emulated device, which the test checks for leaks.
func OpenDriveDevice(t testing.TB) *cuda.Device {
	t.Helper()
	return DriveDevices.Open(t)
}

// LoadDrives copies a finished directory to so many drives in software, and returns the kind of the
// storage stack that reads it there.
func LoadDrives(t testing.TB, dir string, drives int) (kind string) {
	t.Helper()
	size := int64(0)
	entries, err := os.ReadDir(dir)
	must(t)(err)
	for _, e := range entries {
		info, err := e.Info()
		must(t)(err)
		size += info.Size()
	}
	where := t.TempDir()
	var names []string
	for i := range drives {
		name := filepath.Join(where, string(rune('a'+i)))
		must(t)(os.WriteFile(name, nil, 0o600))
		must(t)(os.Truncate(name, (2*size/int64(drives)+16<<20)/nvme.Page*nvme.Page))
		names = append(names, name)
	}
	kind = target.Prefix + target.Soft + ":" + strings.Join(names, ",")
	at, err := target.Parse(kind)
	must(t)(err)
	controllers, err := at.Up(context.Background(), target.How{FS: vfs.OS}, nvme.Options{})
	must(t)(err)
	var to []volume.Drive
	for _, c := range controllers {
		d, err := volume.OnQueue(c, c.Queues()[0])
		must(t)(err)
		to = append(to, d)
	}
	m, err := stage.ReadMeta(vfs.OS, dir, "directory")
	must(t)(err)
	_, err = volume.Load(context.Background(), to, vfs.OS, dir, m, volume.Options{})
	must(t)(err)
	for i, c := range controllers {
		must(t)(to[i].(*volume.QueueDrive).Close())
		must(t)(c.Close())
	}
	return kind
}

// SpoilDrives changes a bit of every page that a directory's files of some names, which are patterns,
// have on the drive of a kind that Load returned for one drive.
func SpoilDrives(t testing.TB, kind, dir string, patterns ...string) {
	t.Helper()
	at, err := target.Parse(kind)
	must(t)(err)
	b, err := os.ReadFile(at.Parts[0])
	must(t)(err)
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		must(t)(err)
		for _, name := range names {
			content, err := os.ReadFile(name)
			must(t)(err)
			from := bytes.Index(b, content[:min(len(content), nvme.Page)])
			for k := 0; k < len(content); k += nvme.Page {
				b[from+k] ^= 1
			}
		}
	}
	must(t)(os.WriteFile(at.Parts[0], b, 0o600))
}

// OpenDrives opens a kind that Load returned, with queues for a device. The caller closes it.
func OpenDrives(t testing.TB, kind string, d *cuda.Device) iostack.DeviceStack {
	t.Helper()
	s, _, err := all.Open(kind, iostack.Options{Device: func() (*cuda.Device, error) { return d, nil }})
	must(t)(err)
	return s.(iostack.DeviceStack)
}
