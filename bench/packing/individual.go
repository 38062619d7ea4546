package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/presample/mbfile"
)

// individual is the packing of some batches row by row.
type individual struct {
	Batches int     `json:"batches"`
	Of      int     `json:"of_batches"`
	Rows    int64   `json:"rows"`
	Seconds float64 `json:"seconds"`
	// Extrapolated is the time of all batches, if they are like these.
	Extrapolated float64 `json:"extrapolated_seconds"`
}

// rowsAtOnce is the number of rows that are read together and then written.
const rowsAtOnce = 4096

// rowByRow writes the rows of the first training batches one batch after the other,
// each row read where it lies in the table.
func (b *bench) rowByRow(ctx context.Context) (_ *individual, err error) {
	ds, err := dataset.Open(vfs.OS, b.dataset)
	if err != nil {
		return nil, err
	}
	if ds.Facts().Compression != "" {
		return nil, errors.New("rows of a compressed table cannot be read one by one")
	}
	features, err := ds.Features()
	if err != nil {
		return nil, err
	}
	defer features.Close()
	samples, err := mbfile.Open(vfs.OS, b.samples)
	if err != nil {
		return nil, err
	}
	defer samples.Close()
	stack, _, err := all.Open(b.kind, iostack.Options{Workers: 64})
	if err != nil {
		return nil, err
	}
	defer stack.Close()
	file, err := stack.Open(features.Path())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	name := filepath.Join(b.out, fmt.Sprintf("packing-%d.rows", os.Getpid()))
	out, err := vfs.OS.Create(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.Close(), os.Remove(name)) }()

	train := samples.Facts().TrainBatches
	m := &individual{Batches: min(b.individual, train), Of: train}
	g, err := newRowGather(stack, file, ds.RowBytes())
	if err != nil {
		return nil, err
	}
	defer g.mem.Free()
	var batch graph.Batch
	var raw []byte
	began := time.Now()
	for i := range m.Batches {
		if raw, err = samples.Read(ctx, i, raw, &batch); err != nil {
			return nil, err
		}
		for ids := batch.Input; len(ids) > 0; {
			n := min(len(ids), rowsAtOnce)
			rows, err := g.read(ctx, ids[:n])
			if err != nil {
				return nil, err
			}
			if _, err := out.Write(rows); err != nil {
				return nil, err
			}
			ids, m.Rows = ids[n:], m.Rows+int64(n)
		}
	}
	if err := out.Sync(); err != nil {
		return nil, err
	}
	m.Seconds = time.Since(began).Seconds()
	m.Extrapolated = m.Seconds * float64(train) / float64(max(m.Batches, 1))
	return m, nil
}

// rowGather reads rows by the pages that they lie in.
type rowGather struct {
	stack iostack.Stack
	file  iostack.File
	row   int64
	each  int64 // bytes of the pages of one row, at most
	mem   *device.Host
	rows  []byte
	req   []iostack.Request
	group iostack.Group
}

func newRowGather(stack iostack.Stack, file iostack.File, row int) (*rowGather, error) {
	g := &rowGather{stack: stack, file: file, row: int64(row), each: binio.AlignUp(int64(row), binio.Page) + binio.Page, rows: make([]byte, rowsAtOnce*row)}
	var err error
	g.mem, err = device.NewHost(int(g.each) * rowsAtOnce)
	return g, err
}

func (g *rowGather) read(ctx context.Context, ids []uint32) ([]byte, error) {
	g.req = g.req[:0]
	for k, v := range ids {
		lo := int64(v) * g.row / binio.Page * binio.Page
		hi := min(binio.AlignUp((int64(v)+1)*g.row, binio.Page), g.file.Size())
		at := int64(k) * g.each
		g.req = append(g.req, iostack.Request{File: g.file, Offset: lo, Buf: g.mem.Bytes()[at : at+hi-lo]})
	}
	if err := g.stack.Submit(&g.group, g.req); err != nil {
		return nil, err
	}
	if err := g.stack.Wait(ctx, &g.group); err != nil {
		return nil, err
	}
	for k, v := range ids {
		skip := int64(v) * g.row % binio.Page
		copy(g.rows[int64(k)*g.row:(int64(k)+1)*g.row], g.req[k].Buf[skip:])
	}
	return g.rows[:int64(len(ids))*g.row], nil
}
