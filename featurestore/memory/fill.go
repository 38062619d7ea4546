package memory

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/iostack"
)

// depth is the number of pieces of the feature table that are read at the same time.
const depth = 8

// pieceBytes is room for a piece as it lies in a compressed file.
const pieceBytes = dataset.Granule + binio.Page

// stagingBytes returns what pieces land in that are decompressed into their places.
func stagingBytes(d *dataset.Dataset) int64 {
	if f := d.Facts(); f.Compression == "" {
		return 0
	}
	return depth * pieceBytes
}

// fillRows reads the feature table, piece by piece, checked, and returns the bytes read.
func (s *store) fillRows(ctx context.Context, rep progress.Reporter) (read int64, err error) {
	table, err := s.data.Features()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, table.Close()) }()
	e := table.Extent(0, s.facts.Nodes)
	f, err := s.stack.Open(table.Path())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if f.Size() < e.Size {
		return 0, s.damaged(fault.New(fault.ErrCorrupt, "%s has %d bytes instead of %d: it was truncated", f.Name(), f.Size(), e.Size))
	}
	staging, err := device.NewHost(int(stagingBytes(s.data)))
	if err != nil {
		return 0, err
	}
	defer staging.Free()
	r := &tableRead{table: table, file: f, stack: s.stack, rows: s.rows.Bytes()[:s.facts.Nodes*int64(s.facts.RowBytes)], staging: staging.Bytes(),
		task: rep.Task("read all rows", e.Size, progress.Bytes)}
	defer r.task.Done()
	for i := range e.End + depth {
		if i >= depth && i-depth < e.End {
			err = r.finish(ctx, i-depth)
		}
		if err == nil && i < e.End {
			err = r.start(i)
		}
		if err != nil {
			r.drain()
			return 0, s.damaged(fmt.Errorf("read all rows: %w", err))
		}
	}
	return e.Size, nil
}

// damaged adds to an error about the feature table how it is made again.
func (s *store) damaged(err error) error {
	return stage.Damaged(err, s.data.Dir(), s.data.Meta().Format)
}

// tableRead is the reading of a feature table, of which piece i goes through the i mod
// depth-th of the groups.
type tableRead struct {
	table   *dataset.FeatureReader
	file    iostack.File
	stack   iostack.Stack
	rows    []byte
	staging []byte // none where pieces land in their places
	task    progress.Task
	groups  [depth]iostack.Group
}

// place returns where the content of piece i belongs.
func (r *tableRead) place(i int) []byte {
	lo := i * dataset.Granule
	return r.rows[lo:min(lo+dataset.Granule, len(r.rows))]
}

// landing returns where piece i lands.
func (r *tableRead) landing(i int) []byte {
	_, n := r.table.Piece(i)
	if len(r.staging) == 0 {
		return r.place(i)
	}
	k := i % depth * pieceBytes
	return r.staging[k : k+min(int(n), pieceBytes)]
}

func (r *tableRead) start(i int) error {
	at, _ := r.table.Piece(i)
	return r.stack.Submit(&r.groups[i%depth], []iostack.Request{{File: r.file, Offset: at, Buf: r.landing(i)}})
}

func (r *tableRead) finish(ctx context.Context, i int) error {
	if err := r.stack.Wait(ctx, &r.groups[i%depth]); err != nil {
		return err
	}
	b := r.landing(i)
	if _, err := r.table.Decode(i, b, r.place(i)); err != nil {
		return err
	}
	r.task.Add(int64(len(b)))
	return nil
}

// drain ends the reads that are under way.
func (r *tableRead) drain() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for i := range r.groups {
		_ = r.stack.Wait(ended, &r.groups[i])
	}
}
