// Package gpurows is a table of rows for a GPU, the first of them in its memory, the others
// in RAM, where it reads them over the bus; and the turns in which batches take rows from it
// and change it.
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

// Table holds rows, by entry. Its fields say which rows it will hold; Open takes the memory.
type Table struct {
	Device *cuda.Device
	Near   int64 // entries below are in the memory of devices
	// Devices have these entries in equal shares: entry e is with device e % Devices, as its
	// row e / Devices. 0 or 1: this one has them all. Part says which of them this is.
	Devices, Part int
	DType         dtype.Type
	Dim           int // elements of a row

	near   cuda.Buffer
	parts  cuda.Buffer  // where the devices' shares begin, if there are several
	beside bool         // pinned is another table's
	pinned *cuda.Pinned // the rows in RAM, and what lies before them
	ram    cuda.Buffer  // what is registered, as the device sees it,
	far    cuda.Buffer  // and the rows in RAM
}

// RowBytes returns the bytes of a row.
func (t *Table) RowBytes() int64 { return int64(t.DType.RowBytes(t.Dim)) }

// Bytes returns the device's memory that rows take: equal shares, of which the last may have a
// row to spare.
func (t *Table) Bytes() int64 {
	n := int64(max(1, t.Devices))
	return (t.Near + n - 1) / n * t.RowBytes()
}

// divided reports whether several devices have the rows.
func (t *Table) divided() bool { return t.Devices > 1 }

// PartsBytes returns the device's memory that says where the devices' shares begin.
func (t *Table) PartsBytes() int64 {
	if !t.divided() {
		return 0
	}
	return 8 * int64(t.Devices)
}

// LayParts takes that memory.
func (t *Table) LayParts(a *cuda.Arena) (err error) {
	if !t.divided() {
		return nil
	}
	t.parts, err = a.Take(t.PartsBytes())
	return err
}

// Join tells a table, through a stream, where the shares of all devices begin. tables has the table of
// each device, in order, all of them open. The calling goroutine is attached.
func (t *Table) Join(s *cuda.Stream, tables []*Table) error {
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

// Stripe copies this device's share of the bytes b to dst. b is a part of the rows below Near laid one
// after the other, and begins at byte lo of them. Stripe returns the number of bytes copied, and their
// offset in the share.
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

// NearOf counts the entries that have their row in the device's memory.
func (t *Table) NearOf(entries []uint32) (n int) {
	for _, e := range entries {
		if int64(e) < t.Near {
			n++
		}
	}
	return n
}

// Rows returns the rows in the device's memory.
func (t *Table) Rows() cuda.Buffer { return t.near }

// RAM returns the memory with the rows in RAM as the device sees it, from its first byte on.
func (t *Table) RAM() cuda.Buffer { return t.ram }

// Open takes memory of an arena for the near rows, and lets the device access the other rows, which lie
// in ram after skip bytes; ram may be empty. The caller keeps ram and frees it after Close. The calling
// goroutine is attached.
func (t *Table) Open(a *cuda.Arena, ram *device.Host, skip int64) (err error) {
	ram.Prefer(t.Device.Node)
	if t.near, err = a.Take(t.Bytes()); err != nil {
		return err
	}
	if t.pinned, err = t.Device.Register(ram.Bytes()); err != nil {
		return fmt.Errorf("RAM cache: %w", err)
	}
	return t.reach(skip)
}

// OpenBeside is Open with the RAM of another device's table, which is closed after this one.
func (t *Table) OpenBeside(a *cuda.Arena, other *Table, skip int64) (err error) {
	if t.near, err = a.Take(t.Bytes()); err != nil {
		return err
	}
	t.pinned, t.beside = other.pinned, true
	return t.reach(skip)
}

// reach finds out where the device sees the rows in RAM.
func (t *Table) reach(skip int64) error {
	pages, err := t.Device.Mapped(t.pinned)
	if err != nil || pages.Bytes() == 0 {
		return err
	}
	t.ram, t.far = pages, pages.Slice(skip, pages.Bytes()-skip)
	return nil
}

// Close is for a table that was opened, or was not. The calling goroutine is attached, and
// no work on the table is under way.
func (t *Table) Close() {
	if t.pinned != nil && !t.beside {
		t.pinned.Free()
	}
	t.pinned = nil
}

// Gather submits the work that fills the first rows of x, a row-major matrix of float32, with the rows
// of the entries in ids, which are uint32 in the device's memory.
func (t *Table) Gather(s *cuda.Stream, x, ids cuda.Buffer, rows int) error {
	return kernels.Gather{Out: x, Stride: t.Dim, Table: t.near, Far: t.far, Near: int(t.Near), Type: t.DType, Width: t.Dim,
		Index: ids, Parts: t.parts, Devices: t.Devices, Rows: kernels.Rows(rows)}.Launch(s)
}

// Widen submits the work that converts rows of source, in the table's type, to float32 in x.
func (t *Table) Widen(s *cuda.Stream, x, source cuda.Buffer, rows int) error {
	return kernels.Gather{Out: x, Stride: t.Dim, Table: source, Type: t.DType, Width: t.Dim, Rows: kernels.Rows(rows)}.Launch(s)
}

// Place submits the work that copies rows of source, in the table's type, to the entries in ids, none
// of them twice. The table must not be divided.
func (t *Table) Place(s *cuda.Stream, source, ids cuda.Buffer, rows int) error {
	return kernels.Place{Table: t.near, Far: t.far, Near: int(t.Near), RowBytes: int(t.RowBytes()), Rows: kernels.Rows(rows),
		Source: source, Index: ids}.Launch(s)
}

// Fit returns the number of rows that a device with room bytes for them holds: all that fit, up to most,
// or, where the options wish for a GPU cache, the wished number. The wish is a share of the nodes, or
// bytes; a wish that does not fit is an error of kind fault.ErrBudget.
func Fit(o *featurestore.PlanOptions, room, most, nodes int64, rowBytes int) (int64, error) {
	room = room / cuda.Align * cuda.Align // which is how it is handed out
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
