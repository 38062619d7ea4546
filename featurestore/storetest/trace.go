package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
)

// Trace returns the input nodes of the sampled training batches.
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

// Open opens a store without a limit of memory, and closes it when the test ends.
func Open(t testing.TB, c featurestore.Candidate, slots int) *Opened {
	t.Helper()
	return OpenWith(t, c, slots, featurestore.PlanOptions{})
}

// OpenWith is Open with the given options, without a limit of memory.
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

// FillFor fills the store for a run that continues with the given batch. It returns the bytes read and the
// log lines.
func (o *Opened) FillFor(t testing.TB, next int) (read int64, lines []string) {
	t.Helper()
	n := &notes{Reporter: progress.Discard}
	read, err := o.Fill(t.Context(), next, n)
	if err != nil {
		t.Fatal(err)
	}
	return read, n.lines
}

// notes keeps the log lines.
type notes struct {
	progress.Reporter
	lines []string
}

func (n *notes) Logf(format string, args ...any) {
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// Covered returns the bytes of the pages of some rows, counted page by page. A page with several rows
// counts for each of them.
func Covered(nodes []uint32, row int, size int64) (bytes int64) {
	for _, v := range nodes {
		for page := int64(v) * int64(row) / 4096 * 4096; page < int64(v+1)*int64(row); page += 4096 {
			bytes += min(4096, size-page)
		}
	}
	return bytes
}

// ResumesAnywhere runs a store with rows in float16 through its training batches, with up to three batches
// decoded ahead. A run that continues at any batch must have the hits and reads of an uninterrupted run,
// without a state of the store in the checkpoint.
func ResumesAnywhere(t *testing.T, w *World, c featurestore.Candidate) {
	t.Helper()
	run := func(from, n int) (list []featurestore.Counts) {
		st := Open(t, c, 3)
		if state, err := st.State(); state != nil || err != nil {
			t.Fatalf("%d bytes of state, %v", len(state), err)
		}
		if read, lines := st.FillFor(t, from%st.Facts.Train); len(lines) > 0 || read == 0 {
			t.Errorf("from batch %d: read %d, reported %q", from, read, lines)
		}
		for i := range n + 2 {
			if i < n {
				if err := errors.Join(st.Slots[i%3].Start(featurestore.Ref{Index: (from + i) % st.Facts.Train}), st.Slots[i%3].LoadGraph(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			if k := i - 2; k >= 0 {
				sl, ref := st.Slots[k%3], featurestore.Ref{Index: (from + k) % st.Facts.Train}
				if err := errors.Join(sl.Wait(t.Context()), sl.Assemble(t.Context())); err != nil {
					t.Fatal(err)
				}
				w.Holds(t, ref, sl.Batch(), sl.X(), dtype.Float16)
				list = append(list, sl.Counts())
			}
		}
		return list
	}
	train := c.Facts().Train
	whole := run(0, 2*train+1)
	for from := range train + 1 {
		if got := run(from, train); !slices.Equal(got, whole[from:from+train]) {
			t.Errorf("from batch %d: %+v, not interrupted %+v", from, got, whole[from:from+train])
		}
	}
}
