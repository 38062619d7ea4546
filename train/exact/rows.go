package exact

import (
	"context"
	"sync"
	"sync/atomic"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/kernel"
	"diskgnn/iostack"
)

// table is a matrix in a file, in pieces that are checked by themselves. The features
// of a dataset are one, the hidden states of a layer another.
type table interface {
	Path() string
	// Piece returns where piece i lies in the file.
	Piece(i int) (offset, size int64)
	// Decode checks b, piece i as it lies in the file, and returns the bytes of rows
	// in it: b's, or in dst's memory if they are compressed.
	Decode(i int, b, dst []byte) ([]byte, error)
	Compressed() bool
}

// layout says where the rows of a table lie in it.
type layout struct {
	granule int64 // bytes of rows in a piece, but for the last one
	dim     int
	dtype   dtype.Type
}

func (l layout) rowBytes() int64 { return int64(l.dim) * int64(l.dtype.Size()) }

// readDepth is the number of pieces that are read at once.
const readDepth = 8

// wireBytes returns the memory that one piece passes through.
func wireBytes(compressed bool) int64 {
	if compressed {
		return 2*dataset.Granule + binio.Page
	}
	return dataset.Granule + binio.Page
}

// wires are the buffers of the pieces in flight.
type wires struct {
	mem  *device.Host
	list []*wire
}

type wire struct {
	raw, plain []byte
	group      iostack.Group
	req        [1]iostack.Request
}

func newWires(compressed bool) (*wires, error) {
	each := wireBytes(compressed)
	mem, err := device.NewHost(int(readDepth * each))
	if err != nil {
		return nil, err
	}
	w := &wires{mem: mem}
	for b := mem.Bytes(); len(b) > 0; b = b[each:] {
		w.list = append(w.list, &wire{raw: b[:dataset.Granule+binio.Page], plain: b[dataset.Granule+binio.Page : each]})
	}
	return w, nil
}

func (w *wires) free() { w.mem.Free() }

// rowReader reads rows of a table in ascending order: the pieces that hold any of
// them, one after the other, several at once.
type rowReader struct {
	table  table
	layout layout
	stack  iostack.Stack
	file   iostack.File
	wires  *wires
	bytes  atomic.Int64 // read so far
}

func newRowReader(stack iostack.Stack, t table, l layout, w *wires) (*rowReader, error) {
	f, err := stack.Open(t.Path())
	if err != nil {
		return nil, err
	}
	return &rowReader{table: t, layout: l, stack: stack, file: f, wires: w}, nil
}

func (r *rowReader) close() error { return r.file.Close() }

// read fills x with the rows of the ids, which ascend, as float32s.
func (r *rowReader) read(ctx context.Context, ids []uint32, x []float32) error {
	if len(ids) == 0 || r.layout.dim == 0 {
		return nil
	}
	c := &cursor{layout: r.layout, ids: ids}
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range r.wires.list {
		g.Go(func() error {
			for {
				piece, first, ok := c.next()
				if !ok {
					return nil
				}
				if err := r.piece(ctx, w, piece, ids[first:], x[first*r.layout.dim:]); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// piece reads a piece and copies what it holds of the rows, the first of which ends
// in it, or beyond.
func (r *rowReader) piece(ctx context.Context, w *wire, piece int, ids []uint32, x []float32) error {
	off, size := r.table.Piece(piece)
	pad := off % binio.Page // whole pages land in place then
	if pad+size > int64(len(w.raw)) {
		pad = 0
	}
	raw := w.raw[pad : pad+size]
	w.req[0] = iostack.Request{File: r.file, Offset: off, Buf: raw}
	if err := r.stack.Submit(&w.group, w.req[:]); err != nil {
		return err
	}
	if err := r.stack.Wait(ctx, &w.group); err != nil {
		return err
	}
	r.bytes.Add(size)
	plain, err := r.table.Decode(piece, raw, w.plain)
	if err != nil {
		return err
	}
	l := r.layout
	row, element, start := l.rowBytes(), int64(l.dtype.Size()), int64(piece)*l.granule
	end := start + int64(len(plain))
	for i, id := range ids {
		at := int64(id) * row
		if at >= end {
			break
		}
		from, to := max(at, start), min(at+row, end)
		n, skip := int((to-from)/element), int((from-at)/element)
		kernel.Widen(x[i*l.dim+skip:][:n], plain[from-start:to-start], l.dtype, n)
	}
	return nil
}

// cursor hands out the pieces that hold rows which are asked for, in order.
type cursor struct {
	layout layout
	ids    []uint32

	mu    sync.Mutex
	piece int // the next one at the earliest
	at    int // among ids: the first that ends behind the pieces handed out
}

// next returns a piece, and the first of the ids whose row it holds a part of.
func (c *cursor) next() (piece, first int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	row, granule := c.layout.rowBytes(), c.layout.granule
	for c.at < len(c.ids) && (int64(c.ids[c.at])+1)*row <= int64(c.piece)*granule {
		c.at++
	}
	if c.at == len(c.ids) {
		return 0, 0, false
	}
	piece = max(c.piece, int(int64(c.ids[c.at])*row/granule))
	c.piece = piece + 1
	return piece, c.at, true
}
