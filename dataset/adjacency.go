package dataset

import (
	"context"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// IndicesPath returns the path of indices.bin, the in-neighbours of all nodes. The in-neighbours of
// node v begin at byte 4·Offsets.Start(v).
func (d *Dataset) IndicesPath() string { return d.path(IndicesFile) }

// IndicesBytes returns the size of indices.bin in bytes: 4 for each edge.
func (d *Dataset) IndicesBytes() int64 { return d.facts.size(IndicesFile) }

// Offsets reads and checks all of indptr.bin and returns it in a compact form: the edge at which the
// in-neighbours of each node begin. While it works, it holds the result, graph.OffsetsBytes(nodes)
// bytes, and one granule.
func (d *Dataset) Offsets(ctx context.Context, rep progress.Reporter) (_ *graph.Offsets, err error) {
	defer func() { err = d.damaged(err) }()
	task := rep.Task("read offsets", d.facts.size(IndptrFile), progress.Bytes)
	defer task.Done()
	o := graph.NewOffsets(d.facts.Rows())
	var at, last int64 // the next entry, and the one before
	return o, d.scan(ctx, IndptrFile, func(piece []byte) error {
		entries := binio.View[int64](piece)
		for i, p := range entries {
			if p < last || p > d.facts.Edges || at+int64(i) == 0 && p != 0 || at+int64(i) == d.facts.Rows() && p != d.facts.Edges {
				return d.badOffset(p, at+int64(i))
			}
			last = p
		}
		if err := o.Append(entries); err != nil {
			return fault.New(fault.ErrInput, "%s: %w", d.path(IndptrFile), err)
		}
		at += int64(len(entries))
		task.Add(int64(len(piece)))
		return nil
	})
}

// IndicesPageSumsBytes returns the bytes of memory of the result of IndicesPageSums: 4 for each page
// of 4 KiB.
func (d *Dataset) IndicesPageSumsBytes() int64 { return d.pagesBytes(IndicesFile) }

// IndicesPageSumsWork returns the bytes of memory that IndicesPageSums holds while it works, beside
// its result.
func (d *Dataset) IndicesPageSumsWork() int64 { return d.IndicesPageSumsBytes() + 2*Granule }

// IndicesPageSums returns the checksums of the pages of indices.bin, for readers of single nodes'
// in-neighbours. They are read from a table or computed, like the checksums of PageSums; o are the
// offsets of the dataset. Computing them also checks that every node id is in range and that each
// node's in-neighbours ascend. read counts the bytes read.
func (d *Dataset) IndicesPageSums(ctx context.Context, rep progress.Reporter, o *graph.Offsets) (pages *binio.Sums, read int64, err error) {
	return d.pageSums(IndicesFile, rep, func() (*binio.Sums, error) { return d.sumIndices(ctx, rep, o) })
}

func (d *Dataset) sumIndices(ctx context.Context, rep progress.Reporter, o *graph.Offsets) (*binio.Sums, error) {
	sums, check := binio.NewSummer(binio.Page), indicesCheck{of: d, offsets: o}
	sums.Expect(d.IndicesBytes())
	task := rep.Task("sum the indices' pages", d.IndicesBytes(), progress.Bytes)
	defer task.Done()
	err := d.scan(ctx, IndicesFile, func(piece []byte) error {
		_, _ = sums.Write(piece) // never fails
		task.Add(int64(len(piece)))
		return check.next(binio.View[uint32](piece))
	})
	s := sums.Sums()
	return &s, err
}

// indicesCheck checks in-neighbours that come piece by piece.
type indicesCheck struct {
	of      *Dataset
	offsets *graph.Offsets
	at, end int64  // the next edge, and the one that begins the next node's
	node    int64  // that the edge before belongs to, plus one
	last    uint32 // the source of the edge before
}

func (c *indicesCheck) next(ids []uint32) error {
	for i, u := range ids {
		at := c.at + int64(i)
		if at == c.end {
			for c.end == at {
				c.node++
				c.end = c.offsets.Start(c.node)
			}
		} else if u < c.last {
			return c.of.descending(c.node-1, u, c.last, at)
		}
		if int64(u) >= c.of.facts.Nodes {
			return c.of.outOfRange(at, u)
		}
		c.last = u
	}
	c.at += int64(len(ids))
	return nil
}

// ScanIndices reads indices.bin once, checks it, and calls see for consecutive pieces of it: sources
// are the sources of the edges from number first on, valid during the call. An error of see ends the
// scan. The string argument is the name of the progress task. It holds one granule.
func (d *Dataset) ScanIndices(ctx context.Context, rep progress.Reporter, what string, see func(first int64, sources []uint32) error) (err error) {
	defer func() { err = d.damaged(err) }()
	task := rep.Task(what, d.IndicesBytes(), progress.Bytes)
	defer task.Done()
	first := int64(0)
	return d.scan(ctx, IndicesFile, func(piece []byte) error {
		ids := binio.View[uint32](piece)
		for i, u := range ids {
			if int64(u) >= d.facts.Nodes {
				return d.outOfRange(first+int64(i), u)
			}
		}
		if err := see(first, ids); err != nil {
			return err
		}
		first += int64(len(ids))
		task.Add(int64(len(piece)))
		return nil
	})
}
