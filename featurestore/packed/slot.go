package packed

import (
	"context"
	"fmt"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/graph"
)

// Slot is a featurestore.Slot. It allocates all memory when it is made, for the pack's maxima.
type Slot struct {
	batch
	graph graphReader
	parts []part // of the levels
	mem   memory

	pins *gpurows.Pins // of the graph, if the GPU copies its blocks

	used       bool // a batch has used the slot
	registered bool // the stack has registered its memory
}

// course has the levels and sizes of training batches, or of evaluation batches.
type course struct {
	sizes  graph.Sizes
	matrix matrixSize
	graphs graphs
	levels []level // in the order in which they claim rows
	plans  bool    // batches have plans
	inBits bool    // blocks are not decoded
}

// newBatch returns the memory of a batch. Blocks in bits stay in the memory that they are read into.
func (c *course) newBatch(targetBytes int) graph.Batch {
	if c.inBits {
		return c.sizes.NewBatchInBits(targetBytes)
	}
	return c.sizes.NewBatch(targetBytes)
}

// batchBytes returns the bytes of newBatch.
func (c *course) batchBytes(targetBytes int) int64 {
	if c.inBits {
		return c.sizes.BytesInBits(targetBytes)
	}
	return c.sizes.Bytes(targetBytes)
}

// register registers the slot's memory with the stack, before its second batch. Registered memory is
// pinned, so the kernel first has to allocate all pages: this takes a second for all slots together, or
// more on a virtual machine. Before the first batch the drive would be idle meanwhile. After it, the reads
// have allocated most pages already.
func (sl *Slot) register() error {
	if !sl.used || sl.registered {
		sl.used = true
		return nil
	}
	var bufs [][]byte
	for _, h := range sl.mem.landing {
		bufs = append(bufs, h.Bytes())
	}
	if err := sl.src.stack.Register(bufs...); err != nil {
		return fmt.Errorf("register a slot's memory: %w", err)
	}
	sl.registered = true
	return nil
}

// Free releases the slot's memory. Call Wait first: no read may be in flight.
func (sl *Slot) Free() {
	sl.matrix.free()
	sl.pins.Free()
	if sl.registered {
		for _, h := range sl.mem.landing {
			_ = sl.src.stack.Unregister(h.Bytes()) // Register was a hint
		}
	}
	sl.mem.free()
}

// Batch returns the graph of the batch loaded last, valid until the next Start.
func (sl *Slot) Batch() *graph.Batch { return &sl.decoded }

// Counts returns the counts of the batch loaded last.
func (sl *Slot) Counts() featurestore.Counts { return sl.counts }

// Matrix returns the memory of X for all batches of the slot, valid until Free; nil if a GPU assembles the
// matrix.
func (sl *Slot) Matrix() []byte { return sl.matrix.memory() }

// X returns the batch's feature matrix, input nodes × dim, row-major. It is complete after Assemble, and
// valid until the next Start. It is nil if a GPU assembles the matrix: see Fill.
func (sl *Slot) X() []float32 { return sl.matrix.x(len(sl.decoded.Input)) }

// Fill implements featurestore.Slot. x is complete once the copies and the work of the returned span are
// done.
func (sl *Slot) Fill(copies device.Stream, x device.Buffer) (device.Span, error) {
	return sl.matrix.fill(copies, x)
}

// Landed implements featurestore.Landing, for chunks that the GPU reads.
func (sl *Slot) Landed() error { return sl.matrix.landed() }

var _ featurestore.Landing = (*Slot)(nil)

// Start submits the reads of the batch's graph and, for a training batch, of the chunk's rows that are not
// in memory, at the places given by the index. It returns at once, except for the slot's second batch,
// before which it registers the slot's memory. Call Wait afterwards, even after an error.
func (sl *Slot) Start(ref featurestore.Ref) error {
	if err := sl.register(); err != nil {
		return err
	}
	if err := sl.matrix.landed(); err != nil { // of the batch before, if it was given up
		return err
	}
	sl.begin(ref)
	sl.matrix.begin()
	if err := sl.graph.start(&sl.batch); err != nil {
		return err
	}
	for _, p := range sl.parts {
		if err := p.start(); err != nil {
			return err
		}
	}
	return nil
}

// LoadGraph waits for the graph, checks and decodes it, and submits the first of the reads
// that follow from it.
func (sl *Slot) LoadGraph(ctx context.Context) error {
	if err := sl.graph.load(ctx, &sl.batch); err != nil {
		return err
	}
	for _, p := range sl.parts {
		if err := p.follow(); err != nil {
			return err
		}
	}
	return nil
}

// Wait returns when all reads have landed. Pages are read, checked and copied out in rounds. If ctx ends
// first, it returns as soon as no read can write into the slot any more.
func (sl *Slot) Wait(ctx context.Context) error {
	err := sl.graph.end(ctx, &sl.batch) // if the batch was given up before LoadGraph
	for _, p := range sl.parts {
		err = p.wait(ctx, err)
	}
	return err
}

// Assemble checks the chunk and completes the matrix, or the inputs from which Fill makes it. Under policy
// min it changes the cache: one goroutine must assemble the training batches, in the pack's order, from
// the batch given to Fill on.
func (sl *Slot) Assemble(ctx context.Context) error {
	for _, p := range sl.parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.place(); err != nil {
			return err
		}
	}
	return nil
}
