package gids_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/gids"
	"diskgnn/featurestore/residency"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// highest returns the rows of the highest ranks, by a dense matrix: column v of it is where rank
// goes from node v.
func highest(raw *dataset.Raw, most int, script bool) map[uint32]bool {
	n := raw.NumNodes()
	sources := func(v int) []uint32 {
		first, count := int64(v), 1
		if raw.Types != nil {
			first, count = raw.Types.Rows(uint32(v))
		}
		return raw.Indices[raw.Indptr[first]:raw.Indptr[int(first)+count]]
	}
	goes := make([][]float64, n) // by target
	for u := range goes {
		goes[u] = make([]float64, n)
	}
	for v := range n {
		for _, u := range sources(v) {
			from, to := v, int(u)
			if script {
				from, to = to, from
			}
			goes[to][from]++ // there may be several edges
		}
	}
	rank := slices.Repeat([]float64{1 / float64(n)}, n)
	for range 20 {
		next := make([]float64, n)
		for u := range n {
			sum := 0.0
			for v := range n {
				for range int(goes[u][v]) {
					sum += rank[v] / float64(max(1, len(sources(v))))
				}
			}
			jump, walk := (1-.85)/float64(n), .85*sum
			next[u] = jump + walk
		}
		rank = next
	}
	if raw.Types != nil {
		rows := make([]float64, raw.Types.NumFeatureRows())
		for v, r := range rank {
			rows[raw.Types.FeatureRow(uint32(v))] += r
		}
		rank, n = rows, len(rows)
	}
	set := map[uint32]bool{}
	for len(set) < most {
		best := -1
		for v := range n {
			if !set[uint32(v)] && (best < 0 || rank[v] > rank[best]) {
				best = v
			}
		}
		set[uint32(best)] = true
	}
	return set
}

// read is what a batch reads and hits.
type read struct {
	ram, buffered  int // rows
	hits, misses   int // accesses of pages
	bytes, useful  int64
	before, passed int // batches that may be under way with it; pages that no line takes
}

// model is the store as its package comment has it, over a trace that goes round: it looks into
// the trace wherever the store keeps counts.
type model struct {
	trace      [][]uint32
	buffer     map[uint32]bool
	row, size  int64
	room       int
	script     bool
	lines      []int64 // pages
	hand       int
	pagesOfAll []map[int64]bool
}

// pages returns the pages of a batch, each with the bytes that its rows have there.
func (m *model) pages(k int) map[int64]int64 {
	p := map[int64]int64{}
	for _, v := range m.trace[k%len(m.trace)] {
		for b := int64(v) * m.row; !m.buffer[v] && b < int64(v+1)*m.row; b++ {
			p[b/4096]++
		}
	}
	return p
}

func (m *model) wanted(page int64, lo, hi int) bool {
	for k := max(0, lo); k <= hi; k++ {
		if m.pagesOfAll[k%len(m.trace)][page] {
			return true
		}
	}
	return false
}

// befores divides n batches into gathers, and returns how many may be under way before each.
func (m *model) befores(n int) (list []int) {
	last := 0
	for len(list) < n {
		rows, served, batches := 0, 0, 0
		for more := true; more; {
			list = append(list, max(2, batches))
			b := m.trace[(len(list)-1)%len(m.trace)]
			for _, v := range b {
				if m.buffer[v] {
					served++
				}
			}
			rows += len(b)
			batches++
			if m.script {
				more = rows <= 854+batches*last
			} else {
				more = rows-served <= 854
			}
			more = more && batches < 64
		}
		last = served
	}
	return list[:n]
}

// run returns what each of n batches reads.
func (m *model) run(n int) (list []read) {
	for k := range m.trace {
		set := map[int64]bool{}
		for p := range m.pages(k) {
			set[p] = true
		}
		m.pagesOfAll = append(m.pagesOfAll, set)
	}
	for k, before := range m.befores(n) {
		r, of := read{before: before}, m.pages(k)
		held := slices.Clone(m.lines)
		order := make([]int64, 0, len(of))
		for p := range of {
			order = append(order, p)
		}
		slices.Sort(order)
		for _, p := range order {
			if slices.Contains(held, p) {
				continue
			}
			r.misses++
			r.bytes += min(4096, m.size-p*4096)
			r.useful += of[p]
			if len(m.lines) < m.room {
				m.lines = append(m.lines, p)
				continue
			}
			r.passed++
			for i := range m.lines {
				f := (m.hand + i) % len(m.lines)
				if !m.wanted(m.lines[f], k-before, k+8) {
					m.lines[f], m.hand = p, (f+1)%len(m.lines)
					r.passed--
					break
				}
			}
		}
		for _, v := range m.trace[k%len(m.trace)] {
			if m.buffer[v] {
				r.buffered++
				r.ram++
				continue
			}
			missed := false
			for p := int64(v) * m.row / 4096; p*4096 < int64(v+1)*m.row; p++ {
				r.hits++
				missed = missed || !slices.Contains(held, p)
			}
			if !missed {
				r.ram++
			}
		}
		r.hits -= r.misses
		list = append(list, r)
	}
	return list
}

// got returns what a slot's batch read and hit.
func got(c featurestore.Counts) read {
	return read{ram: c.RAMRows, buffered: c.BufferRows, hits: c.PageHits, misses: c.PageMisses, bytes: c.BytesRead - c.GraphRead, useful: c.UsefulBytes}
}

// world has rows of 1500 bytes, on one page or on two, of a graph whose edges have a direction.
func world(t testing.TB, nodes, batch int) *storetest.World {
	return storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: nodes, AvgDegree: 3, Dim: 375}, Batch: batch, Epochs: 2, Fanout: []int{2, 2}}, sample)
}

// What a batch hits and reads, level by level, is what the model says of the trace, also while
// two batches before it are still being read; and hits and misses are its accesses.
func TestReadsAreTheModelsOfTheTrace(t *testing.T) {
	for _, typed := range []bool{false, true} {
		readsAreTheModels(t, storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 500, AvgDegree: 3, Dim: 375, Typed: typed}, Batch: 6, Epochs: 2, Fanout: []int{2, 2}}, sample))
	}
}

func readsAreTheModels(t *testing.T, w *storetest.World) {
	all := len(w.Raw.Features) / 1500
	trace := w.Trace(t)
	passed, served, long := 0, 0, 0
	graphs := map[int]int64{} // what the useful bytes of a batch have of its graph
	for _, c := range []struct {
		percent float64
		mode    string
	}{{0, gids.Paper}, {10, gids.Paper}, {40, gids.Paper}, {40, gids.Script}, {100, gids.Script}} {
		found := cached{find(t, w), c.percent, c.mode}
		l, err := found.Plan(featurestore.PlanOptions{Memory: 1 << 40, Slots: 3})
		if err != nil {
			t.Fatal(err)
		}
		// Half of the bytes, but a fifth of the rows, is the buffer's.
		bytes := int(float64(all)*c.percent/100) * 1500
		rows := min(all/5, bytes/2/1500)
		lines := (bytes - rows*1500) / 4096
		if want := fmt.Sprintf("a constant buffer of %d rows and %d lines of 4096 bytes", rows, lines); !strings.HasPrefix(l.Note, want) {
			t.Fatalf("%s, want %s", l.Note, want)
		}
		m := &model{trace: trace, buffer: highest(&w.Raw, rows, c.mode == gids.Script), row: 1500, size: int64(all) * 1500, room: lines, script: c.mode == gids.Script}
		n := len(trace) + len(trace)/2
		want := m.run(n)
		st := storetest.Open(t, found, 3)
		st.FillFor(t, 0)
		for i := range n + 2 {
			if i < n {
				if err := errors.Join(st.Slots[i%3].Start(featurestore.Ref{Index: i % len(trace)}), st.Slots[i%3].LoadGraph(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			k := i - 2
			if k < 0 {
				continue
			}
			sl, ref := st.Slots[k%3], featurestore.Ref{Index: k % len(trace)}
			if err := errors.Join(sl.Wait(t.Context()), sl.Assemble(t.Context())); err != nil {
				t.Fatal(err)
			}
			w.Holds(t, ref, sl.Batch(), sl.X(), dtype.Float32)
			expected := want[k]
			passed += expected.passed
			served += expected.hits
			long = max(long, expected.before)
			expected.before, expected.passed = 0, 0
			graph := sl.Counts().UsefulBytes - expected.useful
			if g, known := graphs[ref.Index]; known && g != graph || graph <= 0 {
				t.Fatalf("%+v, batch %d: %d useful bytes of the graph, or %d; %+v want %+v", c, k, graph, g, got(sl.Counts()), expected)
			}
			graphs[ref.Index] = graph
			expected.useful += graph
			if g := got(sl.Counts()); g != expected {
				t.Fatalf("%+v, batch %d: %+v, want %+v", c, k, g, expected)
			}
		}
	}
	if passed == 0 || served == 0 || long < 5 {
		t.Errorf("%d pages passed by, %d hits, %d batches before one: the test shows little", passed, served, long)
	}
}

// By paper and by script the buffer has other rows on a graph whose edges have a direction, and
// gathers differ; what a batch is made of does not.
func TestModesDiffer(t *testing.T) {
	w := world(t, 300, 8)
	if p, s := highest(&w.Raw, 60, false), highest(&w.Raw, 60, true); len(p) != 60 || len(s) != 60 || same(p, s) {
		t.Fatal("the graph does not tell the modes apart")
	}
	var counts [2]int
	for i, mode := range gids.Design().Policies {
		st := storetest.Open(t, cached{find(t, w), 60, mode}, 1)
		st.FillFor(t, 0)
		for k := range st.Facts.Train {
			ref := featurestore.Ref{Index: k}
			if err := storetest.Load(t.Context(), st.Slots[0], ref); err != nil {
				t.Fatal(err)
			}
			w.Holds(t, ref, st.Slots[0].Batch(), st.Slots[0].X(), dtype.Float32)
			counts[i] += st.Slots[0].Counts().BufferRows
		}
	}
	// Sampling goes against the edges: so does the rank that says what it reaches.
	if counts[0] <= counts[1] {
		t.Errorf("the buffer serves %d rows by paper, %d by script", counts[0], counts[1])
	}
}

func same(a, b map[uint32]bool) bool {
	for v := range a {
		if !b[v] {
			return false
		}
	}
	return len(a) == len(b)
}

// A run that goes on anywhere, with batches decided ahead of it, hits and reads what one that
// was not interrupted does: it fills its levels with what they held. Levels of another size or
// mode begin empty, which is said.
func TestResumedRunsReadTheSame(t *testing.T) {
	w := world(t, 200, 10)
	for _, mode := range gids.Design().Policies {
		c := cached{find(t, w), 50, mode}
		// run loads n batches, three of them under way, and returns also the state when those up
		// to one were trained.
		run := func(st *storetest.Opened, from, n, at int) (list []read, state []byte) {
			for i := range n + 2 {
				if i < n {
					if err := errors.Join(st.Slots[i%3].Start(featurestore.Ref{Index: (from + i) % st.Facts.Train}), st.Slots[i%3].LoadGraph(t.Context())); err != nil {
						t.Fatal(err)
					}
				}
				k := i - 2
				if k < 0 {
					continue
				}
				sl, ref := st.Slots[k%3], featurestore.Ref{Index: (from + k) % st.Facts.Train}
				if err := errors.Join(sl.Wait(t.Context()), sl.Assemble(t.Context())); err != nil {
					t.Fatal(err)
				}
				w.Holds(t, ref, sl.Batch(), sl.X(), dtype.Float32)
				list = append(list, got(sl.Counts()))
				if b, err := st.State(); err != nil {
					t.Fatal(err)
				} else if k == at {
					state = slices.Clone(b)
				}
			}
			return list, state
		}
		train := c.Facts().Train
		for at := 0; at < 2*train; at += 11 {
			first := storetest.Open(t, c, 3)
			first.FillFor(t, 0)
			whole, state := run(first, 0, at+3+train, at)
			again := storetest.Open(t, c, 3)
			if err := again.LoadState(state); err != nil {
				t.Fatal(err)
			}
			next := at + 1
			read, lines := again.FillFor(t, next%train)
			if len(lines) > 0 || read == 0 {
				t.Errorf("from batch %d: read %d, reported %q", next, read, lines)
			}
			if rest, _ := run(again, next, train, -1); !slices.Equal(rest, whole[next:next+train]) {
				t.Fatalf("%s, from batch %d: %+v, not interrupted %+v", mode, next, rest, whole[next:next+train])
			}
			if at > 0 {
				continue
			}
			for other, known := range map[cached]bool{
				{find(t, w), 50, gids.Paper}: mode == gids.Paper, {find(t, w), 50, gids.Script}: mode == gids.Script, {find(t, w), 55, mode}: false,
			} {
				st := storetest.Open(t, other, 3)
				if err := st.LoadState(state); err != nil {
					t.Fatal(err)
				}
				if _, lines := st.FillFor(t, 1); known && len(lines) > 0 || !known && (len(lines) != 1 || !strings.Contains(lines[0], "the cache begins empty")) {
					t.Errorf("%s, taken over by %s with %v %%: reported %q", mode, other.mode, other.percent, lines)
				}
			}
		}
	}
}

// Memory is divided between the levels as is said, all that is counted suffices, and more of it
// makes more of both, up to all pages and a fifth of the rows.
// Lines in the memory of a GPU that reads and lines in RAM are one cache: batches hit and read the same pages as
// the model with lines of the same number, and their matrices have the right rows, in any order of the GPU's work. A run that
// goes on from a state has the pages in their lines again.
func TestLinesOnGPU(t *testing.T) {
	w := world(t, 500, 6)
	trace := w.Trace(t)
	kind := storetest.LoadDrives(t, w.Dataset, 2)
	percent := func(v float64) *budget.Size { return &budget.Size{Value: v, Unit: budget.UnitPercent} }
	on := 0
	for i, c := range []struct{ gpu, ram float64 }{{20, 0}, {10, 20}, {1, 30}, {100, 10}, {0, 20}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			d := storetest.DriveDevices.OpenLate(t, uint64(i))
			in := storetest.OpenDrives(t, kind, d)
			o := featurestore.PlanOptions{Memory: 1 << 40, GPUMemory: 1 << 30, Slots: 3, MostSlots: 3, GPU: d, Reads: in, GPUCache: percent(c.gpu), Cache: percent(c.ram)}
			l, err := find(t, w).Plan(o)
			if err != nil {
				t.Fatal(err)
			}
			bytes := int(5*c.ram) * 1500
			rows, near := min(100, bytes/2/1500), (int(5*c.gpu)*1500+4095)/4096 // of 184 pages
			lines := min(184, near+(bytes-rows*1500)/4096)
			if !strings.HasPrefix(l.Note, fmt.Sprintf("a constant buffer of %d rows and %d lines of 4096 bytes", rows, lines)) || near > 0 != strings.HasSuffix(l.Note, fmt.Sprintf("; %d lines are on the GPU", near)) ||
				l.GPURowsBytes != int64(near)*4096 || l.QueueBytes == 0 {
				t.Fatalf("%+v: %+v", c, l)
			}
			m := &model{trace: trace, buffer: highest(&w.Raw, rows, false), row: 1500, size: 500 * 1500, room: lines}
			n := len(trace) + len(trace)/2
			want := m.run(n)
			open := func(state []byte, next int) (featurestore.Store, []featurestore.Slot) {
				st, err := find(t, w).Open(in, l)
				if err != nil {
					t.Fatal(err)
				}
				var slots []featurestore.Slot
				for range 3 {
					sl, err := st.View(0).NewSlot(false)
					if err != nil {
						t.Fatal(err)
					}
					slots = append(slots, sl)
				}
				if state != nil {
					if err := st.LoadState(state); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := st.Fill(t.Context(), next, progress.Discard); err != nil {
					t.Fatal(err)
				}
				return st, slots
			}
			st, slots := open(nil, 0)
			begun := 0
			const stop = 11 // before this batch, the run goes on from a state
			for k := range n {
				if k == stop {
					state, err := st.State()
					if err != nil {
						t.Fatal(err)
					}
					state = slices.Clone(state)
					for _, sl := range slots {
						_ = sl.Wait(t.Context())
						sl.Free()
					}
					if err := st.Close(); err != nil {
						t.Fatal(err)
					}
					if err := in.Close(); err != nil { // a stack lends its queues once
						t.Fatal(err)
					}
					in = storetest.OpenDrives(t, kind, d)
					st, slots = open(state, k)
					begun = k
				}
				for ; begun <= min(k+2, n-1); begun++ {
					if err := errors.Join(slots[begun%3].Start(featurestore.Ref{Index: begun % len(trace)}), slots[begun%3].LoadGraph(t.Context())); err != nil {
						t.Fatal(err)
					}
				}
				sl, ref := slots[k%3], featurestore.Ref{Index: k % len(trace)}
				if err := errors.Join(sl.Wait(t.Context()), sl.Assemble(t.Context())); err != nil {
					t.Fatal(err)
				}
				x, err := storetest.OnGPU(sl, d, len(sl.Batch().Input)*375)
				if err != nil {
					t.Fatal(err)
				}
				w.Holds(t, ref, sl.Batch(), x, dtype.Float32)
				g, expected := got(sl.Counts()), want[k]
				expected.before, expected.passed, expected.useful = 0, 0, g.useful
				if g != expected {
					t.Fatalf("%+v, batch %d: %+v, want %+v", c, k, g, expected)
				}
				switch hits := sl.Counts().GPURows; {
				case near == 0 && hits != 0, hits > g.ram-g.buffered, near == lines && hits != g.ram-g.buffered:
					t.Fatalf("%+v, batch %d: %d rows on the GPU of %+v", c, k, hits, g)
				case near < lines:
					on += hits
				}
			}
			for _, sl := range slots {
				sl.Free()
			}
			if err := errors.Join(st.Close(), in.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
	if on == 0 {
		t.Error("no row of a store with lines in both memories was on the GPU: the test shows little")
	}
}

func TestPlan(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 3000, AvgDegree: 2, Dim: 128}, Batch: 20, Epochs: 2}, sample)
	c := find(t, w)
	o := featurestore.PlanOptions{Memory: 1 << 40, Slots: 2, EvalSlots: 1}
	const pages, row = 375, 512 // 3000·512/4096
	whole, err := c.Plan(o)
	if err != nil || whole.CacheRows != 3000 || whole.Policy != gids.Paper || whole.Ahead != 8 || whole.WindowBytes == 0 ||
		whole.Note != "a constant buffer of 600 rows and 375 lines of 4096 bytes; batches are read together until they have more than 854 accesses" {
		t.Fatalf("%+v, %v", whole, err)
	}
	o.Least = true
	least, err := c.Plan(o)
	if err != nil || least.CacheRows != 0 || least.Ahead != 0 || !strings.HasPrefix(least.Note, "a constant buffer of 0 rows and 0 lines") {
		t.Fatalf("%+v, %v", least, err)
	}
	// By hand, in pages: the lines; two lists of all pages and two of all lines; 600 rows of the
	// buffer, and their numbers by node. And of 32 bytes for each page of the file, 8 are in lists.
	if n := whole.RAMBytes - least.RAMBytes; n != 4096*(pages+2+2+600*row/4096+3)+24*pages {
		t.Errorf("the levels take %d bytes", n)
	}
	if whole.StateBytes != 24+16+32+8+5*pages {
		t.Errorf("a state has %d bytes", whole.StateBytes)
	}
	o.Least = false
	last := whole
	for _, share := range []int64{99, 60, 30, 10, 1, 0} {
		o.Memory = least.Bytes(2, 1) + (whole.Bytes(2, 1)-least.Bytes(2, 1))*share/100
		l, err := c.Plan(o)
		if err != nil || l.Bytes(2, 1) > o.Memory || l.CacheRows > last.CacheRows || (share == 0) != (l.CacheRows == 0) {
			t.Errorf("with %d%%: %d bytes of %d, %d rows, %v", share, l.Bytes(2, 1), o.Memory, l.CacheRows, err)
		}
		last = l
	}
	o.Memory--
	if _, err := c.Plan(o); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "give more --memory") {
		t.Errorf("less than the least: %v", err)
	}
	o.Memory, o.Cache = 1<<40, &budget.Size{Value: 10, Unit: budget.UnitPercent}
	tenth, err := c.Plan(o) // 300 rows: 150, and 150·512/4096 pages
	if err != nil || tenth.CacheRows != 150+18*8 || !strings.HasPrefix(tenth.Note, "a constant buffer of 150 rows and 18 lines") {
		t.Errorf("%+v, %v", tenth, err)
	}
	// Saved states have 5 bytes a line: 150 and 225 lines, beside 600 rows.
	var keep [2]int64
	for i, share := range []float64{60, 80} {
		l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 40, Slots: 2, EvalSlots: 1, Cache: &budget.Size{Value: share, Unit: budget.UnitPercent}})
		if err != nil {
			t.Fatal(err)
		}
		keep[i] = l.KeepBytes
	}
	if keep[1]-keep[0] != residency.MostStates*5*75 {
		t.Errorf("%d bytes for the states of 150 lines, %d of 225", keep[0], keep[1])
	}
	o.Memory = tenth.Bytes(2, 1) - 1
	if _, err := c.Plan(o); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "--ram-cache 10% (300 rows)") {
		t.Errorf("less than a tenth takes: %v", err)
	}
	o.Policy = "lru"
	if _, err := c.Plan(o); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--cache-policy lru: the store gids has paper, script") {
		t.Errorf("another mode: %v", err)
	}
	small := storetest.NewWorld(t, storetest.Params{Compress: true}, sample)
	if _, err := findIn(small); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "import it again without --compress, or pack it") {
		t.Errorf("compressed features: %v", err)
	}
}

// A constant buffer that is filled in two steps has the rows of both: 34,000.
func TestLargeBuffer(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 170_000, AvgDegree: 1, Dim: 2, DType: dtype.Float16}, Batch: 20_000, Epochs: 1, Fanout: []int{1}}, sample)
	st := storetest.Open(t, cached{find(t, w), 100, gids.Paper}, 1)
	st.FillFor(t, 0)
	for k := range st.Facts.Train {
		ref := featurestore.Ref{Index: k}
		if err := storetest.Load(t.Context(), st.Slots[0], ref); err != nil {
			t.Fatal(err)
		}
		w.Holds(t, ref, st.Slots[0].Batch(), st.Slots[0].X(), dtype.Float16)
		if n := st.Slots[0].Counts().BufferRows; n < 1000 {
			t.Errorf("batch %d: the buffer serves %d rows", k, n)
		}
	}
}
