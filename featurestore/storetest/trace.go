package storetest

import (
	"errors"
	"fmt"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
)

// Trace returns the input nodes of the training batches, as they were sampled.
func (w *World) Trace(t testing.TB) (list [][]uint32) {
	t.Helper()
	for i := range w.samples.Facts().TrainBatches {
		list = append(list, w.read(t, featurestore.Ref{Index: i}).Input)
	}
	return list
}

// Opened is a store with some slots for training batches.
type Opened struct {
	featurestore.Store
	Slots []featurestore.Slot
	Facts featurestore.Facts
}

// Open opens a store with all the memory that it wants, until the test ends.
func Open(t testing.TB, c featurestore.Candidate, slots int) *Opened {
	t.Helper()
	return OpenWith(t, c, slots, featurestore.PlanOptions{})
}

// OpenWith opens a store by options, which it gives all the memory that it wants, until the
// test ends.
func OpenWith(t testing.TB, c featurestore.Candidate, slots int, o featurestore.PlanOptions) *Opened {
	t.Helper()
	o.Memory, o.GPUMemory, o.Slots, o.MostSlots = 1<<40, 1<<40, slots, slots
	l, err := c.Plan(o)
	if err != nil {
		t.Fatal(err)
	}
	stack, _, err := all.Open("pread", iostack.Options{Workers: 4})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Open(stack, l)
	if err != nil {
		t.Fatal(err)
	}
	st := &Opened{Store: s, Facts: c.Facts()}
	for range slots {
		sl, err := s.View(0).NewSlot(false)
		if err != nil {
			t.Fatal(err)
		}
		st.Slots = append(st.Slots, sl)
	}
	t.Cleanup(func() {
		for _, sl := range st.Slots {
			sl.Free()
		}
		if err := errors.Join(s.Close(), stack.Close()); err != nil {
			t.Error(err)
		}
	})
	return st
}

// FillFor fills the store for a run that goes on with the given batch, and returns also what
// was reported.
func (o *Opened) FillFor(t testing.TB, next int) (read int64, lines []string) {
	t.Helper()
	n := &notes{Reporter: progress.Discard}
	read, err := o.Fill(t.Context(), next, n)
	if err != nil {
		t.Fatal(err)
	}
	return read, n.lines
}

// notes keeps what is reported.
type notes struct {
	progress.Reporter
	lines []string
}

func (n *notes) Logf(format string, args ...any) {
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// Covered returns the bytes of the pages of some rows, each row's by themselves, counted
// page by page.
func Covered(nodes []uint32, row int, size int64) (bytes int64) {
	for _, v := range nodes {
		for page := int64(v) * int64(row) / 4096 * 4096; page < int64(v+1)*int64(row); page += 4096 {
			bytes += min(4096, size-page)
		}
	}
	return bytes
}
