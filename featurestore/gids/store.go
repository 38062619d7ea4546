package gids

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/copier"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/residency"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// store is the store and its one view.
type store struct {
	*design
	own
	levels
	machine.Files
	copies *copier.Copier
	course course
	order  machine.Order
	side   *gpu // submits the reads; nil: the host does
}

func (s *store) open(o own, stack iostack.Stack) (err error) {
	s.own = o
	if s.levels.host, err = machine.Carve(func(mem *machine.Memory) { s.levels.lay(mem, s.design, o) }); err != nil {
		return err
	}
	if err = s.Files.Open(s.Table, stack, o.reads, o.gpu); err != nil {
		return err
	}
	if o.reads != nil {
		s.side = newGPU(s.design, o)
		if err = s.side.open(&s.levels, s.Devices); err != nil {
			return err
		}
	}
	s.order = machine.Order{Train: s.Facts.Train, What: "the cache is"}
	c := &s.course
	c.states, c.rowBytes, c.buffer, c.cache = newStates(s.Facts.Train), s.Facts.RowBytes, &s.buffer, s.cache
	c.gathers = gathers{need: o.need, script: o.mode == Script}
	c.changed.L = &c.mu
	if o.lines > 0 {
		if c.window, err = s.Loaders.NewWindow(window); err != nil {
			return err
		}
	}
	c.begin(0, 0)
	s.copies = copier.New(copier.Enough())
	s.copies.Start()
	return nil
}

func (s *store) View(int) featurestore.View { return s }

// State returns the result of course.save, valid until the next call.
func (s *store) State() ([]byte, error) { return s.course.save(s.kind()), nil }

// LoadState restores a result of State for the same mode and levels of the same size. For another mode or
// size it returns nil, and the cache begins empty.
func (s *store) LoadState(b []byte) error {
	s.course.states.Forget()
	kind := s.kind()
	rest, ok := bytes.CutPrefix(b, kind[:])
	if !ok {
		return nil
	}
	if err := s.course.restore(rest); err != nil {
		return fmt.Errorf("state of the store %s: %w", Name, err)
	}
	return nil
}

func (s *store) kind() (b [kindBytes]byte) {
	binary.LittleEndian.PutUint64(b[:], uint64(s.own.lines))
	binary.LittleEndian.PutUint64(b[8:], uint64(s.rows))
	copy(b[16:], s.mode)
	return b
}

// Fill reads the ranks, the checksums of the features' pages (which it makes if the file is missing), the
// rows of the constant buffer, the batches of the window, and the pages that the cache holds before the
// given batch: none at the beginning of a run. It returns the bytes read, without the topology.
func (s *store) Fill(ctx context.Context, next int, rep progress.Reporter) (read int64, err error) {
	if s.side != nil {
		if err := s.side.settle(); err != nil {
			return 0, err
		}
	}
	if err := s.ReadRanks(); err != nil {
		return 0, err
	}
	if read, err = s.ReadSums(ctx, rep); err != nil {
		return 0, err
	}
	for _, step := range []func() (int64, error){
		func() (int64, error) { return s.fillBuffer(ctx, rep) },
		func() (int64, error) { return s.repeat(ctx, next, rep) },
		func() (int64, error) { return s.refill(ctx, rep) },
	} {
		n, err := step()
		if err != nil {
			return 0, err
		}
		read += n
	}
	s.order.Next = next
	return read, nil
}

// choose returns the nodes for the buffer, ascending: the nodes with the highest ranks, ties by ascending
// id. It reads and verifies the topology. In a typed graph it returns rows of features: see rowRanks.
func (s *store) choose(ctx context.Context, rep progress.Reporter) (nodes []uint32, err error) {
	topology, err := s.Data.Topology(ctx, rep, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, topology.Close()) }()
	task := rep.Task("rank the nodes", s.Facts.Nodes, progress.Rows)
	defer task.Done()
	g, types := &topology.CSC, s.Facts.Types
	if types != nil {
		err = topology.Guard(func() error { g = byNode(g, types); return nil })
	}
	var rank []float64
	if err == nil {
		rank, err = pageRanks(ctx, g, rankOptions{Script: s.mode == Script, Guard: topology.Guard})
	}
	if err != nil {
		return nil, fmt.Errorf("rank the nodes: %w", err)
	}
	if types != nil {
		rank = rowRanks(rank, types)
	}
	task.Add(s.Facts.Nodes)
	nodes = residency.Top(rank, s.rows)
	slices.Sort(nodes)
	return nodes, nil
}

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
	m := new(machine.Memory)
	defer m.Free()
	var counts featurestore.Counts
	w, r, done := new(wanted), machine.NewReader(m, reading(), &s.Files, &counts), 0
	w.lay(m, s.design, min(fillStep, len(nodes)))
	if m.Err != nil {
		return 0, m.Err
	}
	for step := range slices.Chunk(nodes, fillStep) {
		w.find(step, new(buffer), s.Facts.RowBytes)
		rows := s.buffer.rows[done*s.Facts.RowBytes:]
		if err := r.Read(ctx, w.pages, sink(func(j int, content []byte) error {
			w.copy(j, content, rows, s.Facts.RowBytes)
			return nil
		})); err != nil {
			return 0, fmt.Errorf("fill the constant buffer: %w", err)
		}
		done += len(step)
		task.Add(int64(len(step)))
	}
	for i, v := range nodes {
		s.buffer.placeOf[v] = uint32(i + 1)
	}
	s.buffer.filled = true
	return counts.BytesRead, nil
}

// repeat restores the course to its state before the given batch: it starts from a saved state, and decides
// again for the batches since. It returns the bytes that the window read.
func (s *store) repeat(ctx context.Context, next int, rep progress.Reporter) (read int64, err error) {
	c := &s.course
	n := c.states.Behind(next)
	if n < 0 {
		rep.Logf("the cache begins empty: no saved state fits a cache of %d lines in mode %s at this batch", s.own.lines, s.mode)
		c.reset(next)
		n = 0
	}
	if read, err = c.seek(ctx); err != nil {
		return 0, err
	}
	if n > 0 && c.window != nil {
		more, err := s.again(ctx, n, rep)
		if err != nil {
			return 0, fmt.Errorf("repeat the decisions of the cache: %w", err)
		}
		read += more
	}
	c.begin(next, 0)
	return read, nil
}

// again decides for the next n batches of the window.
func (s *store) again(ctx context.Context, n int, rep progress.Reporter) (read int64, err error) {
	task := rep.Task("repeat the decisions of the cache", int64(n), progress.Batches)
	defer task.Done()
	w := new(wanted)
	m := new(machine.Memory)
	defer m.Free()
	if w.lay(m, s.design, s.Facts.Inputs(false)); m.Err != nil {
		return 0, m.Err
	}
	for range n {
		more, err := s.course.step(ctx, s.course.window.Inputs(0), w)
		if err != nil {
			return 0, err
		}
		read += more
		task.Add(1)
	}
	return read, nil
}

// refill reads the pages that the cache holds into their lines. It returns the bytes read.
func (s *store) refill(ctx context.Context, rep progress.Reporter) (int64, error) {
	pages := s.cache.pageOf
	if len(pages) == 0 {
		return 0, nil
	}
	task := rep.Task("read the cache's pages", int64(len(pages))*binio.Page, progress.Bytes)
	defer task.Done()
	m := new(machine.Memory)
	defer m.Free()
	var counts featurestore.Counts
	r := machine.NewReader(m, reading(), &s.Files, &counts)
	to := machine.NewStaged(m, int64(s.near)*binio.Page, s.side.put)
	to.RAM = s.levels.lines
	if m.Err != nil {
		return 0, m.Err
	}
	err := r.Read(ctx, pages, sink(func(f int, content []byte) error {
		task.Add(binio.Page)
		return to.Write(int64(f)*binio.Page, content)
	}))
	if err == nil {
		err = to.Flush()
	}
	if err != nil {
		return 0, fmt.Errorf("fill the cache: %w", err)
	}
	return counts.BytesRead, nil
}

// line returns a line in RAM.
func (s *store) line(f int32) []byte {
	at := (int(f) - s.near) * binio.Page
	return s.levels.lines[at : at+binio.Page]
}

// Close releases files and memory.
func (s *store) Close() error {
	if s.course.window != nil {
		s.course.window.Free()
	}
	err := s.Files.Close()
	if s.side != nil {
		s.side.close()
	}
	if s.copies != nil {
		s.copies.Close()
	}
	if s.levels.host != nil {
		s.levels.host.Free()
	}
	return err
}

// Open takes the memory of the levels, and opens the features and the batches.
func (d *design) Open(stack iostack.Stack, l featurestore.Layout) (featurestore.Store, error) {
	s := &store{design: d}
	if err := s.open(l.Own.(own), stack); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
