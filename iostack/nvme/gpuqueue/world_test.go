package gpuqueue_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	training "diskgnn/device/cuda/kernels/plain"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/gpuqueue"
	"diskgnn/iostack/nvme/gpuqueue/plain"
	"diskgnn/iostack/nvme/soft"
)

// emulator has the twins of this package's kernels and of those of training.
var emulator = &plain.Emulator{Others: training.Emulate}

// onDevices runs a test on an emulated device, on late ones, and on a real one.
func onDevices(t *testing.T, test func(t *testing.T, d *cuda.Device)) {
	devices := cudatest.Emulator(emulator.Run)
	t.Run("emulated", func(t *testing.T) { test(t, devices.Open(t)) })
	devices.Late(t, cudatest.Orders, test)
	t.Run("gpu", func(t *testing.T) { test(t, realDevice(t)) })
}

// realDevice opens the first GPU, to which the test is attached.
func realDevice(t testing.TB) *cuda.Device {
	t.Helper()
	d := cudatest.Real(t, cuda.Options{})
	detach, err := d.Attach()
	check(t, err)
	t.Cleanup(detach)
	return d
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// driveBytes is the size of a test's drive.
const driveBytes = 1 << 20

// world is an array over drives in software, whose content is known, and a device's memory.
type world struct {
	testing.TB
	*cuda.Device
	array       *gpuqueue.Array
	content     []byte // of all drives
	controllers []*nvme.Controller
	streams     [2]*cuda.Stream
	arena       *cuda.Arena
	rnd         *rand.Rand
}

type setup struct {
	drives int
	soft   soft.Options
	nvme   nvme.Options
	array  gpuqueue.Options
	wrap   func(*soft.Drive) nvme.Transport // nil: the drive itself
}

func newWorld(t testing.TB, d *cuda.Device, s setup) *world {
	t.Helper()
	w := &world{TB: t, Device: d, rnd: rand.New(rand.NewPCG(uint64(s.drives), uint64(s.nvme.Depth)))}
	for i := range max(1, s.drives) {
		b := make([]byte, driveBytes)
		rand.NewChaCha8([32]byte{byte(i)}).Read(b)
		w.content = append(w.content, b...)
		name := filepath.Join(t.TempDir(), "drive")
		check(t, os.WriteFile(name, b, 0o600))
		drive, err := soft.Open(vfs.OS, name, s.soft)
		check(t, err)
		transport := nvme.Transport(drive)
		if s.wrap != nil {
			transport = s.wrap(drive)
		}
		c, err := nvme.Open(context.Background(), transport, s.nvme)
		check(t, err)
		t.Cleanup(func() { check(t, c.Close()) })
		w.controllers = append(w.controllers, c)
	}
	var err error
	w.array, err = gpuqueue.Open(d, w.controllers, s.array)
	check(t, err)
	w.arena, err = d.NewArena(32 << 20)
	check(t, err)
	for i := range w.streams {
		w.streams[i], err = d.NewStream()
		check(t, err)
	}
	t.Cleanup(func() {
		for _, s := range w.streams {
			_ = s.Synchronize()
			s.Free()
		}
		check(t, w.array.Close())
		w.arena.Free()
	})
	return w
}

// put copies values to the device's memory, on the first stream.
func put[T any](w *world, values []T) cuda.Buffer {
	w.Helper()
	n := len(values) * int(unsafe.Sizeof(*new(T)))
	b, err := w.arena.Take(int64(n))
	check(w, err)
	if n > 0 {
		check(w, w.streams[0].CopyIn(b, unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), n)))
		check(w, w.streams[0].Synchronize())
	}
	return b
}

func get[T any](w *world, b cuda.Buffer) []T {
	w.Helper()
	out := make([]byte, b.Bytes())
	check(w, w.streams[0].CopyOut(out, b))
	check(w, w.streams[0].Synchronize())
	if len(out) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&out[0])), len(out)/int(unsafe.Sizeof(*new(T))))
}

// reads is a micro-batch with what it should bring.
type reads struct {
	gpuqueue.Reads
	requests []gpuqueue.Request
	want     []byte
}

// draw returns n random reads of up to so many blocks, to places that do not overlap; two
// more could follow, which the count in device memory excludes.
func (w *world) draw(n, mostBlocks int) *reads {
	w.Helper()
	b := w.array.BlockBytes()
	r := &reads{}
	offset := 0
	for range n {
		blocks := 1 + w.rnd.IntN(mostBlocks)
		drives, per := w.array.Drives()
		at := uint64(w.rnd.IntN(drives))*per + uint64(w.rnd.IntN(int(per)-blocks))
		offset += 16 * w.rnd.IntN(3)
		r.requests = append(r.requests, gpuqueue.Request{Block: at, Offset: uint64(offset), Blocks: uint64(blocks)})
		r.want = append(r.want, bytes.Repeat([]byte{0xFF}, offset-len(r.want))...)
		r.want = append(r.want, w.content[at*uint64(b):][:blocks*b]...)
		offset = len(r.want)
	}
	r.want = append(r.want, bytes.Repeat([]byte{0xFF}, 64)...)
	excluded := gpuqueue.Request{Block: 0, Offset: 0, Blocks: 1}
	w.set(r, append(r.requests, excluded, excluded))
	r.Count = gpuqueue.Count{Most: n + 2, At: put(w, []uint32{uint32(n)})}
	return r
}

// set makes the micro-batch's memory, its destination full of ones.
func (w *world) set(r *reads, requests []gpuqueue.Request) {
	r.Requests, r.To = put(w, requests), put(w, bytes.Repeat([]byte{0xFF}, len(r.want)))
	r.Status = put(w, bytes.Repeat([]byte{0xFF}, 4*len(requests)))
	r.Count = gpuqueue.Count{Most: len(requests)}
}

// landed checks that the micro-batch's data is at its place, and nothing else was written.
func (w *world) landed(what string, r *reads) {
	w.Helper()
	if got := get[byte](w, r.To); !bytes.Equal(got, r.want) {
		for i := range got {
			if got[i] != r.want[i] {
				w.Fatalf("%s: byte %d of %d is %#x, want %#x", what, i, len(got), got[i], r.want[i])
			}
		}
	}
	for i, s := range get[gpuqueue.Status](w, r.Status) {
		if i < len(r.requests) && s != 0 || i >= len(r.requests) && s != ^gpuqueue.Status(0) {
			w.Fatalf("%s: request %d of %d has status %#x", what, i, len(r.requests), uint32(s))
		}
	}
}
