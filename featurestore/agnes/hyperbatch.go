package agnes

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/phases"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/iostack"
)

// hyperbatches are the rows of one hyperbatch, and the record of the next. They implement
// phases.Residents: the frame of a row is the place of its node in the hyperbatch's node set.
type hyperbatches struct {
	*design
	most   int // rows
	stack  iostack.Stack
	table  *dataset.FeatureReader // for its checksums
	file   iostack.File
	window featurestore.Window

	frames *phases.Frames
	blocks *device.Host // the buffer
	flight []flight     // of each of its blocks

	now, next span // the hyperbatch that is trained, and the recorded part of the next one
}

// span is batches of a sample epoch, and their input nodes.
type span struct {
	nodeSet
	first, batches int
	whole          bool // no more batches are added
}

// flight is the read of a block.
type flight struct {
	group iostack.Group
	req   [1]iostack.Request
	block int
}

func (h *hyperbatches) open(loaders featurestore.Loaders) (err error) {
	h.flight = make([]flight, h.design.blocks(int64(h.most)))
	if h.blocks, err = device.NewHost(len(h.flight) * blockBytes); err != nil {
		return err
	}
	if h.table, err = h.data.Features(); err != nil {
		return err
	}
	if h.file, err = h.stack.Open(h.table.Path()); err != nil {
		return err
	}
	if h.file.Size() < h.size() {
		return h.damaged(fault.New(fault.ErrCorrupt, "%s has %d bytes instead of %d: it was truncated", h.file.Name(), h.file.Size(), h.size()))
	}
	_ = h.stack.Register(h.blocks.Bytes()) // a hint
	h.window, err = loaders.NewWindow(windowAhead)
	return err
}

// damaged adds to an error about the features the advice to make them again.
func (h *hyperbatches) damaged(err error) error {
	return stage.Damaged(err, h.data.Dir(), h.data.Meta().Format)
}

// Close releases files and memory.
func (h *hyperbatches) Close() error {
	var errs []error
	if h.window != nil {
		h.window.Free()
	}
	if h.file != nil {
		_ = h.stack.Unregister(h.blocks.Bytes()) // Register was a hint
		errs = append(errs, h.file.Close())
	}
	if h.table != nil {
		errs = append(errs, h.table.Close())
	}
	if h.blocks != nil {
		h.blocks.Free()
	}
	return errors.Join(errs...)
}

func (h *hyperbatches) end(s *span) int { return (s.first + s.batches) % h.facts.Train }

// begin clears the span; its first batch will be the given one.
func (s *span) begin(batch int) {
	s.clear()
	s.first, s.batches, s.whole = batch, 0, false
}

// record adds the next batch to the next hyperbatch, or sets whole if there is no room. It adds its reads
// to counts.
func (h *hyperbatches) record(ctx context.Context, counts *featurestore.Counts) error {
	n := &h.next
	batch := h.end(n)
	if n.batches > 0 && (n.batches == h.longest || batch%h.facts.BatchesPerEpoch == 0) {
		n.whole = true
		return nil
	}
	if h.window.First() != batch {
		read, err := h.window.Advance(ctx)
		if err != nil {
			return err
		}
		if read > 0 {
			counts.Add(featurestore.Counts{BytesRead: read, GraphRead: read, Requests: 1})
		}
	}
	switch nodes := h.window.Inputs(0); {
	case n.add(nodes, h.most):
		n.batches++
	case n.batches == 0:
		return fmt.Errorf("batch %d has %d input nodes, but there is room for %d rows", batch, len(nodes), h.most)
	default:
		n.whole = true
	}
	return nil
}

// recordAll records the rest of the next hyperbatch.
func (h *hyperbatches) recordAll(ctx context.Context, counts *featurestore.Counts) error {
	for !h.next.whole {
		if err := h.record(ctx, counts); err != nil {
			return err
		}
	}
	return nil
}

// advance makes the next hyperbatch, which is whole, the present one.
func (h *hyperbatches) advance() {
	h.now, h.next = h.next, h.now
	h.now.index()
	h.next.begin(h.end(&h.now))
}

// Seek records the hyperbatches from the beginning of the sample epoch to the hyperbatch of the batch. If
// the batch is not its first, Seek also reads the hyperbatch, and records the batches of the next one
// that the turns of the earlier batches recorded.
func (h *hyperbatches) Seek(ctx context.Context, batch int, rep progress.Reporter) (int64, error) {
	task := rep.Task("record the input nodes of batches", int64(batch%h.facts.BatchesPerEpoch+1), progress.Batches)
	defer task.Done()
	first := batch - batch%h.facts.BatchesPerEpoch
	read, err := h.window.Seek(ctx, first)
	if err != nil {
		return 0, err
	}
	h.next.begin(first)
	var counts featurestore.Counts
	for {
		if err := h.recordAll(ctx, &counts); err != nil {
			return 0, err
		}
		task.Add(int64(h.next.batches))
		if batch < h.next.first+h.next.batches {
			break
		}
		h.advance()
	}
	if batch != h.next.first {
		h.advance()
		if err = h.load(ctx, &counts); err == nil {
			err = h.repeat(ctx, batch, &counts)
		}
	}
	return read + counts.BytesRead, err
}

// repeat brings the uses of frames and the recorded part of the next hyperbatch to their state before the given batch
// of the present hyperbatch. It reads the graphs of the earlier batches again, and does not count them.
func (h *hyperbatches) repeat(ctx context.Context, batch int, counts *featurestore.Counts) error {
	var buf []byte
	for b := h.now.first; b < batch; b++ {
		nodes, again, err := h.source.Inputs(ctx, featurestore.Ref{Index: b}, buf)
		if buf = again; err != nil {
			return fmt.Errorf("find the input nodes of earlier batches: %w", err)
		}
		if err := h.Find(nodes); err != nil {
			return err
		}
		h.frames.Uses(nodes)
		if err := h.ahead(ctx, false, counts); err != nil {
			return err
		}
	}
	return nil
}

// Turn reads the hyperbatch that begins with the batch, if any. It also records one batch of the next
// hyperbatch, or its rest at the last batch of the present one.
func (h *hyperbatches) Turn(ctx context.Context, batch int, counts *featurestore.Counts) error {
	if h.next.whole && batch == h.next.first {
		h.advance()
		if err := h.load(ctx, counts); err != nil {
			return err
		}
	}
	return h.ahead(ctx, (batch+1)%h.facts.Train == h.end(&h.now), counts)
}

// ahead records one batch of the next hyperbatch, or if all is set, the rest of it.
func (h *hyperbatches) ahead(ctx context.Context, all bool, counts *featurestore.Counts) error {
	switch {
	case all:
		return h.recordAll(ctx, counts)
	case h.next.whole:
		return nil
	}
	return h.record(ctx, counts)
}

// Find implements phases.Residents.
func (h *hyperbatches) Find(nodes []uint32) error {
	for i, v := range nodes {
		if !h.now.has(v) {
			return fmt.Errorf("node %d is not in the recorded hyperbatch", v)
		}
		nodes[i] = h.now.place(v)
	}
	return nil
}

// load reads the blocks that hold rows of the present hyperbatch, in the order of the file, and puts
// these rows into their frames. It adds its reads to counts.
func (h *hyperbatches) load(ctx context.Context, counts *featurestore.Counts) (err error) {
	begun, done := 0, 0
	for next := h.after(-1); next >= 0 || done < begun; {
		if next < 0 || begun-done == len(h.flight) {
			if err = h.finish(ctx, done%len(h.flight)); err != nil {
				break
			}
			done++
			continue
		}
		var n int64
		if n, err = h.start(begun%len(h.flight), next); err != nil {
			break
		}
		counts.BytesRead += n
		counts.Requests++
		begun++
		next = h.after(next)
	}
	if err == nil {
		err = h.frames.Flush()
	}
	if err != nil {
		for i := range h.flight {
			iostack.Drop(h.stack, &h.flight[i].group)
		}
		return h.damaged(fmt.Errorf("read a hyperbatch from batch %d on: %w", h.now.first, err))
	}
	h.frames.Read(0, int64(h.now.n)) // all frames of the hyperbatch
	return nil
}

// after returns the first block after the given one with a row of the hyperbatch, or -1.
func (h *hyperbatches) after(block int) int {
	row, begin := int64(h.facts.RowBytes), int64(block+1)*blockBytes
	v := h.now.from(begin / row) // the row may begin in an earlier block
	if v < 0 {
		return -1
	}
	return int(max(v*row, begin) / blockBytes)
}

// start submits the read of a block. It returns the bytes that it reads.
func (h *hyperbatches) start(k, block int) (int64, error) {
	f := &h.flight[k]
	f.block = block
	off, n := h.table.Piece(block)
	f.req[0] = iostack.Request{File: h.file, Offset: off, Buf: h.blocks.Bytes()[k*blockBytes:][:n]}
	return iostack.Extent(h.file, off, n), h.stack.Submit(&f.group, f.req[:])
}

// finish waits for a block, checks it and copies its rows, or parts of rows, into their frames. No earlier batch
// needs the rows in frames then.
func (h *hyperbatches) finish(ctx context.Context, k int) error {
	f := &h.flight[k]
	if err := h.stack.Wait(ctx, &f.group); err != nil {
		return err
	}
	block, err := h.table.Decode(f.block, f.req[0].Buf, nil)
	if err != nil {
		return err
	}
	if err := h.frames.Settle(ctx); err != nil {
		return err
	}
	row, begin := int64(h.facts.RowBytes), int64(f.block)*blockBytes
	end := begin + int64(len(block))
	v := h.now.from(begin / row) // at least one row of the hyperbatch is on the block
	for frame := int64(h.now.place(uint32(v))); v >= 0 && v*row < end; frame++ {
		lo, hi := max(v*row, begin), min((v+1)*row, end)
		if err := h.frames.Write(frame*row+lo-v*row, block[lo-begin:hi-begin]); err != nil {
			return err
		}
		v = h.now.from(v + 1)
	}
	return nil
}

func (d *design) Open(stack iostack.Stack, loaders featurestore.Loaders, frames *phases.Frames, rows int64) (phases.Residents, error) {
	h := &hyperbatches{design: d, most: int(rows), stack: stack, frames: frames}
	h.now.nodeSet, h.next.nodeSet = newNodeSet(d.facts.Nodes), newNodeSet(d.facts.Nodes)
	if err := h.open(loaders); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}
