package gids

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"diskgnn/featurestore/residency"
	"diskgnn/internal/progress"
)

// bufferShare bounds the rows of the constant buffer, as a share of the nodes: GIDS' value.
const bufferShare = 0.2

// buffer is the constant buffer: rows of some nodes in the dataset's type, which stay for the whole run.
type buffer struct {
	placeOf []uint32 // by node: the number of its row plus one; 0: not in the buffer
	rows    []byte
	filled  bool
}

func (b *buffer) lay(mem *carver, d *design, rows int) {
	if rows > 0 {
		b.placeOf = list[uint32](mem, int(d.Facts.Nodes))
		b.rows = list[byte](mem, rows*d.Facts.RowBytes)
	}
}

// has reports whether a node is in the buffer. It is valid before the rows are read.
func (b *buffer) has(v uint32) bool { return len(b.placeOf) > 0 && b.placeOf[v] > 0 }

// row returns a node's row, or nil if the buffer does not have it.
func (b *buffer) row(v uint32, rowBytes int) []byte {
	if !b.has(v) {
		return nil
	}
	at := int(b.placeOf[v]-1) * rowBytes
	return b.rows[at : at+rowBytes]
}

// choose returns the nodes for the buffer, ascending: the nodes with the highest ranks, ties by ascending
// id. It reads and verifies the topology.
func (s *store) choose(ctx context.Context, rep progress.Reporter) (nodes []uint32, err error) {
	topology, err := s.Data.Topology(ctx, rep, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, topology.Close()) }()
	task := rep.Task("rank the nodes", s.Facts.Nodes, progress.Rows)
	defer task.Done()
	rank, err := pageRanks(ctx, &topology.CSC, rankOptions{Script: s.mode == Script, Guard: topology.Guard})
	if err != nil {
		return nil, fmt.Errorf("rank the nodes: %w", err)
	}
	task.Add(s.Facts.Nodes)
	nodes = residency.Top(rank, s.rows)
	slices.Sort(nodes)
	return nodes, nil
}

// chooseBytes returns the memory of choose, in bytes: the ranks, the nodes sorted by rank, and the chosen
// nodes.
func (d *design) chooseBytes(rows int) int64 {
	if rows == 0 {
		return 0
	}
	return rankBytes(int(d.Facts.Nodes)) + 4*d.Facts.Nodes + 4*int64(rows)
}

// fillStep is the number of rows that one step of fillBuffer reads.
const fillStep = 1 << 15

// fillBuffer reads the rows of the buffer. It reads each of their pages once; a page with rows of two steps
// is read twice. It returns the bytes read.
func (s *store) fillBuffer(ctx context.Context, rep progress.Reporter) (read int64, err error) {
	if s.rows == 0 || s.buffer.filled {
		return 0, nil
	}
	nodes, err := s.choose(ctx, rep)
	if err != nil {
		return 0, err
	}
	task := rep.Task("read the constant buffer's rows", int64(len(nodes)), progress.Rows)
	defer task.Done()
	w, done := new(wanted), 0
	r, free, err := s.newReader(func(mem *carver) { w.lay(mem, s.design, min(fillStep, len(nodes))) })
	if err != nil {
		return 0, err
	}
	defer free()
	for step := range slices.Chunk(nodes, fillStep) {
		w.find(step, new(buffer), s.Facts.RowBytes)
		rows := s.buffer.rows[done*s.Facts.RowBytes:]
		if err := r.read(ctx, w.pages, func(j int, content []byte) { w.copy(j, content, rows, s.Facts.RowBytes) }); err != nil {
			return 0, fmt.Errorf("fill the constant buffer: %w", err)
		}
		done += len(step)
		task.Add(int64(len(step)))
	}
	for i, v := range nodes {
		s.buffer.placeOf[v] = uint32(i + 1)
	}
	s.buffer.filled = true
	return r.counts.BytesRead, nil
}

// fillBytes returns the memory of fillBuffer but for a reader's.
func (d *design) fillBytes(rows int) int64 {
	return carved(func(mem *carver) { new(wanted).lay(mem, d, min(fillStep, rows)) })
}
