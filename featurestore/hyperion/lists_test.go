package hyperion_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/hyperion"
	"diskgnn/featurestore/presampled"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
)

// listing is a source of samples that can hold lists of neighbours, of which it only notes
// which it is to hold. The list of node v has v mod 7 entries, and was drawn from v mod 5 times
// and once more for each batch with the node.
type listing struct {
	*presampled.Source
	draws []uint32
	held  []uint32
	fails error
}

func newListing(t testing.TB, w *storetest.World) *listing {
	t.Helper()
	s, err := presampled.Find(storetest.Disk, w.Dataset, w.Samples)
	must(t, err)
	l := &listing{Source: s, draws: make([]uint32, s.Facts().Nodes)}
	for v := range l.draws {
		l.draws[v] = uint32(v % 5)
	}
	for _, batch := range w.Trace(t) {
		for _, v := range batch {
			l.draws[v]++
		}
	}
	return l
}

const tableOfLists, workOnLists, readForLists = 5000, 1000, 12345

func (l *listing) Draws() []uint32              { return l.draws }
func (l *listing) ListBytes(v uint32) int64     { return 4 + 400*int64(v%7) }
func (l *listing) ListRead(v uint32) int64      { return 4096 * min(1, int64(v%7)) }
func (l *listing) ListsBytes(lists int64) int64 { return lists + tableOfLists }
func (l *listing) ListsWork() int64             { return workOnLists }

func (l *listing) HoldLists(_ context.Context, nodes []uint32, _ progress.Reporter) (int64, error) {
	l.held = slices.Clone(nodes)
	return readForLists, l.fails
}

var listed = storetest.Params{Params: datasettest.Params{Nodes: 400, AvgDegree: 4, Dim: 100}, Batch: 12, Epochs: 2, Fanout: []int{2, 3}}

// The memory is divided between rows and lists by what each saves, of the hotness and the
// draws; what is held keeps to it, and what is read follows from the rows.
func TestRowsAndListsShareMemory(t *testing.T) {
	w := storetest.NewWorld(t, listed, sample)
	trace := w.Trace(t)
	const row, size = 400, 400 * 400
	for _, more := range []int64{0, 20_000, 60_000, 150_000, 1 << 30} {
		l := newListing(t, w)
		c, err := hyperion.Design().On(l, l.Dataset())
		must(t, err)
		least, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 40, Slots: 1, Least: true})
		must(t, err)
		memory := least.Bytes(1, 0) + more
		layout, err := c.Plan(featurestore.PlanOptions{Memory: memory, Slots: 1})
		must(t, err)
		if n := layout.Bytes(1, 0); n > memory {
			t.Errorf("%d bytes of %d", n, memory)
		}
		stack, _, err := all.Open("pread", iostack.Options{Workers: 2})
		must(t, err)
		defer stack.Close()
		st, err := c.Open(stack, layout)
		must(t, err)
		_, err = st.Fill(t.Context(), 0, progress.Discard)
		must(t, err)
		// The room is not told; it is that of what is held, and of less than a row and a list
		// that did not fit.
		hotness, err := l.Hotness()
		must(t, err)
		rows := hyperion.Demand{Accesses: hotness, Bytes: func(uint32) int64 { return row + 4 },
			Read: func(v uint32) int64 { return storetest.Covered([]uint32{v}, row, size) }}
		lists := hyperion.Demand{Accesses: l.draws, Bytes: l.ListBytes, Read: l.ListRead}
		ofLists := int64(0)
		for _, v := range l.held {
			ofLists += l.ListBytes(v)
		}
		room := layout.CacheRows*(row+4) + ofLists
		want := hyperion.Divide(rows, lists, hyperion.Room{RAM: room}).RAM
		if int64(len(want.Rows)) != layout.CacheRows || !slices.Equal(want.Lists, l.held) {
			t.Errorf("%d more bytes: %d rows and lists %v are held, divided %d and %v", more, layout.CacheRows, l.held, len(want.Rows), want.Lists)
		}
		if more == 60_000 && (len(l.held) == 0 || layout.CacheRows == 0) {
			t.Errorf("%d rows, %d lists", layout.CacheRows, len(l.held))
		}
		if note := budget.FormatBytes(ofLists) + " of the cache hold lists of neighbours"; !strings.HasPrefix(layout.Note, note) {
			t.Errorf("%q, not %q", layout.Note, note)
		}
		sl, err := st.View(0).NewSlot(false)
		must(t, err)
		for i, batch := range trace {
			must(t, storetest.Load(t.Context(), sl, featurestore.Ref{Index: i}))
			missed := slices.DeleteFunc(slices.Clone(batch), func(v uint32) bool { return slices.Contains(want.Rows, v) })
			if c := sl.Counts(); c.RAMRows != len(batch)-len(missed) || c.BytesRead-c.GraphRead != storetest.Covered(missed, row, size) {
				t.Fatalf("batch %d: %+v, %d rows are not held", i, c, len(missed))
			}
		}
		sl.Free()
		must(t, st.Close())
	}
}

// Rows whose number is given leave the rest to the lists. That lists cannot be held is an
// error, after which they can.
func TestRowsAreGiven(t *testing.T) {
	w := storetest.NewWorld(t, listed, sample)
	l := newListing(t, w)
	c, err := hyperion.Design().On(l, l.Dataset())
	must(t, err)
	tenth := percent(10)
	without, err := find(t, w, 10).Plan(featurestore.PlanOptions{Memory: 1 << 40, Slots: 1, Cache: tenth})
	must(t, err)
	layout, err := c.Plan(featurestore.PlanOptions{Memory: without.Bytes(1, 0) + 50_000, Slots: 1, Cache: tenth})
	must(t, err)
	if n := layout.Bytes(1, 0); layout.CacheRows != 40 || n > without.Bytes(1, 0)+50_000 || layout.RAMBytes <= without.RAMBytes+tableOfLists {
		t.Errorf("%+v, of rows alone %+v", layout, without)
	}
	stack, _, err := all.Open("pread", iostack.Options{Workers: 2})
	must(t, err)
	defer stack.Close()
	st, err := c.Open(stack, layout)
	must(t, err)
	l.fails = errors.New("no list")
	if _, err := st.Fill(t.Context(), 0, progress.Discard); !errors.Is(err, l.fails) {
		t.Errorf("lists cannot be held: %v", err)
	}
	l.fails = nil
	read, err := st.Fill(t.Context(), 0, progress.Discard)
	must(t, err)
	lists := hyperion.Demand{Accesses: l.draws, Bytes: l.ListBytes, Read: l.ListRead}
	want := hyperion.Divide(hyperion.Demand{}, lists, hyperion.Room{RAM: layout.RAMBytes - without.RAMBytes - tableOfLists}).RAM.Lists
	if len(want) == 0 || !slices.Equal(l.held, want) || read <= readForLists {
		t.Errorf("lists %v, want %v; filling read %d bytes", l.held, want, read)
	}
	sl, err := st.View(0).NewSlot(false)
	must(t, err)
	trace := w.Trace(t)
	must(t, storetest.Load(t.Context(), sl, featurestore.Ref{}))
	held := order(trace, 400, 400*400)[:40]
	if n := len(slices.DeleteFunc(slices.Clone(trace[0]), func(v uint32) bool { return !slices.Contains(held, v) })); n == 0 || sl.Counts().RAMRows != n {
		t.Errorf("%d rows are held of a batch, want %d", sl.Counts().RAMRows, n)
	}
	sl.Free()
	must(t, st.Close())
}

// A store that holds lists too passes for one that holds rows alone.
func TestConformanceWithLists(t *testing.T) {
	storetest.Run(t, storetest.NewWorld(t, small(100, dtype.Float32), sample), func(t testing.TB, w *storetest.World) featurestore.Candidate {
		l := newListing(t, w)
		c, err := hyperion.Design().On(l, l.Dataset())
		must(t, err)
		return storetest.Cached(c, 30, "")
	}, storetest.GPUReads)
}
