package mmap

import (
	"context"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/sampled"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/presample"
)

// resident returns how many pages of a mapping the page cache holds.
func resident(t *testing.T, m []byte) (n int64) {
	t.Helper()
	in := make([]byte, (len(m)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, err := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&in[0]))); err != 0 {
		t.Fatal(err)
	}
	for _, b := range in {
		n += int64(b & 1)
	}
	return n
}

// The kernel reads the pages that the formula has and none besides, and holds no more of them
// than it may: after every batch, those that were touched since pages were dropped.
func TestPageCache(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 5000, AvgDegree: 3, Dim: 100}, Batch: 60, Epochs: 1, Fanout: []int{2, 2}},
		func(dataset, out string, p storetest.Params) error {
			_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
				BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2}, progress.Discard)
			return err
		})
	source, err := sampled.Find(storetest.Disk, w.Dataset, w.Samples)
	if err != nil {
		t.Fatal(err)
	}
	c, err := On(source, source.Dataset())
	if err != nil {
		t.Fatal(err)
	}
	stack, _, err := all.Open("pread", iostack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stack.Close()
	for _, percent := range []float64{0, 20, 100} {
		l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 40, Slots: 1, Cache: &budget.Size{Value: percent, Unit: budget.UnitPercent}})
		if err != nil {
			t.Fatal(err)
		}
		opened, err := c.Open(stack, l)
		if err != nil {
			t.Fatal(err)
		}
		s := opened.(*store)
		sl, err := s.NewSlot(false)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.file.Sync(); err != nil { // pages that were not written cannot be dropped
			t.Fatal(err)
		}
		data := s.mapping.Data()
		if err := dropPages(s.file, data); err != nil {
			t.Fatal(err)
		}
		if n := resident(t, data); n > 0 {
			t.Skipf("the file system of %s keeps %d pages that were dropped", w.Dataset, n)
		}
		if first := data[0]; resident(t, data) == 0 {
			t.Fatalf("the page of byte 0, which is %d, is not in the page cache", first)
		}
		if _, err := s.Fill(t.Context(), 0, progress.Discard); err != nil {
			t.Fatal(err)
		}
		if n := resident(t, data); n > 0 {
			t.Errorf("%d pages are in the page cache at the beginning", n)
		}
		drops, read := 0, int64(0)
		for i := range c.Facts().Train {
			before := s.pages.count
			if err := storetest.Load(t.Context(), sl, featurestore.Ref{Index: i}); err != nil {
				t.Fatal(err)
			}
			n := sl.Counts()
			read += n.BytesRead - n.GraphRead
			if s.pages.count < before+(n.BytesRead-n.GraphRead)/s.page {
				drops++
			}
			if got := resident(t, data); got > s.pages.count || got == 0 { // fewer where memory is short
				t.Fatalf("batch %d: %d pages are in the page cache, want %d", i, got, s.pages.count)
			}
		}
		if (drops > 0) != (percent < 100) || (read > s.size()) != (percent < 100) {
			t.Errorf("%v %%: %d drops, %d bytes of rows read", percent, drops, read)
		}
		sl.Free()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
