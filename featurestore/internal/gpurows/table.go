// Package gpurows is a table of rows for a GPU, the first of them in its memory, the others
// in RAM, where it reads them over the bus; and the turns in which batches take rows from it
// and change it.
package gpurows

import (
	"fmt"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// Table are rows, by entry. Its fields say what it will hold; Open takes the memory.
type Table struct {
	Device *cuda.Device
	Near   int64 // entries below are in the device's memory
	DType  dtype.Type
	Dim    int // elements of a row

	near   cuda.Buffer
	pinned *cuda.Pinned // the rows in RAM, and what lies before them
	ram    cuda.Buffer  // what is registered, as the device sees it,
	far    cuda.Buffer  // and the rows in RAM
}

// RowBytes returns the bytes of a row.
func (t *Table) RowBytes() int64 { return int64(t.DType.RowBytes(t.Dim)) }

// Bytes returns the device's memory that rows take.
func (t *Table) Bytes() int64 { return t.Near * t.RowBytes() }

// NearOf counts the entries whose rows are in the device's memory.
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

// Open takes memory of an arena, and lets the device use that of the others: ram has them,
// which may be none, after some bytes to skip. It stays the caller's, who frees it after
// Close. The calling goroutine is attached.
func (t *Table) Open(a *cuda.Arena, ram *device.Host, skip int64) (err error) {
	ram.Prefer(t.Device.Node)
	if t.near, err = a.Take(t.Bytes()); err != nil {
		return err
	}
	if t.pinned, err = t.Device.Register(ram.Bytes()); err != nil {
		return fmt.Errorf("RAM cache: %w", err)
	}
	pages, err := t.pinned.Buffer()
	if err != nil || pages.Bytes() == 0 {
		return err
	}
	t.ram, t.far = pages, pages.Slice(skip, pages.Bytes()-skip)
	return nil
}

// Close is for a table that was opened, or was not. The calling goroutine is attached, and
// no work on the table is under way.
func (t *Table) Close() {
	if t.pinned != nil {
		t.pinned.Free()
		t.pinned = nil
	}
}

// Gather submits what makes so many rows of x, float32, row-major, those of the entries that
// ids, of uint32, name in the device's memory.
func (t *Table) Gather(s *cuda.Stream, x, ids cuda.Buffer, rows int) error {
	return kernels.Gather{Out: x, Stride: t.Dim, Table: t.near, Far: t.far, Near: int(t.Near), Type: t.DType, Width: t.Dim,
		Index: ids, Rows: kernels.Rows(rows)}.Launch(s)
}

// Widen submits what makes so many rows of x those of source, which are as the table has
// them.
func (t *Table) Widen(s *cuda.Stream, x, source cuda.Buffer, rows int) error {
	return kernels.Gather{Out: x, Stride: t.Dim, Table: source, Type: t.DType, Width: t.Dim, Rows: kernels.Rows(rows)}.Launch(s)
}

// Place submits what puts so many rows of source, which are as the table has them, in the
// entries that ids name, none of them twice.
func (t *Table) Place(s *cuda.Stream, source, ids cuda.Buffer, rows int) error {
	return kernels.Place{Table: t.near, Far: t.far, Near: int(t.Near), RowBytes: int(t.RowBytes()), Rows: kernels.Rows(rows),
		Source: source, Index: ids}.Launch(s)
}

// Fit returns how many of most rows a device holds that has room for so many bytes of them:
// as many as fit or, with a wish, that many. The wish is a share of the nodes, or bytes;
// what does not fit is refused with fault.ErrBudget.
func Fit(wish *budget.Size, room, most, nodes int64, rowBytes int) (int64, error) {
	room = room / cuda.Align * cuda.Align // which is how it is handed out
	fits := min(room/int64(rowBytes), most)
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
