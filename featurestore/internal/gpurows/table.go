// Package gpurows is a table of rows for a GPU. The first rows are in its memory. The other rows are in RAM,
// and the GPU reads them over the bus. Turns order the batches that read the table and change it.
package gpurows

import (
	"fmt"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// Table holds rows, by entry. Set the exported fields before Open, which takes the memory.
type Table struct {
	Device device.GPU
	Near   int64 // entries below Near are in the memory of devices, the others in RAM
	// Devices is the number of devices that divide the entries below Near: entry e is row e / Devices of
	// device e % Devices. 0 or 1: Device has all of them. Part is the number of Device among them.
	Devices, Part int
	DType         dtype.Type
	Dim           int // elements of a row

	near   device.Buffer
	parts  device.Buffer // addresses of the devices' shares, if there are several
	beside bool          // pinned belongs to another table
	pinned *cuda.Pinned  // the RAM given to Open
	ram    device.Buffer // pinned, as the device sees it
	far    device.Buffer // the part of ram with the rows
}

func (t *Table) on() *cuda.Device { return cuda.DeviceOf(t.Device) }

// RowBytes returns the size of a row, in bytes.
func (t *Table) RowBytes() int64 { return int64(t.DType.RowBytes(t.Dim)) }

// Bytes returns the device memory of the rows below Near, in bytes. If several devices divide them, all
// shares have the same size, and some have room for a row more than they hold.
func (t *Table) Bytes() int64 {
	n := int64(max(1, t.Devices))
	return (t.Near + n - 1) / n * t.RowBytes()
}

// divided reports whether several devices divide the rows below Near.
func (t *Table) divided() bool { return t.Devices > 1 }

// PartsBytes returns the device memory of the addresses of the devices' shares, in bytes; 0 if the table is
// not divided.
func (t *Table) PartsBytes() int64 {
	if !t.divided() {
		return 0
	}
	return 8 * int64(t.Devices)
}

// LayParts takes PartsBytes out of an arena.
func (t *Table) LayParts(a device.Memory) (err error) {
	if !t.divided() {
		return nil
	}
	t.parts, err = a.Take(t.PartsBytes())
	return err
}

// Join copies the addresses of all devices' shares to this table's device, and waits for the copy. tables has
// the open table of each device, by Part. The calling goroutine must be attached to the device.
func (t *Table) Join(s device.Stream, tables []*Table) error {
	if !t.divided() {
		return nil
	}
	begin := make([]uint64, t.Devices)
	for i, o := range tables {
		begin[i] = o.near.Address()
	}
	if err := s.CopyIn(t.parts, binio.Bytes(begin)); err != nil {
		return err
	}
	return s.Synchronize()
}

// Stripe copies the bytes of b that belong to this device's share to dst. b is a range of the rows below
// Near, in order of entries, from byte lo on. Stripe returns the number of bytes copied, and their offset in
// the share.
func (t *Table) Stripe(dst, b []byte, lo int64) (n int, to int64) {
	devices, rb := int64(max(1, t.Devices)), t.RowBytes()
	end := lo + int64(len(b))
	row := lo / rb
	row += (int64(t.Part) - row%devices + devices) % devices
	to = row/devices*rb + max(0, lo-row*rb)
	for ; row*rb < end; row += devices {
		n += copy(dst[n:], b[max(row*rb, lo)-lo:min((row+1)*rb, end)-lo])
	}
	return n, to
}

// NearOf returns the number of entries below Near.
func (t *Table) NearOf(entries []uint32) (n int) {
	for _, e := range entries {
		if int64(e) < t.Near {
			n++
		}
	}
	return n
}

// Rows returns the device memory of the rows below Near: of this device's share if the table is divided.
func (t *Table) Rows() device.Buffer { return t.near }

// RAM returns the RAM given to Open, as the device sees it, from its first byte on.
func (t *Table) RAM() device.Buffer { return t.ram }

// Open takes memory of an arena for the rows below Near, and gives the device access to ram, which has the
// other rows from byte skip on; ram may be empty. The caller owns ram, and frees it after Close. The calling
// goroutine must be attached to the device.
func (t *Table) Open(a device.Memory, ram *device.Host, skip int64) (err error) {
	ram.Prefer(t.on().Node)
	if t.near, err = a.Take(t.Bytes()); err != nil {
		return err
	}
	if t.pinned, err = t.on().Register(ram.Bytes()); err != nil {
		return fmt.Errorf("RAM cache: %w", err)
	}
	return t.reach(skip)
}

// OpenBeside is Open with the RAM of another device's open table. Close that table after this one.
func (t *Table) OpenBeside(a device.Memory, other *Table, skip int64) (err error) {
	if t.near, err = a.Take(t.Bytes()); err != nil {
		return err
	}
	t.pinned, t.beside = other.pinned, true
	return t.reach(skip)
}

// reach sets ram and far.
func (t *Table) reach(skip int64) error {
	pages, err := t.on().Mapped(t.pinned)
	if err != nil || pages.Bytes() == 0 {
		return err
	}
	t.ram, t.far = pages, pages.Slice(skip, pages.Bytes()-skip)
	return nil
}

// Close releases the access to RAM, if Open got it. The calling goroutine must be attached to the device, and
// no work on the table may be under way.
func (t *Table) Close() {
	if t.pinned != nil && !t.beside {
		t.pinned.Free()
	}
	t.pinned = nil
}

// Gather submits to the stream the work that fills the first rows rows of x, a row-major float32 matrix:
// row i of x becomes the row of entry ids[i], widened. ids are uint32 in device memory.
func (t *Table) Gather(s device.Stream, x, ids device.Buffer, rows int) error {
	return kernels.Gather{Out: x, Stride: t.Dim, Table: t.near, Far: t.far, Near: int(t.Near), Type: t.DType, Width: t.Dim,
		Index: ids, Parts: t.parts, Devices: t.Devices, Rows: kernels.Rows(rows)}.Launch(cuda.StreamOf(s))
}

// Widen submits to the stream the work that converts rows rows of source, in the table's type, to float32 in
// x.
func (t *Table) Widen(s device.Stream, x, source device.Buffer, rows int) error {
	return kernels.Gather{Out: x, Stride: t.Dim, Table: source, Type: t.DType, Width: t.Dim, Rows: kernels.Rows(rows)}.Launch(cuda.StreamOf(s))
}

// Place submits to the stream the work that copies rows rows of source, in the table's type, to the entries
// in ids, which must be distinct. The table must not be divided.
func (t *Table) Place(s device.Stream, source, ids device.Buffer, rows int) error {
	return kernels.Place{Table: t.near, Far: t.far, Near: int(t.Near), RowBytes: int(t.RowBytes()), Rows: kernels.Rows(rows),
		Source: source, Index: ids}.Launch(cuda.StreamOf(s))
}

// Fit returns the number of rows for a GPU cache: with o.GPUCache the rows that it asks for, otherwise all
// rows that fit into room bytes; never more than most. If o.GPUCache does not fit, the error is of kind
// fault.ErrBudget.
func Fit(o *featurestore.PlanOptions, room, most, nodes int64, rowBytes int) (int64, error) {
	room = room / cuda.Align * cuda.Align // an arena hands out multiples of cuda.Align
	fits := min(room/int64(rowBytes), most)
	wish := o.GPUCache
	if wish == nil {
		return fits, nil
	}
	wanted, err := wish.Rows(nodes, rowBytes)
	if err != nil {
		return 0, err
	}
	if wanted = min(wanted, most); wanted > fits {
		return 0, fault.New(fault.ErrBudget, "--gpu-cache %s (%s) does not fit: the GPU has room for %s", wish,
			budget.FormatBytes(wanted*int64(rowBytes)), budget.FormatBytes(room))
	}
	return wanted, nil
}
