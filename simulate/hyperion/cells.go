package hyperion

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"diskgnn/simulate/drives"
	"diskgnn/simulate/kernel"
)

// Cell is a figure of the report beside the simulated one. Ratios of systems are of throughput.
type Cell struct {
	Name                 string
	Short                string // a name for columns
	Bound                string // of the published figure: empty, "at most", "at least", "about" or "below"
	Published, Simulated float64
	Where                string // the simulated figure's graph, model or drives
}

// Difference returns the simulated figure's relative difference in percent.
func (c Cell) Difference() float64 { return 100 * (c.Simulated/c.Published - 1) }

// Costs is the number of cells of Simulate that are costs; they are the first.
const Costs = 3

// Simulate simulates the report's cells, in a fixed order. If ctx ends, it returns its error after the current
// group of cells. It takes some 200 MB of memory at a scale of 1000, and seconds.
func Simulate(ctx context.Context, a Assumptions) ([]Cell, error) {
	l, err := newLab(a)
	if err != nil {
		return nil, err
	}
	var out []Cell
	for _, f := range []func(*lab) ([]Cell, error){
		(*lab).costs, (*lab).overGIDS, (*lab).overLegion, (*lab).reads, (*lab).caches, (*lab).pipeline, (*lab).findings,
	} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		cells, err := f(l)
		if err != nil {
			return nil, err
		}
		out = append(out, cells...)
	}
	return out, nil
}

func (l *lab) costs() (out []Cell, _ error) {
	for _, m := range []struct {
		name      string
		published float64
	}{{"a", 48971}, {"b", 78794}, {"c", 45275}} {
		p := l.prices.Machines[m.name]
		p.Nodes = 1
		out = append(out, Cell{"TCO of a machine " + strings.ToUpper(m.name), "tco_" + m.name, "", m.published, l.prices.TCO(p), ""})
	}
	return out, nil
}

// pair is two runs, and their name.
type pair struct {
	where      string
	fast, slow setup
}

// spread returns the smallest and the largest speedup of pairs, each with its place.
func (l *lab) spread(pairs []pair) (least, most Cell, err error) {
	least.Simulated = math.Inf(1)
	for _, p := range pairs {
		s, err := l.speedup(p.fast, p.slow)
		if err != nil {
			return least, most, err
		}
		if s < least.Simulated {
			least.Simulated, least.Where = s, p.where
		}
		if s > most.Simulated {
			most.Simulated, most.Where = s, p.where
		}
	}
	return least, most, nil
}

// largest returns a cell of the largest speedup.
func (l *lab) largest(name, short string, published float64, pairs []pair) (Cell, error) {
	_, c, err := l.spread(pairs)
	c.Name, c.Short, c.Bound, c.Published = name, short, "at most", published
	return c, err
}

// models returns pairs of two systems for each model.
func (l *lab) models(g Graph, fast, slow string, change func(*setup)) (out []pair) {
	for _, m := range Models() {
		p := pair{fmt.Sprintf("%s-%d %s", g.Name, g.Dim, m.Name), l.on(fast, g), l.on(slow, g)}
		for _, s := range []*setup{&p.fast, &p.slow} {
			s.model = m
			change(s)
		}
		out = append(out, p)
	}
	return out
}

func unchanged(*setup) {}

func named(name string) Graph {
	for _, g := range Graphs() {
		if g.Name == name {
			return g
		}
	}
	panic("no graph " + name)
}

// of returns a graph with another width.
func of(name string, dim int) Graph {
	g := named(name)
	g.Dim = dim
	return g
}

func (l *lab) overGIDS() (out []Cell, err error) {
	small := func(fanout ...int) func(*setup) {
		return func(s *setup) { s.size, s.fanout = 1000, fanout }
	}
	pa, ig := named("PA"), named("IG")
	all := append(l.models(pa, hyperion, paged, unchanged), l.models(ig, hyperion, paged, unchanged)...)
	all = append(all, l.models(of("IG", 256), hyperion, paged, unchanged)...)
	for _, c := range []struct {
		name, short string
		published   float64
		pairs       []pair
	}{
		{"over GIDS, PA", "pa/gids", 2.3, all[:3]},
		{"over GIDS, IG", "ig/gids", 3.1, all[3:6]},
		{"over GIDS, TPC", "tpc/gids", 7.7, all}, // both on machine A
		{"over GIDS, IG, batch 1000, 2 layers", "2_layers", 3.5, l.models(ig, hyperion, paged, small(25, 10))},
		{"over GIDS, IG, batch 1000, 3 layers", "3_layers", 3.2, l.models(ig, hyperion, paged, small(25, 10, 5))},
	} {
		cell, err := l.largest(c.name, c.short, c.published, c.pairs)
		if err != nil {
			return nil, err
		}
		out = append(out, cell)
	}
	_, narrow, err := l.spread(all[6:])
	if err != nil {
		return nil, err
	}
	out[2].Where += fmt.Sprintf("; IG-256: %.3g", narrow.Simulated)
	s := l.on(hyperion, ig)
	s.host, s.gpu = 200e9, 40e9
	seconds, err := l.epoch(s)
	return append(out, Cell{"epoch of IG, SAGE, s", "epoch_s", "", 19, seconds, "200 GB in RAM, 40 on the GPU"}), err
}

func (l *lab) overLegion() ([]Cell, error) {
	var pairs []pair
	for _, name := range []string{"PA", "IG", "UK"} {
		g := of(name, 1)
		for dim := 1; dim <= 1024 && of(name, dim).table()+g.Topology <= legionMost; dim *= 2 {
			g.Dim = dim
		}
		pairs = append(pairs, l.models(g, hyperion, legion, func(s *setup) { s.host = legionRAM })...)
	}
	least, most, err := l.spread(pairs)
	least.Name, least.Short, least.Published = "over Legion, least", "legion_least", 0.88
	most.Name, most.Short, most.Published = "over Legion, most", "legion_most", 0.97
	return []Cell{least, most}, err
}

// reads compares 12 with 6 drives that read without caches and computing.
func (l *lab) reads() ([]Cell, error) {
	s := l.on(hyperion, named("IG"))
	s.gpu, s.host = 0, 0
	load, err := l.load(s)
	if err != nil {
		return nil, err
	}
	load.Compute = 0
	rate := func(n int) float64 {
		s.drives = n
		return 1 / drives.Estimate([]drives.Load{load, load, load, load}, l.hardware(s))
	}
	return []Cell{{"bytes/s, 12 drives over 6", "drives_12/6", "about", 1, rate(12) / rate(6), "dim 1024"}}, nil
}

func (l *lab) caches() (out []Cell, err error) {
	var host, gpu, topology []pair
	cl := l.on(hyperion, named("CL"))
	cl.gpu = 0
	for n := 2; n <= 12; n += 2 {
		cl.drives = n
		none := cl
		none.host = 0
		host = append(host, pair{fmt.Sprintf("%d drives", n), cl, none})
	}
	for _, g := range Graphs() {
		s := l.on(hyperion, g)
		without := s
		without.gpu = 0
		gpu = append(gpu, pair{g.Name, s, without})
		topology = append(topology, pair{g.Name, s, l.on(noTopology, g)})
	}
	for _, c := range []struct {
		name, short string
		published   float64
		pairs       []pair
	}{{"CPU cache", "cpu", 1.73, host}, {"GPU cache", "gpu", 1.48, gpu}, {"topology cache", "topology", 1.1, topology}} {
		cell, err := l.largest(c.name, c.short, c.published, c.pairs)
		if err != nil {
			return nil, err
		}
		out = append(out, cell)
	}
	few := cl
	few.drives = 2
	s, err := l.speedup(few, cl)
	return append(out, Cell{"CPU cache, 2 drives over 12", "cpu_2/12", "about", 1, s, "CL"}), err
}

func (l *lab) pipeline() (out []Cell, _ error) {
	for i, published := range []float64{1.74, 1.39, 1.23} {
		var pairs []pair
		for _, g := range Graphs() {
			pairs = append(pairs, l.models(g, hyperion, serial, unchanged)[i])
		}
		c, err := l.largest("pipeline, "+Models()[i].Name, "pipe_"+strings.ToLower(Models()[i].Name), published, pairs)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// perCost returns epochs per second and unit of currency.
func (l *lab) perCost(s setup) (float64, error) {
	seconds, err := l.epoch(s)
	return drives.PerCost(1, seconds, l.cost(s)), err
}

// study returns a run of the report's cases that are bound by I/O.
func (l *lab) study(drive string, n int, host int64) setup {
	s := l.on(hyperion, named("IG"))
	s.gpu, s.host, s.drive, s.drives = 40e9, host, drive, n
	return s
}

// findings compares the best machines with either drive, and GAT on machines A and B.
func (l *lab) findings() ([]Cell, error) {
	best := func(drive string, from, to int) (most float64, at int, _ error) {
		for n := from; n <= to; n++ {
			v, err := l.perCost(l.study(drive, n, 20e9))
			if err != nil {
				return 0, 0, err
			}
			if v > most {
				most, at = v, n
			}
		}
		return most, at, nil
	}
	p5510, n, err := best("intel-p5510", 1, maxDrives)
	if err != nil {
		return nil, err
	}
	pro, m, err := best("samsung-980pro", 2, 6)
	if err != nil {
		return nil, err
	}
	out := []Cell{{"TPC, 980 PRO over P5510", "980/p5510", "about", 1, pro / p5510, fmt.Sprintf("best of each: %d and %d drives", m, n)}}
	c := Cell{Name: "TPC of GAT, H800 over A100, least", Short: "h800/a100", Bound: "below", Published: 1, Simulated: math.Inf(1)}
	largest, at := 0.0, ""
	for _, g := range []Graph{named("PA"), named("IG")} {
		for hidden := 32; hidden <= 256; hidden *= 2 {
			s := l.on(hyperion, g)
			s.model = Model{"GAT", 8 * hidden}
			a, err := l.perCost(s)
			if err != nil {
				return nil, err
			}
			s.machine, s.host = "b", l.free(g, memoryB)
			b, err := l.perCost(s)
			if err != nil {
				return nil, err
			}
			where := fmt.Sprintf("%s, hidden %d", g.Name, hidden)
			if b/a < c.Simulated {
				c.Simulated, c.Where = b/a, where
			}
			if b/a > largest {
				largest, at = b/a, where
			}
		}
	}
	c.Where += fmt.Sprintf("; the largest is %.3g: %s", largest, at)
	return append(out, c), nil
}

// Suggested compares the suggested number of P5510 with the best of 1 to 12 by simulated events, for caches in
// RAM of 20 to 80 GB. The cell has the least ratio of the throughputs per cost. It takes seconds.
func Suggested(ctx context.Context, a Assumptions) (Cell, error) {
	c := Cell{Name: "TPC, suggested over best drives, least", Short: "suggested", Bound: "at least", Published: 0.9, Simulated: math.Inf(1)}
	l, err := newLab(a)
	if err != nil {
		return c, err
	}
	var where []string
	for host := int64(20e9); host <= 80e9; host += 20e9 {
		s := l.study("intel-p5510", 1, host)
		load, err := l.load(s)
		if err != nil {
			return c, err
		}
		epoch := func(int64) ([]drives.Load, error) { return slices.Repeat([]drives.Load{load}, s.batches()), nil }
		suggestion, err := l.prices.Suggest(l.prices.Machines["a"], l.hardware(s), maxDrives, []int64{host}, epoch)
		if err != nil {
			return c, err
		}
		found, err := l.measured(ctx, s, l.part(load))
		if err != nil {
			return c, err
		}
		best := slices.Index(found, slices.Max(found))
		c.Simulated = min(c.Simulated, found[suggestion.Drives-1]/found[best])
		where = append(where, fmt.Sprintf("%d (%d)", suggestion.Drives, best+1))
	}
	c.Where = "suggested (best): " + strings.Join(where, ", ")
	return c, nil
}

// maxDrives is the largest number of drives in the report.
const maxDrives = 12

// measured returns the throughput per cost with 1 to maxDrives drives, by simulated events.
func (l *lab) measured(ctx context.Context, s setup, load drives.Load) (out []float64, _ error) {
	var machines []drives.Machine
	for s.drives = 1; s.drives <= maxDrives; s.drives++ {
		machines = append(machines, l.hardware(s))
	}
	seconds, err := steady(ctx, load, machines)
	for i := range seconds {
		s.drives = machines[i].Drives
		out = append(out, drives.PerCost(steadyBatches, seconds[i], l.cost(s)))
	}
	return out, err
}

// Batches that fill the pipeline, and counted batches after them.
const firstBatches, steadyBatches = 4, 8

// steady returns the seconds of steadyBatches batches on each machine, by simulated events.
func steady(ctx context.Context, load drives.Load, machines []drives.Machine) (out []float64, _ error) {
	var cases []drives.Case
	for _, m := range machines {
		for _, n := range []int{firstBatches, firstBatches + steadyBatches} {
			cases = append(cases, drives.Case{Loads: slices.Repeat([]drives.Load{load}, n), Machine: m})
		}
	}
	results, err := drives.RunAll(ctx, cases)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(results); i += 2 {
		out = append(out, results[i+1].Seconds-results[i].Seconds)
	}
	return out, nil
}

// part returns a part of a batch. A whole batch would occupy the link with its rows from RAM in one piece, while
// its reads wait.
func (l *lab) part(load drives.Load) drives.Load {
	n := l.Part
	load.Rows, load.Hits, load.Zero, load.Useful, load.Compute = load.Rows/n, load.Hits/n, load.Zero/n, load.Useful/n, load.Compute/kernel.Time(n)
	load.Reads = slices.Clone(load.Reads)
	for i := range load.Reads {
		load.Reads[i].Count /= n
	}
	return load
}

// Implied is the report's comparison with DistDGL on eight machines C: a ratio of throughputs per cost, and the
// share of Hyperion's throughput on machine A that DistDGL then has, by the total costs.
type Implied struct {
	Name       string
	PerCost    float64 // Hyperion's over DistDGL's
	Throughput float64 // DistDGL's over Hyperion's
	Follows    string  // the figure that is not the report's
}

// DistDGL returns the figures that the report states, each with the other that follows from it.
func DistDGL() ([]Implied, error) {
	p, err := drives.ReadPrices(nil, "")
	if err != nil {
		return nil, err
	}
	costs := p.TCO(p.Machines["c"]) / p.TCO(p.Machines["a"])
	return []Implied{
		{"87 % of the throughput with 8 machines", costs / 0.87, 0.87, "TPC"},
		{"TPC consistently over 18 times", 18, costs / 18, "throughput"},
		{"TPC up to 60 times", 60, costs / 60, "throughput"},
	}, nil
}
