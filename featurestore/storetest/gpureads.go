package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	training "diskgnn/device/cuda/kernels/plain"
	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/gpuqueue/plain"
	"diskgnn/iostack/nvme/target"
	"diskgnn/iostack/nvme/volume"
)

func (s *suite) rowsDir() string {
	if s.c.Lineage().Store != "" {
		return s.c.Dir()
	}
	return s.w.Dataset
}

// readByGPU: batches that a GPU reads from drives are the same, for any order of work of its streams.
func (s *suite) readByGPU(t *testing.T) {
	if !s.has(GPUReads) {
		t.Skip("the host reads")
	}
	kind := LoadDrives(t, s.rowsDir(), 2)
	run := func(t *testing.T, d *cuda.Device) {
		in := OpenDrives(t, kind, d)
		defer in.Close()
		o := s.gpuShare(t, d, 10)
		o.Reads = in
		l, err := s.c.Plan(many(o))
		must(t)(err)
		if l.QueueBytes == 0 {
			t.Fatalf("the host reads: %s", l.Note)
		}
		s.trained(t, d, in, o)
	}
	t.Run("emulated", func(t *testing.T) { run(t, OpenDriveDevice(t)) })
	for seed := range uint64(4) {
		t.Run("late", func(t *testing.T) { run(t, DriveDevices.OpenLate(t, 2*seed+1)) })
	}
}

// spoiledOnDrives: if every page of the rows has a changed bit on the drive, each batch with reads by the
// GPU fails as damaged, before its matrix is used.
func (s *suite) spoiledOnDrives(t *testing.T) {
	if !s.has(GPUReads) {
		t.Skip("the host reads")
	}
	d := OpenDriveDevice(t)
	kind := LoadDrives(t, s.rowsDir(), 1)
	in := OpenDrives(t, kind, d)
	defer in.Close()
	o := s.gpuShare(t, d, 0)
	o.Reads, o.Cache = in, &budget.Size{Unit: budget.UnitPercent}
	if _, err := s.c.Plan(many(o)); err != nil {
		o.Cache = nil // the smallest cache
	}
	st, err := open(s.c, in, o)
	must(t)(err)
	defer func() { must(t)(st.close()) }()
	_, err = st.Fill(t.Context(), 0, progress.Discard)
	must(t)(err)
	SpoilDrives(t, kind, s.rowsDir(), dataset.FeaturesFile, "cold-*.bin")
	refused := 0
	for _, ref := range refs(s.facts, featurestore.Train) {
		sl := st.slot(ref)
		must(t)(Load(t.Context(), sl, ref))
		x, err := OnGPU(sl, d, len(sl.Batch().Input)*s.facts.Dim)
		c := sl.Counts()
		switch read := c.BytesRead > c.GraphRead; {
		case read && !errors.Is(err, fault.ErrCorrupt):
			t.Fatalf("%v has read %d bytes: %v", ref, c.BytesRead-c.GraphRead, err)
		case read:
			refused++
		case err != nil:
			t.Fatalf("%v, which has read nothing: %v", ref, err)
		default:
			s.w.Holds(t, ref, sl.Batch(), x, s.facts.DType)
		}
		if s.c.InOrder() && err != nil {
			break // the cache is lost
		}
	}
	if refused == 0 {
		t.Skip("all rows are in memory")
	}
}

// callsOfReadsFail: the error of calls of the device reaches the caller also if the GPU reads, and no
// object is left on the device. Not every call is tried.
func (s *suite) callsOfReadsFail(t *testing.T) {
	if !s.has(GPUReads) {
		t.Skip("the host reads")
	}
	kind := LoadDrives(t, s.rowsDir(), 1)
	for n, failed := 0, true; failed; n += 1 + n/2 {
		failed = false
		calls, closing := 0, false
		d := DriveDevices.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
			if calls++; calls-1 != n || closing {
				return nil
			}
			failed = true
			return &cuda.Fault{Why: fmt.Sprintf("call %d, %s, fails", n, call), OutOfMemory: true}
		})
		in := OpenDrives(t, kind, d)
		o := s.gpuShare(t, d, 10)
		o.Reads = in
		if err := s.workWith(d, in, o, &closing); failed != (err != nil) {
			t.Fatalf("call %d fails: %v, and the store says %v", n, failed, err)
		}
		must(t)(in.Close())
	}
}

// budgetOfReads: a store with reads by the GPU takes the device memory of the layout.
func (s *suite) budgetOfReads(t *testing.T) {
	if !s.has(GPUReads) {
		t.Skip("the host reads")
	}
	d := OpenDriveDevice(t)
	in := OpenDrives(t, LoadDrives(t, s.rowsDir(), 3), d)
	defer in.Close()
	o := many(s.gpuShare(t, d, 10))
	o.Reads = in
	l, err := s.c.Plan(o)
	must(t)(err)
	st, err := s.c.Open(in, l)
	must(t)(err)
	sl, err := st.View(0).NewSlot(false)
	must(t)(err)
	if held, _ := d.Held(); held != l.GPUBytes+l.GPUSlotBytes {
		t.Errorf("%d bytes of the device are held, %d and %d planned", held, l.GPUBytes, l.GPUSlotBytes)
	}
	sl.Free()
	must(t)(st.Close())
	o = withoutRows(o)
	l, err = s.c.Plan(o)
	must(t)(err)
	o.GPUMemory = l.GPUBytes + l.GPUSlotBytes - 1
	if l, err = s.c.Plan(o); err != nil || l.QueueBytes != 0 || !strings.Contains(l.Note, "the host submits the reads of batches") {
		t.Errorf("with a byte less than the GPU needs to read: %v; %+v", err, l)
	}
}

// many returns options with more memory than any store takes.
func many(o featurestore.PlanOptions) featurestore.PlanOptions {
	o.Memory, o.Slots, o.EvalSlots, o.MostSlots = 1<<40, 1, 1, 1
	return o
}

// DriveDevices makes emulated devices with the kernels of training and of gpuqueue.
var DriveDevices = cudatest.Emulator((&plain.Emulator{Others: training.Emulate}).Run)

// OpenDriveDevice returns an emulated device of DriveDevices, which the test checks for leaks.
func OpenDriveDevice(t testing.TB) *cuda.Device {
	t.Helper()
	return DriveDevices.Open(t)
}

// LoadDrives copies a finished directory to the given number of software drives, and returns the kind of
// the storage stack that reads it from there.
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

// SpoilDrives changes a bit of every page of a directory's files that match one of the patterns, on the
// drive. kind is a result of LoadDrives with one drive.
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

// OpenDrives opens the storage stack of a result of LoadDrives, with queues for a device. The caller
// closes it.
func OpenDrives(t testing.TB, kind string, d *cuda.Device) iostack.DeviceStack {
	t.Helper()
	s, _, err := all.Open(kind, iostack.Options{Device: func() (device.GPU, error) { return d, nil }})
	must(t)(err)
	return s.(iostack.DeviceStack)
}
