package main

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/iostack"
)

// design describes the store foo: the hottest rows are in RAM, and the others are read one by one.
func design() featurestore.Design { return featurestore.Design{Name: "foo", On: on} }

func on(s featurestore.Source, d *dataset.Dataset) (featurestore.Candidate, error) {
	f := s.Facts()
	return &candidate{s, d, f, int64(f.RowBytes)}, d.RowsReadable()
}

// candidate is the store before it is opened. Its source has Dir, Facts and Lineage.
type candidate struct {
	featurestore.Source
	data  *dataset.Dataset
	facts featurestore.Facts
	row   int64 // bytes
}

func (c *candidate) Name() string                       { return "foo" }
func (c *candidate) Describe() featurestore.Description { return featurestore.Description{} }
func (c *candidate) InOrder() bool                      { return false } // no batch changes the rows in RAM

// Plan holds the rows that the options ask for, or all that the memory has room for.
func (c *candidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	l := c.layout(0)
	if err := errors.Join(o.NoGPURows("the store foo holds rows in RAM"), o.Fits(&l)); err != nil || o.Least {
		return l, err
	}
	rows := (o.Memory - l.Bytes(o.Slots, o.EvalSlots)) / (c.row + nodeBytes)
	if o.Cache != nil {
		var err error
		if rows, err = o.Cache.Rows(c.facts.Nodes, c.facts.RowBytes); err != nil {
			return l, err
		}
	}
	l = c.layout(min(rows, c.facts.Nodes))
	return l, o.Fits(&l)
}

// PlanEval is Plan for a command that loads evaluation batches alone.
func (c *candidate) PlanEval(int64) (featurestore.Layout, error) { return c.layout(0), nil }

const (
	nodeBytes = 4                 // of a node id or a rank
	page      = dataset.PageBytes // the unit of checksums: a row is read with the pages that cover it
	inFlight  = 256               // reads of a slot
)

// layout counts all memory that Open, Fill and NewSlot take, in bytes.
func (c *candidate) layout(rows int64) featurestore.Layout {
	staging := inFlight * c.most()
	return featurestore.Layout{
		CacheRows:     rows,
		TableBytes:    c.TableBytes() + c.data.PageSumsBytes(),
		RAMBytes:      nodeBytes*c.facts.Nodes + rows*c.row,
		KeepBytes:     max(c.RanksBytes(), c.data.PageSumsWork(), staging+nodeBytes*rows),
		SlotBytes:     featurestore.HostSlotBytes(c.Source, false) + staging,
		EvalSlotBytes: featurestore.HostSlotBytes(c.Source, true) + staging,
	}
}

// most returns the most bytes of the pages of a row.
func (c *candidate) most() int64 { return (c.row+page-2)/page*page + page }

// pages returns the pages of a node's row, as a range of the feature file.
func (c *candidate) pages(v uint32) (off, n int64) {
	begin := int64(v) * c.row
	off = begin / page * page
	return off, min((begin+c.row+page-1)/page*page, c.facts.Nodes*c.row) - off
}

// Open opens the files and takes the memory. The rows come with Fill.
func (c *candidate) Open(stack iostack.Stack, l featurestore.Layout) (_ featurestore.Store, err error) {
	s := &store{candidate: c, stack: stack}
	var errs [4]error
	s.file, errs[0] = stack.Open(c.data.FeaturesPath())
	s.loaders, errs[1] = c.Source.Open(stack)
	s.ranks, errs[2] = device.NewHost(int(nodeBytes * c.facts.Nodes))
	s.rows, errs[3] = device.NewHost(int(l.CacheRows * c.row))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// store is the opened store, and its view: the host's.
type store struct {
	*candidate
	stack   iostack.Stack
	file    iostack.File // the features
	loaders featurestore.Loaders
	ranks   *device.Host // by node
	rows    *device.Host // by rank
	held    uint32       // the ranks below it have their rows in rows
	verify  func(name string, off int64, pages []byte) error
}

func (s *store) View(int) featurestore.View { return s }
func (s *store) State() ([]byte, error)     { return nil, nil } // the rows in RAM follow from the ranks
func (s *store) LoadState([]byte) error     { return nil }

// Fill reads the ranks, the checksums of pages, and the rows to hold. These are the same for every next batch.
func (s *store) Fill(ctx context.Context, next int, rep featurestore.Reporter) (int64, error) {
	if err := s.Ranks(s.ranks.Uint32s()); err != nil {
		return 0, err
	}
	sums, read, err := s.data.PageSums(ctx, rep)
	if err != nil {
		return 0, err
	}
	r, err := s.newReader()
	if err != nil {
		return 0, err
	}
	defer r.staging.Free()
	hot := make([]uint32, int64(s.rows.Len())/s.row)
	for v, rank := range s.ranks.Uint32s() {
		if int(rank) < len(hot) {
			hot[rank] = uint32(v)
		}
	}
	s.verify, s.held = sums.Verify, 0
	var counts featurestore.Counts
	if err := r.read(ctx, hot, &counts, func(rank int, row []byte) { copy(s.ranked(rank), row) }); err != nil {
		return 0, err
	}
	s.held = uint32(len(hot))
	return read + counts.BytesRead, nil
}

// ranked returns the memory of the row of a rank.
func (s *store) ranked(rank int) []byte {
	return s.rows.Bytes()[int64(rank)*s.row : int64(rank+1)*s.row]
}

// Close releases all that Open took, also in part.
func (s *store) Close() (err error) {
	if s.loaders != nil {
		err = s.loaders.Close()
	}
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	for _, h := range []*device.Host{s.ranks, s.rows} {
		if h != nil {
			h.Free()
		}
	}
	return err
}

// reader reads rows, up to inFlight at a time.
type reader struct {
	*store
	staging *device.Host
	group   iostack.Group
	reads   []iostack.Request
	rows    []int // the place of each read's row
}

func (s *store) newReader() (*reader, error) {
	staging, err := device.NewHost(int(inFlight * s.most()))
	return &reader{store: s, staging: staging, reads: make([]iostack.Request, 0, inFlight), rows: make([]int, 0, inFlight)}, err
}

// read passes the row of every node to take, with its place in nodes, and adds its reads to counts.
func (r *reader) read(ctx context.Context, nodes []uint32, counts *featurestore.Counts, take func(i int, row []byte)) error {
	ranks := r.ranks.Uint32s()
	r.reads, r.rows = r.reads[:0], r.rows[:0]
	for i, v := range nodes {
		if rank := ranks[v]; rank < r.held {
			take(i, r.ranked(int(rank)))
			counts.RAMRows++
		} else {
			off, n := r.pages(v)
			at := int64(len(r.reads)) * r.most()
			r.reads = append(r.reads, iostack.Request{File: r.file, Offset: off, Buf: r.staging.Bytes()[at : at+n]})
			r.rows = append(r.rows, i)
			counts.BytesRead += iostack.Extent(r.file, off, n)
		}
		if len(r.reads) == inFlight || i == len(nodes)-1 {
			if err := r.finish(ctx, nodes, counts, take); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish carries out the reads, checks their pages, and takes the rows out.
func (r *reader) finish(ctx context.Context, nodes []uint32, counts *featurestore.Counts, take func(i int, row []byte)) error {
	if err := r.stack.Submit(&r.group, r.reads); err != nil {
		return err
	}
	if err := r.stack.Wait(ctx, &r.group); err != nil {
		return err
	}
	for k, req := range r.reads {
		if err := r.verify(r.file.Name(), req.Offset, req.Buf); err != nil {
			return err
		}
		begin := int64(nodes[r.rows[k]])*r.row - req.Offset
		take(r.rows[k], req.Buf[begin:begin+r.row])
	}
	counts.Requests += int64(len(r.reads))
	counts.UsefulBytes += int64(len(r.reads)) * r.row
	r.reads, r.rows = r.reads[:0], r.rows[:0]
	return nil
}

// slot is a batch in flight. Its Start, Batch, Counts, X, Matrix and Fill are those of HostSlot.
type slot struct {
	featurestore.HostSlot
	reader *reader
	loaded bool // LoadGraph has succeeded, and Wait has not read the rows yet
}

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	sl := new(slot)
	var errs [2]error
	sl.reader, errs[0] = s.newReader()
	errs[1] = sl.Open(s.loaders, &s.facts, eval)
	if err := errors.Join(errs[:]...); err != nil {
		sl.Free()
		return nil, err
	}
	return sl, nil
}

// LoadGraph waits for the graph. The rows to read follow from its input nodes, which are named by rank from then on.
func (sl *slot) LoadGraph(ctx context.Context) error {
	err := sl.LoadRanked(ctx, sl.reader.ranks.Uint32s())
	sl.loaded = err == nil
	return err
}

// Wait reads the rows. Without a graph it waits for the read of the graph alone.
func (sl *slot) Wait(ctx context.Context) error {
	loaded := sl.loaded
	sl.loaded = false
	if err := sl.Loader.Wait(ctx); err != nil || !loaded {
		return err
	}
	if err := sl.reader.read(ctx, sl.Nodes(), &sl.Rows, sl.SetRow); err != nil {
		return fmt.Errorf("rows of %v: %w", sl.Ref, err)
	}
	return nil
}

// Assemble has nothing left to do.
func (sl *slot) Assemble(ctx context.Context) error { return ctx.Err() }

// Free releases the memory of the slot.
func (sl *slot) Free() {
	sl.HostSlot.Free()
	if sl.reader.staging != nil {
		sl.reader.staging.Free()
	}
}
