// Package hyperion has the published figures of the technical report on Hyperion (2024), and simulates them:
// epochs of GNN training on one machine with up to 12 drives, beside GIDS, Legion and DistDGL, and the
// throughput per cost of machines.
//
// # Published and assumed
//
// The report gives sizes of graphs, machines, prices, batches (8000 seed nodes, fanout 25,10, 1 % of the
// nodes), widths of models, and ratios. Figures without printed numbers are not used. It gives one time: an
// epoch of GraphSAGE on IG takes 19 s.
//
// These values are assumed. They were fixed before comparing:
//   - Graphs are not available. Neighbours are drawn with probabilities that fall as a power of their rank,
//     with the exponent of simulate/gids (the hottest fifth of the rows gets 72 % of the accesses of GIDS's
//     batches). A node draws the fanout or the graph's mean number of edges per node, whichever is less. Seed
//     nodes are uniform. The order by hotness is known exactly.
//   - Sampling takes 86 ns for each input node: the seconds of GIDS's publication on an A100 over its rows.
//   - Training takes its multiplications at half of the data sheet's rate in float32 (19.5 Tflop/s of an A100
//     PCIe, 51 of an H800 PCIe), and its sums over edges at half of its bandwidth (1.935 and 2 TB/s).
//   - Sampling and training share the GPU. In Hyperion they overlap the reads of other batches, and I/O
//     kernels cost them nothing. GIDS overlaps nothing, as its I/O kernels take the whole GPU.
//   - The GPU cache has 40 GB, which is the size in the report's studies of IO-bound cases and of
//     preprocessing. A cache in RAM has the memory without topology and 64 GB.
//   - GIDS has a cache of 4 GiB and a window of 8, as in simulate/gids, and its constant CPU buffer has the
//     whole table where it fits (the report says so of PA), else 20 % of it (GIDS's paper).
//   - Hyperion reads rows of 512 bytes or more as they are, GIDS reads pages of 4 KiB. Drives, links and the
//     cost of a GPU's requests are the presets of simulate/drives.
//   - Legion has all rows in RAM and overlaps as Hyperion does. The comparison is on PA, IG and UK. The report
//     adapts their widths; here they are the largest powers of two that need at most 700 GB for features and topology.
//   - Experiments without a named graph use IG; those without a named model use GraphSAGE.
//
// Times are of drives.Estimate for an epoch. The comparison of suggested with best numbers of drives uses
// drives.Run in the place of the report's measurement: the time of eight batches, of a fortieth of the size, after
// four others.
package hyperion

import (
	"math"
	"slices"

	"diskgnn/internal/rng"
	"diskgnn/simulate/drives"
	"diskgnn/simulate/gids"
	"diskgnn/simulate/kernel"
	"diskgnn/simulate/trace"
)

// Graph is a row of the report's table of datasets.
type Graph struct {
	Name         string
	Nodes, Edges int64
	Topology     int64 // bytes
	Dim          int   // float32 values of a row
}

// Graphs returns the report's datasets.
func Graphs() []Graph {
	return []Graph{
		{"PA", 111e6, 1.6e9, 14e9, 128},
		{"IG", 269e6, 4e9, 34e9, 1024},
		{"UK", 0.79e9, 47.2e9, 384e9, 1024},
		{"CL", 1e9, 42.5e9, 348e9, 1024},
		{"LD", 5.6e9, 10e9, 125e9, 1024},
	}
}

func (g Graph) table() int64 { return g.Nodes * 4 * int64(g.Dim) }

// Model is a GNN of the report. Width is of a hidden layer, of all heads together.
type Model struct {
	Name  string
	Width int
}

// Models returns the report's models.
func Models() []Model { return []Model{{"SAGE", 256}, {"GCN", 256}, {"GAT", 8 * 64}} }

// GPU is a data sheet: operations of float32 and bytes of memory per second.
type GPU struct{ Operations, Bytes float64 }

// Assumptions are the values of the simulation that the report does not give, or that are uncertain.
type Assumptions struct {
	Presets    drives.Presets
	GPUs       map[string]GPU // by machine
	Efficiency float64        // of a GPU's rates
	SampleNano float64        // of an input node
	Taken      float64        // share of the GPU that Hyperion's I/O kernels take from sampling and training
	Slots      int            // batches under way in Hyperion and Legion
	Classes    int            // width of the last layer
	TopShare   float64        // of simulate/gids, for the exponent
	GPUCache   int64          // bytes, of Hyperion and Legion
	Reserve    int64          // bytes of RAM without cache
	Smallest   int64          // bytes of Hyperion's smallest read
	GIDSCache  int64          // bytes, on the GPU
	GIDSWindow int
	GIDSWhole  bool    // the whole table is in RAM where it fits
	GIDSBuffer float64 // else this share of it is
	// Scale divides nodes, batches and caches for drawing, over Counted batches. Warmup batches fill
	// GIDS's cache. Times are of the full size.
	Scale           int64
	Counted, Warmup int
	Part            int64 // divides batches for simulations by events
}

// Assumed returns the assumptions of the package comment.
func Assumed() Assumptions {
	return Assumptions{
		Presets: drives.Known(), GPUs: map[string]GPU{"a": {19.5e12, 1.935e12}, "b": {51e12, 2e12}}, Efficiency: 0.5,
		SampleNano: sampledNanos(), Slots: 4, Classes: 172, TopShare: 1 - 6.6/23.4,
		GPUCache: 40e9, Reserve: 64e9, Smallest: 512, GIDSCache: 4 << 30, GIDSWindow: 8, GIDSWhole: true, GIDSBuffer: 0.2,
		Scale: 1000, Counted: 40, Warmup: 40, Part: 40,
	}
}

// GIDS's publication: bytes of the rows of 4 KiB in 100 iterations, and the nodes of its graph.
const (
	gidsRows  = 219.2e9 / 4096 / 100
	gidsNodes = 2.28e12 / 4096
)

// sampledNanos returns the mean of GIDS's published times of sampling, over its rows.
func sampledNanos() float64 {
	sum := 0.0
	columns := gids.Published()
	for _, c := range columns {
		sum += c.Sampling / 100
	}
	return sum / float64(len(columns)) / gidsRows * 1e9
}

// Values of the report.
const (
	batchSize  = 8000
	memoryA    = 768e9
	memoryB    = 512e9
	trainShare = 0.01
	legionRAM  = 128e9
	legionMost = 700e9
)

func fanout() []int { return []int{25, 10} }

// drawn is the batches of a graph, at the scale of drawing, with means. A row's number is its rank.
type drawn struct {
	workload *drives.Workload
	nodes    []float64 // seed nodes, then the distinct nodes after each hop
	edges    []float64 // drawn by each hop
}

// lab simulates with assumptions that do not change.
type lab struct {
	Assumptions
	prices *drives.Prices
	power  float64
	seen   map[key]*drawn
	plans  map[plan]drives.Load
}

// key is of a graph's batches.
type key struct {
	graph      string
	size, hops int
}

func newLab(a Assumptions) (*lab, error) {
	p, err := drives.ReadPrices(nil, "")
	if err != nil {
		return nil, err
	}
	s := gids.Exponent(a.TopShare, gidsRows/gidsNodes)
	return &lab{Assumptions: a, prices: p, power: 1 / (1 - s), seen: map[key]*drawn{}, plans: map[plan]drives.Load{}}, nil
}

// batch draws one batch of seed nodes and calls visit for each of its distinct nodes. It returns the numbers
// of drawn's fields. seen has an element for each node, below mark.
func (l *lab) batch(g Graph, seeds int, fanout []int, seen []int32, mark int32, visit func(uint32)) (nodes, edges []float64) {
	r := rng.New(rng.Key(uint64(mark)))
	n := float64(len(seen))
	have := 0
	add := func(v uint32) {
		if seen[v] < mark {
			seen[v] = mark
			have++
			visit(v)
		}
	}
	for range seeds {
		add(uint32(r.Float64() * n))
	}
	nodes = append(nodes, float64(have))
	for _, f := range fanout {
		each := math.Min(float64(f), float64(g.Edges)/float64(g.Nodes))
		count := math.Round(float64(have) * each)
		for range int(count) {
			add(uint32(math.Pow(r.Float64(), l.power) * n))
		}
		nodes, edges = append(nodes, float64(have)), append(edges, count)
	}
	return nodes, edges
}

// draw returns the batches of a graph, which it draws once.
func (l *lab) draw(g Graph, size int, fanout []int) (*drawn, error) {
	k := key{g.Name, size, len(fanout)}
	d := l.seen[k]
	if d == nil {
		d = &drawn{nodes: make([]float64, len(fanout)+1), edges: make([]float64, len(fanout))}
		d.workload = &drives.Workload{Nodes: g.Nodes / l.Scale, Hotness: make([]uint32, g.Nodes/l.Scale)}
		for v := range d.workload.Hotness {
			d.workload.Hotness[v] = uint32(len(d.workload.Hotness) - v)
		}
		seen := make([]int32, d.workload.Nodes)
		var b trace.Batch
		for i := range l.Warmup + l.Counted {
			b.Rows = b.Rows[:0]
			nodes, edges := l.batch(g, size/int(l.Scale), fanout, seen, int32(i+1), func(v uint32) { b.Rows = append(b.Rows, v) })
			if err := d.workload.Add(&b); err != nil {
				return nil, err
			}
			if i >= l.Warmup {
				for j := range nodes {
					d.nodes[j] += nodes[j]
				}
				for j := range edges {
					d.edges[j] += edges[j]
				}
			}
		}
		for _, sums := range [][]float64{d.nodes, d.edges} {
			for j := range sums {
				sums[j] /= float64(l.Counted)
			}
		}
		l.seen[k] = d
	}
	w := *d.workload
	w.RowBytes = 4 * int64(g.Dim)
	return &drawn{&w, d.nodes, d.edges}, nil
}

// Systems.
const (
	hyperion   = "Hyperion"
	serial     = "Hyperion-NoPipe"
	noTopology = "Hyperion-NoTopoCache"
	legion     = "Legion"
	paged      = "GIDS"
)

// setup is a run.
type setup struct {
	system    string
	graph     Graph
	model     Model
	size      int
	fanout    []int
	machine   string
	drive     string
	drives    int
	gpu, host int64 // caches of Hyperion, in bytes
}

// on returns a system with the report's usual values: GraphSAGE on machine A with 12 P5510.
func (l *lab) on(system string, g Graph) setup {
	s := setup{system: system, graph: g, model: Models()[0], size: batchSize, fanout: fanout(), machine: "a", drive: "intel-p5510", drives: 12, gpu: l.GPUCache}
	s.host = l.free(g, memoryA)
	return s
}

// free returns the RAM for a cache of rows.
func (l *lab) free(g Graph, memory int64) int64 { return max(0, memory-g.Topology-l.Reserve) }

// load returns the mean batch of a run, at full size.
func (l *lab) load(s setup) (drives.Load, error) {
	d, err := l.draw(s.graph, s.size, s.fanout)
	if err != nil {
		return drives.Load{}, err
	}
	p := plan{key: key{s.graph.Name, s.size, len(s.fanout)}, dim: s.graph.Dim, host: s.host, gpu: s.gpu}
	unit := max(l.Smallest, min(drives.Page, d.workload.RowBytes))
	switch s.system {
	case paged:
		p.paged, p.gpu, unit = true, 0, drives.Page
		if p.host = l.free(s.graph, memoryA); !l.GIDSWhole || s.graph.table() > p.host {
			p.host = int64(l.GIDSBuffer * float64(s.graph.table()))
		}
	case legion:
		p.host = s.graph.table()
	case noTopology:
		p.host += s.graph.Topology
	}
	mean, ok := l.plans[p]
	if !ok {
		if mean, err = l.mean(p, d.workload); err != nil {
			return mean, err
		}
		l.plans[p] = mean
	}
	mean.Rows = int64(d.nodes[len(d.nodes)-1] * float64(l.Scale))
	mean.Useful, mean.Hits = mean.Rows*d.workload.RowBytes, mean.Rows-mean.Reads[0].Count
	mean.Reads = []drives.Reads{{Bytes: unit, Count: mean.Reads[0].Count}}
	if s.system == noTopology {
		for _, n := range d.nodes[:len(d.nodes)-1] { // a page of neighbours for each node of each hop
			mean.Reads = append(mean.Reads, drives.Reads{Bytes: drives.Page, Count: int64(n * float64(l.Scale))})
		}
	}
	seconds := l.SampleNano/1e9*float64(mean.Rows) + l.training(s, d)
	if s.system == hyperion || s.system == noTopology {
		seconds /= 1 - l.Taken
	}
	mean.Compute = kernel.FromSeconds(seconds)
	return mean, nil
}

// plan is a system's caches, in bytes, and its batches.
type plan struct {
	key
	dim       int
	paged     bool // with GIDS's cache
	host, gpu int64
}

// mean returns the mean load, with the full count of its reads and full bytes of rows in RAM. The plan of
// GIDS serves Hyperion and Legion too, on batches without the rows in the GPU's static cache, and with no
// cache of pages.
func (l *lab) mean(p plan, w *drives.Workload) (drives.Load, error) {
	c := drives.Caches{Warmup: l.Warmup, Memory: (p.host + p.gpu) / l.Scale}
	if p.paged {
		c.GPU, c.Window = l.GIDSCache/l.Scale, l.GIDSWindow
	}
	loads, err := drives.Plan("gids", without(w, p.gpu/l.Scale), c)
	if err != nil {
		return drives.Load{}, err
	}
	mean, reads := drives.Load{Direct: true}, int64(0)
	for i := range loads {
		n, _ := loads[i].Requests()
		reads += n
		mean.Zero += loads[i].Zero
	}
	n := int64(len(loads))
	mean.Zero, mean.Reads = mean.Zero*l.Scale/n, []drives.Reads{{Count: reads * l.Scale / n}}
	return mean, nil
}

// without returns a workload without the rows that a cache of the hottest rows holds, in bytes.
func without(w *drives.Workload, bytes int64) *drives.Workload {
	held := uint32(min(bytes/w.RowBytes, w.Nodes))
	left := *w
	left.Batches = slices.Clone(w.Batches)
	for i := range left.Batches {
		b := &left.Batches[i]
		b.Rows = slices.DeleteFunc(slices.Clone(b.Rows), func(v uint32) bool { return v < held })
	}
	return &left
}

// training returns the seconds of a training step. Layers multiply with one matrix (GCN: destinations, GAT:
// sources) or two (SAGE); the step back multiplies once more for weights, and for inputs except the first
// layer's. Sums over edges read a row of each edge once forward and, except in the first layer, once
// backward; GAT's are after its matrix, and three times in all.
func (l *lab) training(s setup, d *drawn) float64 {
	g := l.GPUs[s.machine]
	operations, bytes := 0.0, 0.0
	in := float64(s.graph.Dim)
	for i, layers := 0, len(d.edges); i < layers; i++ {
		scale := float64(l.Scale)
		source, destination, edges := scale*d.nodes[layers-i], scale*d.nodes[layers-i-1], scale*d.edges[layers-i-1]
		out, passes, sums := float64(s.model.Width), 3.0, 2.0
		if i == 0 {
			passes, sums = 2, 1
		}
		if i == layers-1 {
			out = float64(l.Classes)
		}
		switch s.model.Name {
		case "SAGE":
			operations += passes * 4 * destination * in * out
			bytes += sums * 4 * edges * in
		case "GCN":
			operations += passes * 2 * destination * in * out
			bytes += sums * 4 * edges * in
		case "GAT":
			operations += passes * 2 * source * in * out
			bytes += 3 * 4 * edges * out
		}
		in = out
	}
	return operations/(g.Operations*l.Efficiency) + bytes/(g.Bytes*l.Efficiency)
}

// hardware returns the machine of a run.
func (l *lab) hardware(s setup) drives.Machine {
	m := drives.Machine{Drive: l.Presets.Drives[s.drive], Drives: s.drives, Software: l.Presets.Software["gids"], Slots: l.Slots}
	m.Link = l.Presets.Links[l.prices.Machines[s.machine].Link].Bytes
	if s.system == paged || s.system == serial {
		m.Slots = 1
	}
	return m
}

// epoch returns the seconds of an epoch.
func (l *lab) epoch(s setup) (float64, error) {
	load, err := l.load(s)
	if err != nil {
		return 0, err
	}
	return drives.Estimate(slices.Repeat([]drives.Load{load}, s.batches()), l.hardware(s)), nil
}

// batches returns the number of batches of an epoch.
func (s *setup) batches() int {
	return int(math.Ceil(trainShare * float64(s.graph.Nodes) / float64(s.size)))
}

// cost returns the total cost of a run's machine.
func (l *lab) cost(s setup) float64 {
	m := l.prices.Machines[s.machine]
	m.Drive = s.drive
	return l.prices.With(m, s.drives, 0)
}

// speedup returns the time of the second run over the time of the first.
func (l *lab) speedup(fast, slow setup) (float64, error) {
	a, err := l.epoch(fast)
	if err != nil {
		return 0, err
	}
	b, err := l.epoch(slow)
	return b / a, err
}
