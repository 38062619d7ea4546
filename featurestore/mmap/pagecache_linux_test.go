package mmap

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/featurestore/presampled"
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

// newCached makes rows of 400 bytes, 5000 of them, with batches and a stack.
func newCached(t *testing.T) (featurestore.Candidate, iostack.Stack) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 5000, AvgDegree: 3, Dim: 100}, Batch: 60, Epochs: 1, Fanout: []int{2, 2}},
		func(dataset, out string, p storetest.Params) error {
			_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
				BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2}, progress.Discard)
			return err
		})
	source, err := presampled.Find(storetest.Disk, w.Dataset, w.Samples)
	if err != nil {
		t.Fatal(err)
	}
	c, err := on(source, source.Dataset())
	if err != nil {
		t.Fatal(err)
	}
	stack, _, err := all.Open("pread", iostack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stack.Close() })
	return c, stack
}

// The kernel reads the pages that the formula has and none besides, and holds no more of them
// than it may: after every batch, those that were touched since pages were dropped.
func TestPageCache(t *testing.T) {
	c, stack := newCached(t)
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
		if err := s.mapping.Handle().Sync(); err != nil { // pages that were not written cannot be dropped
			t.Fatal(err)
		}
		data := s.mapping.Data()
		if err := dropPages(s.mapping.Handle(), data); err != nil {
			t.Fatal(err)
		}
		if n := resident(t, data); n > 0 {
			t.Skipf("the file system of %s keeps %d pages that were dropped", c.Dir(), n)
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
		if (drops > 0) != (percent < 100) || (read > s.Size()) != (percent < 100) {
			t.Errorf("%v %%: %d drops, %d bytes of rows read", percent, drops, read)
		}
		sl.Free()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Where a cgroup holds the page cache, what the kernel reads is counted by the faults that
// waited: on a cold file the pages of the batch's rows, and none a second time.
func TestConfinedCounts(t *testing.T) {
	c, stack := newCached(t)
	l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 40, Slots: 1, FaultThreads: 3})
	if err != nil {
		t.Fatal(err)
	}
	o := l.Own.(own)
	o.confined = true
	l.Own = o
	opened, err := c.Open(stack, l)
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*store)
	defer s.Close()
	sl, err := s.NewSlot(false)
	if err != nil {
		t.Fatal(err)
	}
	defer sl.Free()
	if err := s.mapping.Handle().Sync(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Fill(t.Context(), 0, progress.Discard); err != nil {
		t.Fatal(err)
	}
	if n := resident(t, s.mapping.Data()); n > 0 {
		t.Skipf("the file system of %s keeps %d pages that were dropped", c.Dir(), n)
	}
	for again := range 2 {
		if err := storetest.Load(t.Context(), sl, featurestore.Ref{}); err != nil {
			t.Fatal(err)
		}
		cached := resident(t, s.mapping.Data())
		n, rows := sl.Counts(), len(sl.Batch().Input)
		pages, useful := n.Requests-1, n.UsefulBytes-sl.(*slot).Loader.Counts().UsefulBytes
		if pages == 0 && again == 0 {
			t.Skip("faults do not wait on this file system")
		}
		cold, off := rows-n.RAMRows, math.Abs(float64(pages-cached)) // see threadFaults
		if again == 0 && (off > 0.1*float64(cached) || int64(cold) > pages || int64(cold)*2 < pages || useful > pages*s.page || useful > int64(cold)*int64(c.Facts().RowBytes)) {
			t.Errorf("%d pages are read, %d are cached, %d of %d rows are cold: %+v", pages, cached, cold, rows, n)
		}
		if again == 1 && (pages != 0 || cold != 0) {
			t.Errorf("%d pages are read again, for %d rows: %+v", pages, cold, n)
		}
		if n.BytesRead-n.GraphRead != pages*s.page {
			t.Errorf("%d pages in %+v", pages, n)
		}
	}
}

// A cgroup is made where there are pages to evict, and room for what it holds besides.
func TestConfine(t *testing.T) {
	c := &levels{Table: &machine.Table{Facts: featurestore.Facts{Nodes: 1 << 20, RowBytes: 4096}}, page: 4096} // as many pages
	least := int64(confinedLeast+8<<20) / 4096
	for pages, want := range map[int64]bool{least: true, least - 1: false, 1<<20 - 1: true, 1 << 20: false} {
		l, ok := c.Confine(featurestore.Layout{Note: "as it was", Own: own{pages: pages, threads: 5}})
		if o := l.Own.(own); ok != want || o.confined != want || o.pages != pages || o.threads != 5 || strings.Contains(l.Note, "a memory cgroup limits") != want {
			t.Errorf("%d pages: %t, %+v", pages, ok, l)
		}
	}
}
