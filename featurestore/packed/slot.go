package packed

import (
	"context"
	"fmt"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/graph"
)

// Slot is a featurestore.Slot. Everything is reserved when the slot is made, at the pack's
// maxima.
type Slot struct {
	batch
	graph graphReader
	parts []part // of the levels
	mem   memory

	used       bool // by a batch
	registered bool // its memory, with the stack
}

// course is how batches of one kind, for training or for evaluation, become matrices.
type course struct {
	sizes  graph.Sizes
	matrix matrixSize
	graphs graphs
	levels []level // in the order in which they claim rows
	plans  bool    // batches have plans
}

// register announces the slot's memory to the stack, from its second batch on. Announced
// memory is pinned, for which the kernel has to find all of it first: a second for all slots
// together, or more on a virtual machine, in which the drive would be idle if they began
// with it. The first batch's reads bring in the memory that they land in, side by side.
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

// Free gives the slot's memory back. No read may be in flight: Wait first.
func (sl *Slot) Free() {
	sl.matrix.free()
	if sl.registered {
		for _, h := range sl.mem.landing {
			_ = sl.src.stack.Unregister(h.Bytes()) // Register was a hint
		}
	}
	sl.mem.free()
}

// Batch returns the graph of the batch loaded last; its memory is reused.
func (sl *Slot) Batch() *graph.Batch { return &sl.decoded }

// Counts returns the counts of the batch loaded last.
func (sl *Slot) Counts() featurestore.Counts { return sl.counts }

// Matrix returns the memory in which X lies, whichever batch it is of, until Free; none
// where the GPU assembles it.
func (sl *Slot) Matrix() []byte { return sl.matrix.memory() }

// X returns the batch's feature matrix, input nodes × dim, row-major. It is
// complete after Assemble, and the slot's until Start. Where the GPU assembles it there is
// none: see Fill.
func (sl *Slot) X() []float32 { return sl.matrix.x(len(sl.decoded.Input)) }

// Fill submits the work that makes x the feature matrix of the assembled batch: copies on the given
// stream, then work on a stream of the store, and returns the time span of the latter, nil if there is
// none. x is complete once both are done. The slot must stay as it is until the copies are done. Fill
// reuses a batch's memory on the device along with x: of training batches, the one before the last must
// have been computed, of other batches the last. The calling goroutine is attached.
func (sl *Slot) Fill(copies *cuda.Stream, x cuda.Buffer) (*cuda.Span, error) {
	return sl.matrix.fill(copies, x)
}

// Landed implements featurestore.Landing: where the GPU reads chunks by itself, it checks them, and
// Landed returns the error once the copies of Fill are done.
func (sl *Slot) Landed() error { return sl.matrix.landed() }

var _ featurestore.Landing = (*Slot)(nil)

// Start submits the reads of the batch's graph and, of a training batch, of its chunk, as
// far as memory does not hold its rows: the index knows where both lie. It returns at once,
// but for the slot's second batch, before which its memory is registered; the slot must be
// waited for, even after an error.
func (sl *Slot) Start(ref featurestore.Ref) error {
	if err := sl.register(); err != nil {
		return err
	}
	if err := sl.matrix.landed(); err != nil { // of a batch that nobody looked at
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

// Wait returns when all reads have landed. Pages are read, checked and copied out round
// after round. When ctx ends first it returns once no read can still write into the slot.
func (sl *Slot) Wait(ctx context.Context) error {
	err := sl.graph.end(ctx, &sl.batch) // of a batch that is given up
	for _, p := range sl.parts {
		err = p.wait(ctx, err)
	}
	return err
}

// Assemble checks the chunk and completes the matrix, or the inputs from which Fill makes it. Under
// policy min it changes the cache: one goroutine assembles the training batches, in the pack's order,
// from the batch that the cache was filled for.
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
