package storetest

import (
	"errors"
	"slices"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/internal/dtype"
)

// ResumesAnywhere runs a store of rows of float16 through its training batches, three of them at a
// time, decoded ahead. A run that goes on at any batch hits and reads what one that was not
// interrupted does. Checkpoints hold nothing of the store.
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
