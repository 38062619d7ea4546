package memory

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// depth is the number of pieces of the feature table in flight.
const depth = 8

// pieceBytes is the size of the buffer for a compressed piece.
const pieceBytes = dataset.Granule + binio.Page

// compressedBytes returns the memory for compressed pieces in flight, in bytes; 0 if the features are not
// compressed.
func compressedBytes(d *dataset.Dataset) int64 {
	if f := d.Facts(); f.Compression == "" {
		return 0
	}
	return depth * pieceBytes
}

// tableReader reads the feature table of a dataset, piece by piece.
type tableReader struct {
	*machine.Table
	stack iostack.Stack
}

// pieces takes the pieces of the table, in their order. Up to depth pieces are in flight: when piece i is
// read, piece i − depth has been taken.
type pieces struct {
	// room returns memory for the content of piece i: n bytes, from byte at of the table on.
	room func(i int, at, n int64) ([]byte, error)
	// take takes the content of piece i, which has been checked.
	take func(i int, content []byte) error
}

func (r *tableReader) read(ctx context.Context, rep progress.Reporter, to pieces) (read int64, err error) {
	table, err := r.Data.Features()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, table.Close()) }()
	e := table.Extent(0, r.Facts.Nodes)
	f, err := r.stack.Open(table.Path())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if f.Size() < e.Size {
		return 0, r.Damaged(fault.New(fault.ErrCorrupt, "%s has %d bytes instead of %d: it was truncated", f.Name(), f.Size(), e.Size))
	}
	landing, err := device.NewHost(int(compressedBytes(r.Data)))
	if err != nil {
		return 0, err
	}
	defer landing.Free()
	t := &tableRead{pieces: to, table: table, file: f, stack: r.stack, bytes: r.Size(), compressed: landing.Bytes(),
		task: rep.Task("read all rows", e.Size, progress.Bytes)}
	defer t.task.Done()
	for i := range e.End + depth {
		if i >= depth && i-depth < e.End {
			err = t.finish(ctx, i-depth)
		}
		if err == nil && i < e.End {
			err = t.start(i)
		}
		if err != nil {
			for i := range t.groups {
				iostack.Drop(t.stack, &t.groups[i])
			}
			return 0, r.Damaged(fmt.Errorf("read all rows: %w", err))
		}
	}
	return e.Size, nil
}

// tableRead is one pass over a feature table. Piece i uses group i mod depth.
type tableRead struct {
	pieces
	table      *dataset.FeatureReader
	file       iostack.File
	stack      iostack.Stack
	bytes      int64  // of the table
	compressed []byte // memory of compressed pieces; nil if pieces are not compressed
	task       progress.Task
	groups     [depth]iostack.Group
	rooms      [depth][]byte
}

// landing returns the memory in which piece i lands.
func (t *tableRead) landing(i int) []byte {
	if len(t.compressed) == 0 {
		return t.rooms[i%depth]
	}
	_, n := t.table.Piece(i)
	k := i % depth * pieceBytes
	return t.compressed[k : k+min(int(n), pieceBytes)]
}

func (t *tableRead) start(i int) (err error) {
	lo := int64(i) * dataset.Granule
	if t.rooms[i%depth], err = t.room(i, lo, min(dataset.Granule, t.bytes-lo)); err != nil {
		return err
	}
	at, _ := t.table.Piece(i)
	return t.stack.Submit(&t.groups[i%depth], []iostack.Request{{File: t.file, Offset: at, Buf: t.landing(i)}})
}

func (t *tableRead) finish(ctx context.Context, i int) error {
	if err := t.stack.Wait(ctx, &t.groups[i%depth]); err != nil {
		return err
	}
	b := t.landing(i)
	content, err := t.table.Decode(i, b, t.rooms[i%depth])
	if err == nil {
		err = t.take(i, content)
	}
	t.task.Add(int64(len(b)))
	return err
}
