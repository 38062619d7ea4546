package gpuread_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/device/cuda/kernels"
	training "diskgnn/device/cuda/kernels/plain"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/array"
	"diskgnn/iostack/nvme/gpuqueue"
	"diskgnn/iostack/nvme/gpuqueue/plain"
	"diskgnn/iostack/nvme/gpuread"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

var emulator = &plain.Emulator{Others: training.Emulate}

// onDevices runs a test on an emulated device, on late ones, and on a real one.
func onDevices(t *testing.T, test func(t *testing.T, d *cuda.Device)) {
	cudatest.Emulator(emulator.Run).Everywhere(t, cudatest.Orders, test)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const driveBytes = 1 << 20

// world is a stack on drives in software, whose blocks are one file, and a device.
type world struct {
	testing.TB
	*cuda.Device
	stack   *array.Stack
	file    iostack.File
	content []byte
	reader  *gpuread.Reader
	streams [2]*cuda.Stream
	arena   *cuda.Arena
	rnd     *rand.Rand
}

type none struct{}

func (none) Find(name string) (array.File, error) {
	return nil, fmt.Errorf("%s: %w", name, iostack.ErrElsewhere)
}

// newWorld lends queues of five entries, of which the reader takes those that it needs.
func newWorld(t *testing.T, d *cuda.Device, drives int, s soft.Options, n iostack.DeviceNeed) *world {
	t.Helper()
	w := &world{TB: t, Device: d, rnd: rand.New(rand.NewPCG(uint64(drives), uint64(n.Request)))}
	var transports []nvme.Transport
	for i := range drives {
		b := make([]byte, driveBytes)
		rand.NewChaCha8([32]byte{byte(i)}).Read(b)
		w.content = append(w.content, b...)
		name := filepath.Join(t.TempDir(), "drive")
		check(t, os.WriteFile(name, b, 0o600))
		drive, err := soft.Open(vfs.OS, name, s)
		check(t, err)
		transports = append(transports, drive)
	}
	var err error
	w.stack, err = array.New(t.Context(), transports, array.Options{Options: iostack.Options{Workers: 3}, Lent: 2, LentDepth: 5},
		func([]*nvme.Controller) (array.Table, error) { return none{}, nil })
	check(t, err)
	t.Cleanup(func() { check(t, w.stack.Close()) })
	w.file, err = w.stack.Flat()
	check(t, err)
	t.Cleanup(func() { check(t, w.file.Close()) })
	w.reader, err = gpuread.New(d, w.stack, n)
	check(t, err)
	check(t, w.Attached(func() (err error) {
		if w.arena, err = d.NewArena(8 << 20); err != nil {
			return err
		}
		for i := range w.streams {
			if w.streams[i], err = d.NewStream(); err != nil {
				return err
			}
		}
		return nil
	}))
	t.Cleanup(func() {
		check(t, w.reader.Close())
		check(t, w.Attached(func() error {
			for _, s := range w.streams {
				s.Free()
			}
			w.arena.Free()
			return nil
		}))
	})
	return w
}

// reads is a batch with what it should bring.
type reads struct {
	iostack.DeviceBatch
	to   cuda.Buffer
	want []byte
}

func (w *world) newReads(bytes int64) *reads {
	w.Helper()
	r := new(reads)
	var err error
	r.to, err = w.arena.Take(bytes)
	check(w, err)
	r.DeviceBatch, err = w.reader.NewBatch(r.to)
	check(w, err)
	w.Cleanup(r.Free)
	return r
}

// draw adds random reads of up to so many pages, until the batch has so many pages.
func (w *world) draw(r *reads, most, pages int) {
	w.Helper()
	r.want = r.want[:0]
	for left := pages; left > 0; {
		n := min(left, 1+w.rnd.IntN(most))
		off := int64(w.rnd.IntN(len(w.content)/iostack.Align-n)) * iostack.Align
		check(w, r.Add(w.file, off, int64(n*iostack.Align), int64(len(r.want))))
		r.want = append(r.want, w.content[off:][:n*iostack.Align]...)
		left -= n
	}
}

// landed checks what the destination has, behind what the stream does.
func (w *world) landed(s *cuda.Stream, r *reads) {
	w.Helper()
	got := make([]byte, len(r.want))
	check(w, w.Attached(func() error {
		check(w, s.CopyOut(got, r.to.Slice(0, int64(len(got)))))
		return s.Synchronize()
	}))
	if !bytes.Equal(got, r.want) {
		w.Fatal("other bytes")
	}
}

func (w *world) complete(s *cuda.Stream, r *reads) {
	w.Helper()
	check(w, w.Attached(func() error { return r.Complete(s) }))
}

// Three batches are under way, on one drive and on three, and are completed one after the
// other, while the host reads from the same drives; each is right when it was completed. They
// have less than the queues have room for, or more, so that some of them are completed early.
func TestBatches(t *testing.T) {
	for _, drives := range []int{1, 3} {
		for _, pages := range []int{0, 1, 3, 40} {
			t.Run(fmt.Sprintf("%d drives, %d pages", drives, pages), func(t *testing.T) {
				onDevices(t, func(t *testing.T, d *cuda.Device) {
					w := newWorld(t, d, drives, soft.Options{}, iostack.DeviceNeed{Request: 2 * iostack.Align, Bytes: int64(pages * iostack.Align), Batches: 3})
					var under []*reads
					for range 3 {
						under = append(under, w.newReads(int64(pages*iostack.Align)))
					}
					host := make([]byte, 5000)
					for i := range 7 {
						r := under[i%3]
						if i >= 3 {
							s := w.streams[i%2]
							w.complete(s, r)
							w.landed(s, r)
							check(t, r.End())
						}
						w.draw(r, 5, pages)
						check(t, r.Submit())
						var g iostack.Group
						off := int64(w.rnd.IntN(len(w.content) - len(host)))
						check(t, w.stack.Submit(&g, []iostack.Request{{File: w.file, Offset: off, Buf: host}}))
						check(t, w.stack.Wait(t.Context(), &g))
						if !bytes.Equal(host, w.content[off:][:len(host)]) {
							t.Fatal("the host read something else")
						}
					}
					for _, r := range under { // those that nobody completes
						check(t, r.End())
						check(t, r.End())
					}
				})
			})
		}
	}
}

// The read that fails is named, with the controller's status, and the batches around it are
// not touched.
func TestFailure(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		bad := uint64(77 * iostack.Align / 512)
		w := newWorld(t, d, 1, soft.Options{Fate: func(c *spec.Command) (f soft.Fate) {
			if first, _ := c.Blocks(); c.Opcode() == spec.Read && first == bad {
				f.Status = spec.UnrecoveredReadError
			}
			return f
		}}, iostack.DeviceNeed{Request: iostack.Align, Bytes: 12 * iostack.Align, Batches: 2})
		a, b := w.newReads(12*iostack.Align), w.newReads(12*iostack.Align)
		for i := range int64(12) {
			check(t, a.Add(w.file, (70+i)*iostack.Align, iostack.Align, i*iostack.Align))
		}
		check(t, a.Submit())
		w.draw(b, 1, 3)
		check(t, b.Submit())
		w.complete(w.streams[0], a)
		var failed *iostack.ReadError
		if err := a.End(); !errors.As(err, &failed) || !errors.Is(err, spec.UnrecoveredReadError) || failed.Offset != 77*iostack.Align || failed.Index != 7 || failed.File != w.file.Name() {
			t.Errorf("a read that fails: %v", err)
		}
		w.complete(w.streams[1], b)
		w.landed(w.streams[1], b)
		check(t, b.End())
	})
}

// A completion that never comes is waited for until Abort. The host goes on reading from the
// same controller.
func TestAbort(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		var drop atomic.Bool
		w := newWorld(t, d, 1, soft.Options{Fate: func(c *spec.Command) soft.Fate { return soft.Fate{Drop: drop.Load()} }},
			iostack.DeviceNeed{Request: iostack.Align, Bytes: 4 * iostack.Align, Batches: 1})
		r := w.newReads(4 * iostack.Align)
		w.draw(r, 1, 2)
		drop.Store(true)
		w.reader.Abort()
		check(t, r.Submit())
		if err := r.End(); !errors.Is(err, gpuqueue.ErrLost) {
			t.Errorf("a completion that is missing: %v", err)
		}
	})
}

// What cannot be read is refused on the host.
func TestRefused(t *testing.T) {
	d, err := cuda.OpenEmulated(emulator.Run, cuda.Options{Code: kernels.Code})
	check(t, err)
	t.Cleanup(d.Close)
	w := newWorld(t, d, 1, soft.Options{}, iostack.DeviceNeed{Request: iostack.Align, Bytes: 2 * iostack.Align, Batches: 1})
	r := w.newReads(8 * iostack.Align)
	for what, err := range map[string]error{
		"an offset within a page":  r.Add(w.file, 512, 512, 0),
		"a place within a page":    r.Add(w.file, 0, 512, 16),
		"more than the place has":  r.Add(w.file, 0, 4097, 7*iostack.Align),
		"bytes behind the file":    r.Add(w.file, w.file.Size(), 1, 0),
		"more than the batch has":  r.Add(w.file, 0, 3*iostack.Align, 0),
		"a file of somebody else":  r.Add(other{}, 0, 1, 0),
		"a file, when it is asked": w.reader.Check(other{}),
	} {
		if err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	check(t, w.reader.Check(w.file))
	if _, err := gpuread.New(d, w.stack, iostack.DeviceNeed{Request: iostack.Align, Bytes: 1, Batches: 1}); err == nil {
		t.Error("queues are lent twice")
	}
	for _, n := range []iostack.DeviceNeed{{Request: 0, Batches: 1}, {Request: 1000, Batches: 1}, {Request: iostack.Align, Batches: 0}, {Request: iostack.Align, Bytes: -1, Batches: 1}} {
		if _, err := gpuread.Terms(w.stack, n); err == nil {
			t.Errorf("%+v is possible", n)
		}
	}
}

type other struct{ iostack.File }

func (other) Name() string { return "other" }
func (other) Size() int64  { return 1 << 20 }

// What is taken is what the terms say, or a little less.
func TestTerms(t *testing.T) {
	d, err := cuda.OpenEmulated(emulator.Run, cuda.Options{Code: kernels.Code})
	check(t, err)
	t.Cleanup(d.Close)
	for _, request := range []int{1, 2, 8} {
		before, _ := d.Held()
		n := iostack.DeviceNeed{Request: request * iostack.Align, Bytes: 100 * iostack.Align, Batches: 2}
		w := newWorld(t, d, 2, soft.Options{}, n)
		terms, err := gpuread.Terms(w.stack, n)
		check(t, err)
		held, _ := d.Held()
		if held -= before + 8<<20; held != terms.Device {
			t.Errorf("pages of %d: %d bytes of the device are held, %d were said", request, held, terms.Device)
		}
		before, pinned := d.Held()
		w.newReads(0)
		after, now := d.Held()
		if after-before != terms.BatchDevice || now-pinned > terms.BatchHost {
			t.Errorf("pages of %d: a batch takes %d and %d bytes, %d and %d were said", request, after-before, now-pinned, terms.BatchDevice, terms.BatchHost)
		}
	}
}
