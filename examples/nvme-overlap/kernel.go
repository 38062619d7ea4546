package main

import (
	"errors"
	"fmt"
	"unsafe"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/device/cuda/kernels/plain"
	"diskgnn/iostack/nvme"
)

// kernel computes the CRC-32C of every read in a slot, while the other slot is read into.
type kernel interface {
	name() string
	start(slot int) error    // returns at once
	wait() ([]uint32, error) // returns the checksums; the next start overwrites them
	close()
}

// newKernel returns the kernel on a GPU, or its plain twin without a GPU.
func newKernel(slots []*nvme.Memory, w work) (kernel, error) {
	d, err := kernels.Open(0, cuda.Options{})
	if errors.Is(err, cuda.ErrNoDevice) {
		return newTwin(slots, w, err.Error()), nil
	}
	if err != nil {
		return nil, err
	}
	return newGPU(d, slots, w)
}

// ranges returns the offset in a slot and the length of each read, in bytes.
func (w work) ranges() (r []uint64) {
	for i := range w.batch() {
		r = append(r, uint64(i*w.bytes), uint64(w.bytes))
	}
	return r
}

// twin is the kernel in plain Go.
type twin struct {
	slots  []*nvme.Memory
	ranges []uint64
	sums   []uint32
	why    string
	done   chan struct{}
}

func newTwin(slots []*nvme.Memory, w work, why string) *twin {
	return &twin{slots: slots, ranges: w.ranges(), sums: make([]uint32, w.batch()), why: why, done: make(chan struct{})}
}

func (k *twin) name() string { return "its twin on the host: " + k.why }

func (k *twin) start(slot int) error {
	go func() {
		plain.Checksum(k.sums, k.slots[slot].Bytes, k.ranges, len(k.sums))
		k.done <- struct{}{}
	}()
	return nil
}

func (k *twin) wait() ([]uint32, error) {
	<-k.done
	return k.sums, nil
}

func (k *twin) close() {}

// gpu is the kernel on a device, which reads slots over the bus.
type gpu struct {
	d      *cuda.Device
	detach func()
	stream *cuda.Stream
	arena  *cuda.Arena
	pinned []*cuda.Pinned
	slots  []cuda.Buffer
	ranges cuda.Buffer
	device cuda.Buffer  // checksums on the device
	host   *cuda.Pinned // checksums on the host
	rows   int
}

// newGPU pins the slots for a device. It takes over the device: close closes it.
func newGPU(d *cuda.Device, slots []*nvme.Memory, w work) (_ *gpu, err error) {
	k := &gpu{d: d, rows: w.batch()}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	if k.detach, err = d.Attach(); err != nil {
		return nil, err
	}
	if k.stream, err = d.NewStream(); err != nil {
		return nil, err
	}
	for _, m := range slots {
		p, err := d.Register(m.Bytes)
		if err != nil {
			return nil, err
		}
		k.pinned = append(k.pinned, p)
		b, err := p.Buffer()
		if err != nil {
			return nil, err
		}
		k.slots = append(k.slots, b)
	}
	ranges := w.ranges()
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&ranges[0])), 8*len(ranges))
	if k.arena, err = d.NewArena(int64(len(bytes)+4*k.rows) + 2*cuda.Align); err != nil {
		return nil, err
	}
	if k.ranges, err = k.arena.Take(int64(len(bytes))); err != nil {
		return nil, err
	}
	if k.device, err = k.arena.Take(4 * int64(k.rows)); err != nil {
		return nil, err
	}
	if k.host, err = d.NewPinned(4 * int64(k.rows)); err != nil {
		return nil, err
	}
	if err = k.stream.CopyIn(k.ranges, bytes); err != nil {
		return nil, err
	}
	return k, k.stream.Synchronize()
}

func (k *gpu) name() string { return "on the GPU: " + k.d.Name }

func (k *gpu) start(slot int) error {
	err := kernels.Checksum{Sums: k.device, Data: k.slots[slot], Ranges: k.ranges, Rows: kernels.Rows(k.rows)}.Launch(k.stream)
	if err != nil {
		return fmt.Errorf("launch the kernel: %w", err)
	}
	return k.stream.CopyOut(k.host.Bytes(), k.device)
}

func (k *gpu) wait() ([]uint32, error) {
	err := k.stream.Synchronize()
	return unsafe.Slice((*uint32)(unsafe.Pointer(&k.host.Bytes()[0])), k.rows), err
}

func (k *gpu) close() {
	if k.stream != nil {
		_ = k.stream.Synchronize()
		k.stream.Free()
	}
	for _, p := range k.pinned {
		p.Free()
	}
	if k.host != nil {
		k.host.Free()
	}
	if k.arena != nil {
		k.arena.Free()
	}
	if k.detach != nil {
		k.detach()
	}
	k.d.Close()
}
