package drives

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/simulate/kernel"
	"diskgnn/simulate/trace"
)

// small is a table of 8 rows of 3000 bytes, on the pages
//
//	row   0  1    2    3    4    5    6    7
//	page  0  0–1  1–2  2    2–3  3–4  4–5  5
//
// and three batches. By the batches, rows 2 and 5 are the hottest.
func small() *Workload {
	w := &Workload{Nodes: 8, RowBytes: 3000}
	for _, rows := range [][]uint32{{2, 5, 0}, {5, 2, 3}, {7, 5, 2, 6}} {
		if err := w.Add(&trace.Batch{SampleNanos: 2, AssembleNanos: 4, ComputeNanos: 3, Rows: rows}); err != nil {
			panic(err)
		}
	}
	return w
}

// TestPlanByHand holds the reads of each store against those by hand.
func TestPlanByHand(t *testing.T) {
	one, two := func(n int64) Reads { return Reads{Bytes: Page, Count: n} }, func(n int64) Reads { return Reads{Bytes: 2 * Page, Count: n} }
	for _, c := range []struct {
		name, store string
		caches      Caches
		want        []Load
	}{
		{"memory", "memory", Caches{}, []Load{{Copy: 9000, Hits: 3}, {Copy: 9000, Hits: 3}, {Copy: 12000, Hits: 4}}},
		{"rows", "rows", Caches{}, []Load{
			{Reads: []Reads{two(2), one(1)}, Copy: 9000},
			{Reads: []Reads{two(2), one(1)}, Copy: 9000},
			{Reads: []Reads{one(1), two(3)}, Copy: 12000},
		}},
		{"rows, two of them in RAM", "rows", Caches{Memory: 8999}, []Load{
			{Reads: []Reads{one(1)}, Copy: 9000, Hits: 2},
			{Reads: []Reads{one(1)}, Copy: 9000, Hits: 2},
			{Reads: []Reads{one(1), two(1)}, Copy: 12000, Hits: 2},
		}},
		{"packed", "packed", Caches{}, []Load{
			{Reads: []Reads{{Bytes: 12288, Count: 1}}, Copy: 9000, Striped: true},
			{Reads: []Reads{{Bytes: 12288, Count: 1}}, Copy: 9000, Striped: true},
			{Reads: []Reads{{Bytes: 12288, Count: 1}}, Copy: 12000, Striped: true},
		}},
		{"packed, two rows in RAM", "packed", Caches{Memory: 6000, Warmup: 1}, []Load{
			{Reads: []Reads{one(1)}, Copy: 9000, Hits: 2, Striped: true},
			{Reads: []Reads{two(1)}, Copy: 12000, Hits: 2, Striped: true},
		}},
		// Pages 1 2 | 3 4 | 0; then 3 4 | 1 2 | 2; then 5 | 3 4 | 1 2 | 4 5.
		{"mmap without memory", "mmap", Caches{Memory: 4095}, []Load{
			{Reads: []Reads{one(5)}, Copy: 9000}, {Reads: []Reads{one(5)}, Copy: 9000}, {Reads: []Reads{one(7)}, Copy: 12000},
		}},
		{"mmap, two pages", "mmap", Caches{Memory: 2 * Page}, []Load{
			{Reads: []Reads{one(5)}, Copy: 9000},
			{Reads: []Reads{one(4)}, Copy: 9000, Touched: 1, Hits: 1},
			{Reads: []Reads{one(7)}, Copy: 12000},
		}},
		{"mmap, all pages", "mmap", Caches{Memory: 6 * Page}, []Load{
			{Reads: []Reads{one(5)}, Copy: 9000},
			{Copy: 9000, Touched: 5, Hits: 3},
			{Reads: []Reads{one(1)}, Copy: 12000, Touched: 6, Hits: 3},
		}},
		// In turn: 1 2 3 | 4 2 3 | 4 0 3 || 3 is there, 4 is there | 4 0 1 | 2 0 1, 2 is
		// there || 2 5 1 | 2 5 3 | 4 5 3 | 4 1 3 | 4 1 2 | 4 is there, 5 1 2.
		{"gids", "gids", Caches{GPU: 3 * Page}, []Load{
			{Reads: []Reads{one(5)}, Direct: true},
			{Reads: []Reads{one(2)}, Direct: true, Hits: 2},
			{Reads: []Reads{one(6)}, Direct: true},
		}},
		// With a window of one batch ahead 1, 2 and 3 stay for the next batch, and 4 and 0
		// find no slot. Nor does 4 in the next, whose pages all stay, nor 5 at first in the
		// last; there 3 is used for the last time, and 4 takes its slot, 5 that of another.
		{"gids with a window", "gids", Caches{GPU: 3 * Page, Window: 1, Warmup: 1}, []Load{
			{Reads: []Reads{one(1)}, Direct: true, Hits: 2},
			{Reads: []Reads{one(3)}, Direct: true, Hits: 1},
		}},
		{"gids, two rows in RAM", "gids", Caches{Memory: 6000}, []Load{
			{Reads: []Reads{one(1)}, Direct: true, Zero: 6000, Hits: 2},
			{Reads: []Reads{one(1)}, Direct: true, Zero: 6000, Hits: 2},
			{Reads: []Reads{one(3)}, Direct: true, Zero: 6000, Hits: 2},
		}},
	} {
		got, err := Plan(c.store, small(), c.caches)
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.want {
			l := &c.want[i]
			l.Sample, l.Assemble, l.Compute = 2*kernel.Nanosecond, 4*kernel.Nanosecond, 3*kernel.Nanosecond
			l.Rows = int64(len(small().Batches[i+c.caches.Warmup].Rows))
			l.Useful = 3000 * l.Rows
		}
		if d := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// TestRecorded: reads of a file without direct I/O are what they are; of another they move
// whole pages, but beyond its end; long ones are cut; and their order stays.
func TestRecorded(t *testing.T) {
	w := &Workload{LongestRead: 2 * Page, Files: []trace.File{{Name: "a", Size: 1000}, {Name: "b", Size: 5*Page + 10, Pages: true}}}
	if err := w.Add(&trace.Batch{Reads: []trace.Read{
		{File: 0, Offset: 1, Bytes: 100}, {File: 0, Offset: 300, Bytes: 100}, {File: 0, Offset: 101, Bytes: 50},
		{File: 1, Offset: Page - 1, Bytes: 2},       // two pages
		{File: 1, Offset: 10, Bytes: 4 * Page},      // five, in two reads of two and one of one
		{File: 1, Offset: 5 * Page, Bytes: 10},      // what there is of the last
		{File: 1, Offset: 4*Page + 10, Bytes: Page}, // the same and a page
		{File: 0, Offset: 0, Bytes: 100},
	}}); err != nil {
		t.Fatal(err)
	}
	got, err := Plan("recorded", w, Caches{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Reads{{100, 2}, {50, 1}, {2 * Page, 3}, {Page, 1}, {10, 1}, {Page + 10, 1}, {100, 1}}
	if d := cmp.Diff(want, got[0].Reads); d != "" {
		t.Error(d)
	}
	all := int64(350 + 8*Page + 20)
	if n, bytes := got[0].Requests(); n != 10 || bytes != all || got[0].Copy != all || got[0].Useful != all {
		t.Error(n, bytes, got[0])
	}
	thrice := got[0].Times(3)
	if n, bytes := thrice.Requests(); n != 30 || bytes != 3*all || thrice.Copy != 3*all || got[0].Reads[0].Count != 2 {
		t.Error(thrice)
	}
	if _, err := Plan("rows", w, Caches{}); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "recorded only") {
		t.Error(err)
	}
	if _, err := Plan("disk", w, Caches{}); !errors.Is(err, fault.ErrUsage) {
		t.Error(err)
	}
	if _, err := Plan("recorded", w, Caches{Warmup: 1}); !errors.Is(err, fault.ErrUsage) {
		t.Error(err)
	}
	w.LongestRead = 1
	if err := w.Add(&trace.Batch{Reads: []trace.Read{{Bytes: MaxRequests}}}); !errors.Is(err, fault.ErrInput) {
		t.Error(err)
	}
}

// A chunk is read in pieces of 1 MiB.
func TestChunkReads(t *testing.T) {
	w := &Workload{Nodes: 600, RowBytes: Page}
	rows := make([]uint32, 600)
	for i := range rows {
		rows[i] = uint32(i)
	}
	for _, n := range []int{256, 512, 600} {
		if err := w.Add(&trace.Batch{Rows: rows[:n]}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Plan("packed", w, Caches{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]Reads{{{Bytes: 1 << 20, Count: 1}}, {{Bytes: 1 << 20, Count: 2}}, {{Bytes: 1 << 20, Count: 2}, {Bytes: 88 * Page, Count: 1}}} {
		if d := cmp.Diff(want, got[i].Reads); d != "" {
			t.Error(d)
		}
	}
	if w.TableBytes() != 600*Page || w.Bytes() < 4*(256+512+600) {
		t.Error(w.TableBytes(), w.Bytes())
	}
}

// The page cache is the list of pages by their last use, as long as it may be.
func TestLRU(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pages = 12
		room := rapid.IntRange(0, pages).Draw(t, "room")
		c := newLRU(pages, int64(room))
		var list []uint32
		for _, p := range rapid.SliceOfN(rapid.Uint32Range(0, pages-1), 0, 200).Draw(t, "pages") {
			at := slices.Index(list, p)
			if got := c.touch(p); got != (at >= 0) {
				t.Fatalf("page %d is resident: %t, among %v", p, got, list)
			}
			if at >= 0 {
				list = slices.Delete(list, at, at+1)
			}
			list = append([]uint32{p}, list...)
			list = list[:min(len(list), room)]
		}
	})
}

// The GPU's cache evicts the page that came first, but for those with a use in the window,
// which are passed by and looked at again a turn later.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pages = 10
		room := rapid.IntRange(0, pages).Draw(t, "room")
		window := rapid.IntRange(0, 3).Draw(t, "window")
		batches := rapid.SliceOfN(rapid.SliceOfN(rapid.Uint32Range(0, pages-1), 0, 6), 1, 12).Draw(t, "batches")
		w := &Workload{Nodes: pages, RowBytes: Page}
		for _, b := range batches {
			if err := w.Add(&trace.Batch{Rows: b}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := Plan("gids", w, Caches{GPU: int64(room) * Page, Window: window})
		if err != nil {
			t.Fatal(err)
		}
		queue := []int{} // pages in the order in which the hand meets them; -1: free
		for range room {
			queue = append(queue, -1)
		}
		for i, b := range batches {
			misses := int64(0)
			for j, v := range b {
				soon := func(p int) bool {
					if window == 0 || p < 0 {
						return false
					}
					left := append([]uint32{}, b[j:]...)
					for k := i + 1; k <= i+window && k < len(batches); k++ {
						left = append(left, batches[k]...)
					}
					return slices.Contains(left, uint32(p))
				}
				if slices.Contains(queue, int(v)) {
					continue
				}
				misses++
				for range queue {
					p := queue[0]
					queue = queue[1:]
					if !soon(p) {
						queue = append(queue, int(v))
						break
					}
					queue = append(queue, p)
				}
			}
			if n, _ := got[i].Requests(); n != misses || got[i].Hits != int64(len(b))-misses {
				t.Fatalf("batch %d misses %d, want %d", i, n, misses)
			}
		}
	})
}

// What is read does not grow with memory, but for gids' ring, which is no stack.
func TestMoreMemoryReadsLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &Workload{Nodes: 40, RowBytes: rapid.SampledFrom([]int64{512, 3000, 4096}).Draw(t, "row")}
		for range rapid.IntRange(1, 5).Draw(t, "batches") {
			if err := w.Add(&trace.Batch{Rows: rapid.SliceOfN(rapid.Uint32Range(0, 39), 1, 30).Draw(t, "rows")}); err != nil {
				t.Fatal(err)
			}
		}
		store := rapid.SampledFrom([]string{"rows", "packed", "mmap"}).Draw(t, "store")
		last := int64(-1)
		for memory := w.TableBytes() + Page; memory >= 0; memory -= 5000 {
			loads, err := Plan(store, w, Caches{Memory: memory})
			if err != nil {
				t.Fatal(err)
			}
			sum := int64(0)
			for i := range loads {
				_, bytes := loads[i].Requests()
				sum += bytes
			}
			if sum < last {
				t.Fatalf("%s reads %d with %d bytes, %d with more", store, sum, memory, last)
			}
			last = sum
		}
	})
}
