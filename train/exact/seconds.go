package exact

import (
	"context"
	"math/rand/v2"
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
// the table that passes by a tile.
type speed struct{ target, pass float64 }

// seconds returns the computing time of a step.
func (v speed) seconds(s *step) float64 {
	return v.target*float64(s.sizes.Targets) + v.pass*float64(s.sizes.Nodes*max(1, s.plan.Tiles))
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
// of ones.
func (j *job) speed(ctx context.Context, s *step) (v speed, err error) {
	nodes, degree := j.sample(s)
	sizes := s.sizes
	sizes.Nodes, sizes.Targets, sizes.IDs, sizes.Long, sizes.Need = nodes, nodes, nil, 0, nil
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
	g := sampled(nodes, degree)
	whole := &prepare.Whole{Graph: g, Weighing: j.model.Weighing()}
	if j.model.CountsBlocks() {
		whole.Out = make([]uint32, nodes)
	}
	l := &grid.Layer{Table: *sizes.Table, Guard: func(fn func() error) error { return fn() }, Threads: j.options.Threads,
		Pull: j.engine.NewPull(s.layer, grid.Group, whole), Passed: func(int64) {}}
	if sizes.Edges {
		l.Graph = g
	}
	one, err := timed(ctx, l, plan)
	if err != nil || !sizes.Edges {
		return speed{pass: one / float64(nodes)}, err
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

// sample returns the nodes and the edges a node of the sample for a step, for which it has the time and the memory.
func (j *job) sample(s *step) (nodes, degree int64) {
	degree = s.lists.edges / max(1, s.sizes.Targets)
	shape, group := &s.sizes.Shape, int64(grid.Group)
	work := degree*int64(shape.Row+shape.In) + 4*int64(shape.In)*int64(shape.Out)
	bytes := 4*int64(shape.In+shape.Acc) + 4*degree + 24
	nodes = min(probeRows, s.sizes.Nodes, probeWork/work, s.plan.Memory/(2*bytes))
	nodes = max(nodes/group*group, min(group, s.sizes.Nodes))
	return nodes, min(degree, nodes)
}

// sampled returns a random graph in which each node has the given number of in-neighbours.
func sampled(nodes, degree int64) *graph.CSC {
	g := &graph.CSC{Indptr: make([]int64, nodes+1), Indices: make([]uint32, 0, nodes*degree)}
	rng := rand.New(rand.NewPCG(1, uint64(nodes)))
	for v := range nodes {
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
