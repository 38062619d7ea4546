package machine

import (
	"context"
	"fmt"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
)

// Matrix is a slot's memory for its batches' feature matrices. n is the number of the batch's input nodes.
// See featurestore.Slot.
type Matrix interface {
	// Assemble completes the matrix, or the lists from which Fill makes it.
	Assemble(n int)
	Memory() []byte
	X(n int) []float32
	Fill(n int, copies device.Stream, x device.Buffer) (device.Span, error)
	Free()
}

// Slot is the common part of slots: all steps but LoadGraph.
type Slot struct {
	featurestore.Loaded
	Files *Files
	// Reads are the reads of the batch's rows; the zero value if the store reads no rows while training.
	Reads gpureads.Flight
	// In is the order in which training batches are assembled; nil: any order.
	In *Order
	// Of is the matrix, which Free frees.
	Of Matrix
	// Staging is memory that reads land in, of another owner, registered with the stack until Free.
	Staging []byte
}

// Register registers Staging with the stack.
func (sl *Slot) Register(staging []byte) error {
	sl.Staging = staging
	return sl.Files.Stack.Register(staging)
}

// Start submits the read of the graph. The rows to read follow from the graph.
func (sl *Slot) Start(r featurestore.Ref) error {
	if err := sl.landed(); err != nil { // of the batch before, if it was given up
		return err
	}
	return sl.Loaded.Start(r)
}

func (sl *Slot) landed() error { return sl.Reads.Landed(sl.Files.Sums, sl.Files.of.Damaged) }

// Wait completes the reads of the rows. If the batch was given up, it ends them, and the read of the graph.
func (sl *Slot) Wait(ctx context.Context) error {
	if err := sl.Loader.Wait(ctx); err != nil {
		return err
	}
	return sl.Reads.Wait(ctx)
}

// Assemble implements featurestore.Slot.
func (sl *Slot) Assemble(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := sl.In.Take(sl.Ref); err != nil {
		return err
	}
	sl.Of.Assemble(len(sl.Batch().Input))
	return nil
}

// X implements featurestore.Slot.
func (sl *Slot) X() []float32 { return sl.Of.X(len(sl.Batch().Input)) }

// Matrix implements featurestore.Slot.
func (sl *Slot) Matrix() []byte { return sl.Of.Memory() }

// Fill implements featurestore.Slot.
func (sl *Slot) Fill(copies device.Stream, x device.Buffer) (device.Span, error) {
	return sl.Of.Fill(len(sl.Batch().Input), copies, x)
}

// Free implements featurestore.Slot.
func (sl *Slot) Free() {
	sl.Loaded.Free()
	if sl.Staging != nil {
		_ = sl.Files.Stack.Unregister(sl.Staging) // Register was a hint
	}
	if sl.Of != nil {
		sl.Of.Free()
	}
}

// Landing is a Slot with rows that a GPU may read. It implements featurestore.Landing.
type Landing struct{ Slot }

// Landed implements featurestore.Landing.
func (l *Landing) Landed() error { return l.landed() }

var _ featurestore.Landing = (*Landing)(nil)

// Order is the order of the samples, in which training batches are assembled.
type Order struct {
	Next  int    // the batch to assemble
	Train int    // training batches
	What  string // that changes with them, for errors
}

// Take takes a batch, which must be the next one if it is a training batch.
func (o *Order) Take(r featurestore.Ref) error {
	if o == nil || r.Split != featurestore.Train {
		return nil
	}
	if r.Index != o.Next {
		return fmt.Errorf("batch %d is assembled out of order: %s at batch %d", r.Index, o.What, o.Next)
	}
	o.Next = (o.Next + 1) % o.Train
	return nil
}
