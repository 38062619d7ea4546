// Package gids has the published figures of GIDS on drives that are not at hand, and simulates them: the
// time of 100 iterations on IGB-heterogeneous (full), with 2.28 TB of features, with DGL's memory map and
// with GIDS on one, two and four Micron 9400, on an A100 with 1 TB of memory.
//
// # Published and assumed
//
// The publication gives the rows of an iteration (aggregation × effective bandwidth is 219 GB in 100
// iterations for each of the four columns; rows have 4 KiB), and the seconds of sampling and training,
// taken as their means over the columns. So aggregation and bandwidth are one prediction, not two.
//
// The graph is not available, so the skew of its accesses is assumed. Nodes are drawn with probabilities
// that fall as a power of their rank, each once per batch. The exponent is such that the hottest fifth
// gets 72 % of the accesses: the share in GIDS's paper for its constant CPU buffer of 20 % (6.6 GB/s with
// it, 23.4 without: 1 − 6.6/23.4).
//
// For the machines these values are assumed: the presets of simulate/drives (each has its source: data
// sheets, GIDS's paper, our own cost of a page fault), PCIe 4.0, the values of GIDS's script for IGB (4
// GiB of GPU cache, a window of 8, and no CPU buffer, which the publication does not mention), no overlap
// (the publication's columns add up), 1000 iterations of warm-up, one thread that gathers from the memory
// map, and a page cache of the machine's memory without 64 GiB.
package gids

import (
	"context"
	"math"

	"diskgnn/internal/rng"
	"diskgnn/simulate/drives"
	"diskgnn/simulate/trace"
)

// Column is one column of the published tables: seconds of 100 iterations, and rates.
type Column struct {
	Name                                 string
	Drives                               int // 0: the memory map, on one drive
	Sampling, Aggregation, Training, End float64
	Bandwidth                            float64 // bytes per second of rows
	Requests                             float64 // per second, of 4 KiB
	Hits                                 float64 // share of the rows without a read; not published
}

// Published returns the columns of the published tables: the memory map, then GIDS on one, two and four
// drives.
func Published() []Column {
	return []Column{
		{"mmap", 0, 4.65, 1130, 2.13, 1143, 0.194e9, 0.049e6, 0},
		{"GIDS, 1 drive", 1, 4.08, 31.6, 1.87, 37.6, 6.9e9, 1.7e6, 0},
		{"GIDS, 2 drives", 2, 4.93, 15.9, 1.97, 22.8, 13.8e9, 3.4e6, 0},
		{"GIDS, 4 drives", 4, 4.75, 8.57, 1.98, 15.3, 25.6e9, 6.3e6, 0},
	}
}

// Assumptions are the values of the simulation that the publication does not give, or that are uncertain.
type Assumptions struct {
	Presets   drives.Presets
	Drive     string
	Link      string
	TopShare  float64 // share of the accesses to the hottest fifth of the rows
	GPUCache  int64   // GIDS's cache of pages on the GPU, in bytes
	Window    int     // GIDS's window, in batches
	PageCache int64   // page cache of the memory map, in bytes
	Warmup    int     // iterations before the first counted one
	// Scale divides nodes, batches and caches for counting hits, over Counted iterations. Times are
	// simulated at full size, from the mean of these iterations.
	Scale   int64
	Counted int
}

// Assumed returns the assumptions of the package comment.
func Assumed() Assumptions {
	return Assumptions{
		Presets: drives.Known(), Drive: "micron-9400", Link: "pcie4x16", TopShare: 1 - 6.6/23.4,
		GPUCache: 4 << 30, Window: 8, PageCache: (1024 - 64) << 30, Warmup: 1000, Scale: 128, Counted: 20,
	}
}

// Values of the publication.
const (
	rowBytes   = 4096
	iterations = 100
	tableBytes = 2.28e12
	readBytes  = 219.2e9 // of all iterations
	sampling   = (4.65 + 4.08 + 4.93 + 4.75) / 4 / iterations
	training   = (2.13 + 1.87 + 1.97 + 1.98) / 4 / iterations
)

// Simulate simulates the columns of Published, in the same order. It takes some 100 MB of memory at a
// scale of 128.
func Simulate(ctx context.Context, a Assumptions) ([]Column, error) {
	w, err := a.workload()
	if err != nil {
		return nil, err
	}
	caches := drives.Caches{Memory: a.PageCache / a.Scale, Warmup: a.Warmup}
	mapped, err := a.plan("mmap", w, caches)
	if err != nil {
		return nil, err
	}
	paged, err := a.plan("gids", w, drives.Caches{GPU: a.GPUCache / a.Scale, Window: a.Window, Warmup: a.Warmup})
	if err != nil {
		return nil, err
	}
	var out []Column
	for _, c := range Published() {
		m := drives.Machine{Drive: a.Presets.Drives[a.Drive], Drives: max(1, c.Drives), Link: a.Presets.Links[a.Link].Bytes, Slots: 1}
		loads := paged
		if m.Software = a.Presets.Software["gids"]; c.Drives == 0 {
			m.Software, loads = a.Presets.Software["mmap"], mapped
		}
		r, err := drives.Run(ctx, loads, m)
		if err != nil {
			return nil, err
		}
		c = Column{
			Name: c.Name, Drives: c.Drives,
			Sampling: iterations * r.SampleSeconds, Aggregation: iterations * r.ReadSeconds, Training: iterations * r.ComputeSeconds, End: iterations * r.Seconds,
		}
		c.Bandwidth, c.Hits = r.UsefulPerSecond, r.HitRatio
		c.Requests = c.Bandwidth / rowBytes // the publication counts rows, not misses
		out = append(out, c)
	}
	return out, nil
}

// plan returns a store's mean load, at full size.
func (a *Assumptions) plan(store string, w *drives.Workload, c drives.Caches) ([]drives.Load, error) {
	loads, err := drives.Plan(store, w, c)
	if err != nil {
		return nil, err
	}
	mean, n, reads := loads[0].Times(0), int64(len(loads)), int64(0)
	for i := range loads {
		l := loads[i].Times(a.Scale)
		misses, _ := l.Requests()
		reads += misses
		mean.Copy += l.Copy
		mean.Touched += l.Touched
		mean.Rows += l.Rows
		mean.Hits += l.Hits
		mean.Useful += l.Useful
	}
	mean.Reads = []drives.Reads{{Bytes: drives.Page, Count: reads / n}}
	mean.Copy, mean.Touched, mean.Rows, mean.Hits, mean.Useful = mean.Copy/n, mean.Touched/n, mean.Rows/n, mean.Hits/n, mean.Useful/n
	return []drives.Load{mean}, nil
}

// workload draws the batches, scaled down.
func (a *Assumptions) workload() (*drives.Workload, error) {
	w := &drives.Workload{Nodes: int64(tableBytes/rowBytes) / a.Scale, RowBytes: rowBytes}
	rows := int(math.Round(readBytes / rowBytes / iterations / float64(a.Scale)))
	power := 1 / (1 - Exponent(a.TopShare, float64(rows)/float64(w.Nodes)))
	seen := make([]int32, w.Nodes)
	b := trace.Batch{SampleNanos: int64(sampling * 1e9), ComputeNanos: int64(training * 1e9)}
	for i := range a.Warmup + a.Counted {
		r := rng.New(rng.Key(uint64(i)))
		b.Rows = b.Rows[:0]
		for len(b.Rows) < rows {
			v := uint32(math.Pow(r.Float64(), power) * float64(w.Nodes))
			if seen[v] == int32(i+1) {
				continue
			}
			seen[v] = int32(i + 1)
			b.Rows = append(b.Rows, v)
		}
		if err := w.Add(&b); err != nil {
			return nil, err
		}
	}
	// No cache of the hottest rows is simulated, so the hotness is not used.
	w.Hotness = make([]uint32, w.Nodes)
	return w, nil
}

// Exponent returns the exponent s with which batches get the given share of their rows from the hottest
// fifth of the nodes. A batch draws nodes with probabilities rank^−s until it has the given fraction of
// all nodes, so the node of relative rank x is in a batch with probability 1 − exp(−λ x^−s). Large shares
// have no s, as a batch has each node once: with a fraction of 0.001, shares above 0.83.
func Exponent(share, fraction float64) float64 {
	lo, hi := 0.0, 0.999
	for range 40 {
		if s := (lo + hi) / 2; top(s, fraction) < share {
			lo = s
		} else {
			hi = s
		}
	}
	return lo
}

// top returns the share of the hottest fifth at an exponent.
func top(s, fraction float64) float64 {
	// Integrate over x = e^−y, with steps in y: ∫ p(x) dx = ∫ p(e^−y) e^−y dy.
	const step = 0.02
	sum := func(lambda, from float64) (total float64) {
		for y := from + step/2; y < 40; y += step {
			total += -math.Expm1(-lambda*math.Exp(s*y)) * math.Exp(-y) * step
		}
		return total
	}
	lo, hi := 0.0, 10.0
	for range 60 {
		if l := (lo + hi) / 2; sum(l, 0) < fraction {
			lo = l
		} else {
			hi = l
		}
	}
	return sum(lo, math.Log(5)) / sum(lo, 0)
}

// Ratios are the speedups for which the publication is cited. Four and One are GIDS over the memory map on
// four drives and on one drive, in aggregation; Scaling is four drives over one. EndFour and EndOne are
// end to end.
type Ratios struct{ Four, One, Scaling, EndFour, EndOne float64 }

// Compare returns the ratios of columns, which are in the order of Published.
func Compare(c []Column) Ratios {
	return Ratios{
		Four: c[0].Aggregation / c[3].Aggregation, One: c[0].Aggregation / c[1].Aggregation, Scaling: c[1].Aggregation / c[3].Aggregation,
		EndFour: c[0].End / c[3].End, EndOne: c[0].End / c[1].End,
	}
}

// Variant is one assumption changed.
type Variant struct {
	Name string
	Set  func(*Assumptions)
}

// Variants returns changes of each assumption, one at a time.
func Variants() []Variant {
	software := func(store string, f func(*drives.Software)) func(*Assumptions) {
		return func(a *Assumptions) {
			s := a.Presets.Software[store]
			f(&s)
			a.Presets.Software[store] = s
		}
	}
	drive := func(f func(*drives.Drive)) func(*Assumptions) {
		return func(a *Assumptions) {
			d := a.Presets.Drives[a.Drive]
			f(&d)
			a.Presets.Drives[a.Drive] = d
		}
	}
	link := func(f float64) func(*Assumptions) {
		return func(a *Assumptions) {
			l := a.Presets.Links[a.Link]
			l.Bytes = int64(f * float64(l.Bytes))
			a.Presets.Links[a.Link] = l
		}
	}
	return []Variant{
		{"2 threads gather", software("mmap", func(s *drives.Software) { s.Threads = 2 })},
		{"8 threads gather", software("mmap", func(s *drives.Software) { s.Threads = 8 })},
		{"a fault costs 10 µs", software("mmap", func(s *drives.Software) { s.CostMicros = 10 })},
		{"a fault costs 40 µs", software("mmap", func(s *drives.Software) { s.CostMicros = 40 })},
		{"page cache 512 GiB", func(a *Assumptions) { a.PageCache = 512 << 30 }},
		{"100 iterations before", func(a *Assumptions) { a.Warmup = 100 }},
		{"hottest fifth gets 60 %", func(a *Assumptions) { a.TopShare = 0.6 }},
		{"hottest fifth gets 80 %", func(a *Assumptions) { a.TopShare = 0.8 }},
		{"no GPU cache", func(a *Assumptions) { a.GPUCache = 0 }},
		{"GPU cache 8 GiB", func(a *Assumptions) { a.GPUCache = 8 << 30 }},
		{"the same, no window", func(a *Assumptions) { a.GPUCache, a.Window = 8<<30, 0 }},
		{"GPU cache 32 GiB", func(a *Assumptions) { a.GPUCache = 32 << 30 }},
		{"no window", func(a *Assumptions) { a.Window = 0 }},
		{"latency × 1.5", drive(func(d *drives.Drive) { d.LatencyMicros *= 1.5 })},
		{"requests/s × 0.9", drive(func(d *drives.Drive) { d.Requests = d.Requests * 9 / 10 })},
		{"requests/s × 1.1", drive(func(d *drives.Drive) { d.Requests = d.Requests * 11 / 10 })},
		{"link × 0.9", link(0.9)},
		{"link × 1.1", link(1.1)},
	}
}
