package exact

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/iostack/pieces"
	"diskgnn/train/exact/grid"
	"diskgnn/train/prepare"
)

const (
	// probeTime bounds the measured reads of the features.
	probeTime = 250 * time.Millisecond
	// probeRows and probeWork bound a sample that a step computes: its rows, and their multiplications.
	probeRows = 1 << 16
	probeWork = 1 << 30
	// probeTiles are the tiles of the second computation of a sample, which shows the cost of a tile.
	probeTiles = 4
	// probeRuns are the computations of each kind, of which the fastest counts.
	probeRuns = 2
)

// speed is the measured time of a step in seconds: of a target with its edges and its output row, and of a row of
// the table that passes by a tile. In a typed graph, a target stands for its number of lists.
type speed struct {
	target, pass float64
	lists        int // of a target; 0: targets are counted
}

// seconds returns the computing time of a step.
func (v speed) seconds(s *step) float64 {
	targets := float64(s.sizes.Targets)
	if v.lists > 0 {
		targets = float64(s.lists.count) / float64(v.lists)
	}
	return v.target*targets + v.pass*float64(s.sizes.Nodes*max(1, s.plan.Tiles))
}

// readRate reads pieces of the features from the first on, as a step does, and returns the bytes per second.
func (j *job) readRate(ctx context.Context) (rate float64, err error) {
	wires, err := pieces.NewBuffers(dataset.Granule, j.features.Compressed())
	if err != nil {
		return 0, err
	}
	defer wires.Free()
	r, err := pieces.Open(j.stack, j.features, wires)
	if err != nil {
		return 0, err
	}
	began, next, count := time.Now(), 0, j.steps[0].sizes.Table.Pieces()
	err = r.Read(ctx, func() (int, bool) {
		if next == count || time.Since(began) > probeTime {
			return 0, false
		}
		next++
		return next - 1, true
	}, func(p *pieces.Piece) error {
		_, err := p.Decode()
		return err
	})
	rate = float64(r.Bytes()) / time.Since(began).Seconds()
	if e := r.Close(); err == nil {
		err = e
	}
	return rate, err
}

// speed measures the speed of a step on a sample: a random graph with the mean number of edges of a node, and rows
// of ones. In a typed graph all targets are of the type with the most lists.
func (j *job) speed(ctx context.Context, s *step) (v speed, err error) {
	part := s.most()
	nodes, degree := j.sample(s, part)
	sizes := s.sizes
	sizes.Nodes, sizes.Targets, sizes.IDs, sizes.Long, sizes.Need = nodes, nodes, nil, 0, nil
	if s.parts != nil {
		part.Lo, part.Hi, part.Node, part.Begin, part.Own = 0, int(nodes), 0, 0, min(part.Own, 0)
		sizes.Parts, v.lists = []grid.Part{part}, len(part.Links)
	}
	host, err := device.NewHost(int(binio.AlignUp(nodes, int64(grid.Group))) * 4 * s.sizes.Shape.In)
	if err != nil {
		return v, err
	}
	defer host.Free()
	rows := binio.View[float32](host.Bytes())
	for i := range rows { // a page that nothing was written to is the same memory as others
		rows[i] = 1
	}
	sizes.Table = &grid.Table{Rows: nodes, Width: s.sizes.Shape.In, DType: dtype.Float32, Held: host.Bytes()}
	plan, ok := sizes.Choose(s.plan.Memory)
	if !ok {
		return v, nil // the step is this small itself
	}
	plan.Block = min(plan.Block, cutIn(nodes, s.plan.Blocks)) // lists are cut by blocks as in the step
	g := sampled(nodes*int64(part.Rows), nodes, degree)
	whole := &prepare.Whole{Graph: g, Weighing: j.model.Weighing()}
	if j.model.CountsBlocks() {
		whole.Out = make([]uint32, nodes)
	}
	l := &grid.Layer{Table: *sizes.Table, Parts: sizes.Parts, Guard: func(fn func() error) error { return fn() }, Threads: j.options.Threads,
		Pull: j.engine.NewPull(s.layer, grid.Group, whole), Passed: func(int64) {}}
	if sizes.Edges {
		l.Graph = g
	}
	one, err := timed(ctx, l, plan)
	if err != nil || !sizes.Edges {
		v.pass = one / float64(nodes)
		return v, err
	}
	plan.Tile = cutIn(nodes, probeTiles)
	tiles := (nodes + int64(plan.Tile) - 1) / int64(plan.Tile)
	more, err := timed(ctx, l, plan)
	if tiles > 1 {
		v.pass = max(0, more-one) / float64(nodes*(tiles-1))
	}
	v.target = max(0, one/float64(nodes)-v.pass)
	return v, err
}

// cutIn returns the rows of a part, whole groups, where rows are cut into at most the given number of parts, at least
// into one.
func cutIn(rows, parts int64) int {
	parts = max(1, parts)
	return int(binio.AlignUp((rows+parts-1)/parts, int64(grid.Group)))
}

// most returns the step's part with the most lists, with links of their own. A graph without types has one.
func (s *step) most() grid.Part {
	most, best := int64(-1), grid.Part{Rows: 1, Links: []grid.Link{{}}}
	for _, p := range s.parts {
		if n := int64(p.Hi-p.Lo) * int64(len(p.Links)); n > most {
			most, best = n, p
		}
	}
	best.Links = slices.Clone(best.Links)
	for i := range best.Links {
		best.Links[i].Shift = 0
	}
	return best
}

// sample returns the nodes, and the edges of a list, of the sample for a step, for which it has the time and the memory.
func (j *job) sample(s *step, part grid.Part) (nodes, degree int64) {
	degree = s.lists.edges / max(1, s.sizes.AllLists())
	rows, lists := int64(part.Rows), int64(len(part.Links))
	shape, group := &s.sizes.Shape, int64(grid.Group)
	work := lists*degree*int64(shape.Row+shape.In) + 4*max(1, lists)*int64(shape.In)*int64(shape.Out)
	bytes := 4*(int64(shape.In)+lists*int64(shape.Acc)) + 4*rows*degree + 16 + 8*rows
	nodes = min(probeRows, s.sizes.Nodes, probeWork/work, s.plan.Memory/(2*bytes))
	nodes = max(nodes/group*group, min(group, s.sizes.Nodes))
	return nodes, min(degree, nodes)
}

// sampled returns a random graph of this number of lists, each of degree of the nodes.
func sampled(lists, nodes, degree int64) *graph.CSC {
	g := &graph.CSC{Indptr: make([]int64, lists+1), Indices: make([]uint32, 0, lists*degree)}
	rng := rand.New(rand.NewPCG(1, uint64(nodes)))
	for v := range lists {
		for i := range degree { // one of each range of nodes, so that the list ascends
			lo, hi := nodes*i/degree, nodes*(i+1)/degree
			g.Indices = append(g.Indices, uint32(lo+rng.Int64N(hi-lo)))
		}
		g.Indptr[v+1] = int64(len(g.Indices))
	}
	return g
}

// timed returns the seconds of the fastest of some computations of a layer.
func timed(ctx context.Context, l *grid.Layer, plan grid.Plan) (best float64, err error) {
	l.Plan = plan
	for n := range probeRuns {
		began := time.Now()
		if _, err := l.Run(ctx, func(context.Context, int, []float32) error { return nil }); err != nil {
			return 0, err
		}
		if took := time.Since(began).Seconds(); n == 0 || took < best {
			best = took
		}
	}
	return best, nil
}
