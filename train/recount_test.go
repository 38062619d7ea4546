package train

import (
	"cmp"
	"context"
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore/agnes"
	"diskgnn/featurestore/gids"
	"diskgnn/featurestore/ginex"
	"diskgnn/featurestore/gnndrive"
	"diskgnn/featurestore/hyperion"
	"diskgnn/featurestore/marius"
	"diskgnn/featurestore/memory"
	"diskgnn/featurestore/mmap"
	"diskgnn/featurestore/packed"
	singlerows "diskgnn/featurestore/rows"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
	stacks "diskgnn/iostack/all"
	"diskgnn/pack"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/train/rundir"
)

// page is the size of the pages of a file, in bytes.
const page = 4096

// counted has the rows of a batch, or of an epoch, and their reads.
type counted struct {
	rows, hits, near         int64 // rows of the batches, those in RAM or on the GPU, and on the GPU alone
	bytes, useful            int64 // read for rows, and of these in rows that are used
	requests                 int64 // for rows
	buffered, hitsP, missesP int64 // rows of gids' constant buffer; accesses of pages
}

func (c *counted) add(o counted) {
	c.rows, c.hits, c.near, c.bytes, c.useful = c.rows+o.rows, c.hits+o.hits, c.near+o.near, c.bytes+o.bytes, c.useful+o.useful
	c.requests, c.buffered, c.hitsP, c.missesP = c.requests+o.requests, c.buffered+o.buffered, c.hitsP+o.hitsP, c.missesP+o.missesP
}

// replay is the batches of the samples, from which plain code counts the reads of a store again.
type replay struct {
	batches    [][]uint32 // input nodes of the training batches
	perEpoch   int
	graphs     []int64 // bytes that the drive reads for the graph of a batch
	encoded    []int64 // bytes of the graph
	nodes      int
	row, table int64 // bytes
	raw        *dataset.Raw
	held       [][]bool // by batch: the partitions in the buffer; nil: there are none
	of         []uint16 // by node: its partition
}

// recounter returns a function that counts for the training batches one by one. It gets the cache of the
// run, in rows, and the part of them on the GPU.
type recounter func(tr *replay, rows, near int) func(k int) counted

// recountWorld is a graph and samples for several stores.
type recountWorld struct {
	*world
	trace replay
}

func newRecountWorld(t *testing.T, p worldParams, more ...func(*presample.Options)) recountWorld {
	t.Helper()
	w := recountWorld{world: newWorld(t, p)}
	for _, m := range more {
		o := presample.Options{Dataset: w.path("dataset"), Out: w.path("samples"), BatchSize: p.batch, Fanout: p.fanout, Epochs: 2, Force: true}
		m(&o)
		if _, err := presample.Run(t.Context(), disk, o, progress.Discard); err != nil {
			t.Fatal(err)
		}
	}
	r, err := mbfile.Open(disk, w.path("samples"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := r.Facts()
	w.trace = replay{perEpoch: f.BatchesPerEpoch, nodes: p.nodes, row: 4 * int64(p.dim), table: 4 * int64(p.dim) * int64(p.nodes), raw: &w.dataset}
	for i := range f.TrainBatches {
		var b []uint32
		if b, _, err = r.Inputs(t.Context(), i, nil); err != nil {
			t.Fatal(err)
		}
		w.trace.batches = append(w.trace.batches, b)
		info := r.Info(i)
		w.trace.encoded = append(w.trace.encoded, info.Size)
		w.trace.graphs = append(w.trace.graphs, transferred(t, r.Path(i), info.Offset, info.Size))
	}
	if r.Params().Partitions > 0 {
		w.trace.partitions(t, w.path("dataset"), r.Params())
	}
	return w
}

// transferred returns the bytes that the drive reads for a part of a file: pages, if it is read directly.
func transferred(t *testing.T, name string, off, n int64) int64 {
	t.Helper()
	s, _, err := stacks.Open(quick, iostack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, err := s.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if direct, _ := f.Direct(); !direct {
		return n
	}
	return min((off+n+page-1)/page*page, f.Size()) - off/page*page
}

// partitions finds the partitions of the samples and the buffer at every batch.
func (tr *replay) partitions(t *testing.T, dir string, p mbfile.Params) {
	t.Helper()
	d, err := dataset.OpenLabelled(disk, dir)
	if err != nil {
		t.Fatal(err)
	}
	seeds, err := sampler.Load(t.Context(), d, p, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	tr.of = seeds.Partitions()
	for i := range tr.batches {
		h := make([]bool, p.Partitions)
		seeds.State(seeds.Nth(i), h)
		tr.held = append(tr.held, h)
	}
}

// at returns the input nodes of a batch of the run.
func (tr *replay) at(k int) []uint32 { return tr.batches[k%len(tr.batches)] }

// pages returns the first page of a row and the one after its last.
func (tr *replay) pages(v uint32) (first, end int64) {
	return int64(v) * tr.row / page, (int64(v+1)*tr.row + page - 1) / page
}

func (tr *replay) pageBytes(p int64) int64 { return min(page, tr.table-p*page) }

// single counts rows that are read one by one: a request each.
func (tr *replay) single(nodes, missed []uint32) counted {
	c := counted{rows: int64(len(nodes)), hits: int64(len(nodes) - len(missed)), requests: int64(len(missed)), useful: int64(len(missed)) * tr.row}
	for _, v := range missed {
		first, end := tr.pages(v)
		for p := first; p < end; p++ {
			c.bytes += tr.pageBytes(p)
		}
	}
	return c
}

// hotness counts the training batches with each node.
func (tr *replay) hotness() []int64 {
	n := make([]int64, tr.nodes)
	for _, b := range tr.batches {
		for _, v := range b {
			n[v]++
		}
	}
	return n
}

// hottest returns the nodes by descending worth, the lower ids first among equals.
func hottest(worth []int64) []uint32 {
	list := make([]uint32, len(worth))
	for v := range list {
		list[v] = uint32(v)
	}
	slices.SortFunc(list, func(a, b uint32) int { return cmp.Or(cmp.Compare(worth[b], worth[a]), cmp.Compare(a, b)) })
	return list
}

// union returns the rows of the first n batches, in percent of all.
func (tr *replay) union(n int) float64 {
	all := map[uint32]bool{}
	for _, b := range tr.batches[:n] {
		for _, v := range b {
			all[v] = true
		}
	}
	return 100 * (float64(len(all)) + 0.01) / float64(tr.nodes)
}

// ranks returns the place of each node by hotness.
func (tr *replay) ranks() map[uint32]int {
	rank := map[uint32]int{}
	for i, v := range hottest(tr.hotness()) {
		rank[v] = i
	}
	return rank
}

// TestMissesAreTheRecounts trains on every store and compares each epoch's hits, misses, bytes and requests
// with a recount of the samples by plain code, which has nothing in common with the stores but the
// definition of their policies.
func TestMissesAreTheRecounts(t *testing.T) {
	small := newRecountWorld(t, worldParams{nodes: 1200, dim: 375, batch: 12, fanout: []int{3, 4}}) // rows on one page or two
	wide := newRecountWorld(t, worldParams{nodes: 240, dim: 15001, batch: 5, fanout: []int{2, 2}})  // 14 blocks of 1 MiB
	divided := newRecountWorld(t, worldParams{nodes: 480, dim: 375, batch: 8, fanout: []int{2, 3}}, func(o *presample.Options) {
		o.Order, o.Walk, o.Partitions, o.Buffer = "dispersed", "sweep", 12, 4
	})
	static := small.pack(5)
	least := small.pack(10, func(o *pack.Options) { o.Policy = "min" })
	missing := builtin.Names()[1:] // without auto
	for name, c := range map[string]struct {
		w       recountWorld
		store   string
		pack    string
		policy  string
		ram     float64 // percent of the rows
		gpu     float64 // negative: the host computes
		recount recounter
		// window says that the store reads the graph of each batch once more, ahead of it.
		window bool
		// unplaced says that the policy does not decide which rows are on the GPU.
		unplaced bool
	}{
		"memory":               {small, memory.Name, "", "", -1, -1, countMemory, false, false},
		"rows, lru":            {small, singlerows.Name, "", "lru", 10, -1, countRows(&lru{}), false, false},
		"rows, clock":          {small, singlerows.Name, "", "clock", 10, -1, countRows(&clock{}), false, false},
		"rows, sieve":          {small, singlerows.Name, "", "sieve", 10, -1, countRows(&sieve{}), false, false},
		"rows, s3fifo":         {small, singlerows.Name, "", "s3fifo", 10, -1, countRows(&s3fifo{}), false, false},
		"rows, s3fifo, on GPU": {small, singlerows.Name, "", "s3fifo", 10, 15, countRows(&s3fifo{}), false, false},
		"rows, lru, on GPU":    {small, singlerows.Name, "", "lru", 5, 15, countRows(&lru{}), false, false},
		"rows, little":         {small, singlerows.Name, "", "sieve", 1, -1, countRows(&sieve{}), false, false},
		"memory, on GPU":       {small, memory.Name, "", "", -1, 30, countMemory, false, false},
		"ginex, on GPU":        {small, ginex.Name, "", "", 10, 5, countGinex, true, true},
		"gids, on GPU":         {small, gids.Name, "", "paper", 30, 0, countGIDS(false, 30, 854), true, false},
		"ginex":                {small, ginex.Name, "", "", 10, -1, countGinex, true, false},
		"gnndrive":             {small, gnndrive.Name, "", "", 40, -1, countStandby, false, false},
		"gnndrive, little":     {small, gnndrive.Name, "", "", 10, -1, countStandby, false, false},
		"gnndrive, on GPU":     {small, gnndrive.Name, "", "", 10, 25, countStandby, false, false},
		"hyperion":             {small, hyperion.Name, "", "", 20, -1, countHyperion, false, false},
		"hyperion, on GPU":     {small, hyperion.Name, "", "", 15, 10, countHyperion, false, false},
		"gids, paper":          {small, gids.Name, "", "paper", 30, -1, countGIDS(false, 30, 854), true, false},
		"gids, script":         {small, gids.Name, "", "script", 60, -1, countGIDS(true, 60, 854), true, false},
		"gids, accumulator":    {small, gids.Name, "", "paper", 30, -1, countGIDS(false, 30, 3000), true, false},
		"agnes":                {wide, agnes.Name, "", "", 50, -1, countAgnes, true, false},
		"agnes, to a row":      {wide, agnes.Name, "", "", wide.trace.union(5), -1, countAgnes, true, false},
		"agnes, on GPU":        {wide, agnes.Name, "", "", 30, 20, countAgnes, true, false},
		"agnes, all on GPU":    {wide, agnes.Name, "", "", 0, 50, countAgnes, true, false},
		"marius, on GPU":       {divided, marius.Name, "", "", 30, 20, countMarius, false, true},
		"marius":               {divided, marius.Name, "", "", 100. / 3, -1, countMarius, false, false},
		"marius, ahead":        {divided, marius.Name, "", "", 50, -1, countMarius, false, false},
		"mmap":                 {small, mmap.Name, "", "", 40, -1, countMapped(40), false, false},
		"packed":               {small, "", static, "", 20, -1, countPacked, false, false},
		"packed, on GPU":       {small, "", static, "", 10, 10, countPacked, false, false},
		"packed, min":          {small, "", least, "", -1, -1, countMin, false, false},
		"packed, min, on GPU":  {small, "", least, "", 5, 5, countMin, false, true},
	} {
		missing = slices.DeleteFunc(missing, func(s string) bool { return s == cmp.Or(c.store, packed.Name) })
		t.Run(name, func(t *testing.T) {
			o := c.w.options(c.pack, func(o *Options) {
				if c.pack == "" {
					c.w.fromSamples(o)
				}
				o.Engine, o.Epochs, o.Store, o.CachePolicy = EngineNone, 4, c.store, c.policy
				if c.ram >= 0 {
					o.RAMCache = percent(c.ram)
				}
				if c.gpu >= 0 {
					o.Engine, o.GPUCache = EngineGPU, percent(c.gpu)
				}
				if name == "gids, accumulator" {
					o.Accumulator = "3000"
				}
				if c.store == mmap.Name { // evaluation uses the page cache, too
					o.ValidateEvery, o.Slots = 4, 1
				}
			})
			c.w.t = t
			change := func(*parts) {}
			if c.gpu >= 0 {
				change = onDevice(cudatest.Open(t))
			}
			r, err := c.w.run(context.Background(), o, progress.Discard, change)
			if err != nil {
				t.Fatal(err)
			}
			c.w.trace.compare(t, &r, c.recount, c.window, c.pack != "", c.unplaced)
		})
	}
	if len(missing) > 0 {
		t.Errorf("no recount of %v", missing)
	}
}

// compare compares the epochs of a run with a recount.
func (tr *replay) compare(t *testing.T, r *rundir.Result, recount recounter, window, own, unplaced bool) {
	count := recount(tr, int(r.CacheRows), int(r.GPUCacheRows))
	var graphs, wantGraphs, asked, wantAsked int64 // of the last two epochs
	var some counted
	for i, e := range r.Epochs {
		var want counted
		encoded, read := int64(0), int64(0)
		for k := i * tr.perEpoch; k < (i+1)*tr.perEpoch; k++ {
			want.add(count(k))
			encoded, read = encoded+tr.encoded[k%len(tr.batches)], read+tr.graphs[k%len(tr.batches)]
		}
		requests := int64(tr.perEpoch) // for graphs
		if window {
			requests, read = 2*requests, 2*read
		}
		if own { // it has graphs of its own
			encoded, read = e.UsefulBytes-want.useful, e.GraphBytesRead
			if encoded <= 0 || encoded > read {
				t.Errorf("epoch %d: %d useful bytes of graphs, %d read", i, encoded, read)
			}
		}
		got := counted{rows: e.InputNodes, hits: e.RAMBytes / tr.row, near: e.GPUServedBytes / tr.row, bytes: e.BytesRead - e.GraphBytesRead, useful: e.UsefulBytes - encoded,
			requests: e.Requests - requests, buffered: e.BufferBytes / tr.row, hitsP: e.PageHits, missesP: e.PageMisses}
		if i >= 2 {
			asked, wantAsked = asked+got.requests, wantAsked+want.requests
		}
		if window { // its reads shift between the epochs of a circle
			want.requests = got.requests
		}
		if unplaced && got.near > 0 && got.near < got.hits {
			want.near = got.near
		}
		if got != want {
			t.Errorf("epoch %d: %+v, recounted %+v", i, got, want)
		}
		if !window && e.GraphBytesRead != read {
			t.Errorf("epoch %d: %d bytes of graphs, recounted %d", i, e.GraphBytesRead, read)
		}
		if i >= 2 {
			graphs, wantGraphs = graphs+e.GraphBytesRead, wantGraphs+read
		}
		some.add(want)
	}
	if graphs != wantGraphs || asked != wantAsked {
		t.Errorf("%d bytes of graphs and %d requests for rows in two epochs, recounted %d and %d", graphs, asked, wantGraphs, wantAsked)
	}
	t.Logf("%+v", some)
	if some.rows != some.hits && (some.hits == 0 || some.bytes == 0) {
		t.Errorf("the test shows little: %+v", some)
	}
}
