package exact

import (
	"context"

	"diskgnn/dataset"
	"diskgnn/train/exact/grid"
	"diskgnn/train/model"
)

// cost is the index of the layer that the step is counted for.
func (s *step) cost() int { return max(0, s.layer) }

// makeSteps lists the steps up to the layer last, which is computed only for the targets.
func (j *job) makeSteps(ctx context.Context, last int, t targets) error {
	f := j.data.Facts()
	all := targets{nodes: f.Nodes}
	parts, err := j.layerParts(last, &t)
	if err != nil {
		return err
	}
	j.steps = nil
	if j.model.InputProjection > 0 {
		j.steps = append(j.steps, step{layer: model.InputLayer, targets: all})
	}
	for l := range last + 1 {
		j.steps = append(j.steps, step{layer: l, targets: all})
	}
	final := &j.steps[len(j.steps)-1]
	final.targets = t
	var counted lists // of all nodes
	table := &grid.Table{Rows: featured(&f), Width: f.Dim, DType: f.DType, File: j.features, Granule: dataset.Granule}
	for k := range j.steps {
		s := &j.steps[k]
		var err error
		lists := int64(s.targets.len())
		switch {
		case s.layer == model.InputLayer:
		case parts != nil:
			if s.parts = parts[s.layer]; s != final {
				s.targets = targets{nodes: int64(s.parts[len(s.parts)-1].Hi)}
			}
			if s.lists, err = j.measureParts(ctx, s); err != nil {
				return err
			}
			lists = s.lists.count
		case s.targets.ids != nil || counted.edges == 0:
			if s.lists, err = j.measure(ctx, &s.targets); err != nil {
				return err
			}
			if s.targets.ids == nil {
				counted = s.lists
			}
		default:
			s.lists = counted
		}
		s.sizes = grid.Sizes{Nodes: table.Rows, Targets: int64(s.targets.len()), IDs: s.targets.ids, Parts: s.parts, Long: s.lists.long,
			Edges: s.layer != model.InputLayer, Threads: j.options.Threads, Table: table, Lists: 4*s.lists.edges + 8*lists}
		if j.gpu != nil {
			s.sizes.Shape, s.sizes.GPU = j.gpu.sizes(&j.model, s.layer, s.lists.groups)
		} else {
			s.engine, s.sizes.Shape = j.engine.PullBytes(s.layer, grid.Group)
		}
		if s != final {
			t := &state{width: s.sizes.Shape.Out, nodes: s.sizes.Targets, of: j.options.stateType()}
			s.state = t.bytes()
			table = t.table()
		}
	}
	return j.findNeeded(ctx, final)
}

// measure counts the lists of targets.
func (j *job) measure(ctx context.Context, t *targets) (n lists, err error) {
	err = j.topology.Guard(func() (err error) {
		n, err = t.measure(ctx, &j.topology.CSC)
		return err
	})
	if err == nil {
		err = n.check(j.options.Dataset)
	}
	return n, j.ofDataset(err)
}

// fewPieces sources a piece of the table leave hardly a piece without a source.
const fewPieces = 8

// findNeeded finds the pieces with a source or the own row of a target, where targets are few.
func (j *job) findNeeded(ctx context.Context, s *step) error {
	t := s.sizes.Table
	if s.targets.ids == nil || s.lists.edges > fewPieces*int64(t.Pieces()) {
		return nil
	}
	if s.parts != nil {
		return j.findNeededOfParts(ctx, s)
	}
	need := make([]bool, t.Pieces())
	return j.ofDataset(j.topology.Guard(func() error {
		for i, v := range s.targets.ids {
			if err := ctx.Err(); i%checkEvery == 0 && err != nil {
				return err
			}
			from, err := j.topology.Sources(v)
			if err != nil {
				return err
			}
			for _, u := range from {
				t.Mark(need, u)
			}
			if s.sizes.Shape.Last {
				t.Mark(need, v)
			}
		}
		s.sizes.Need = need
		return nil
	}))
}

// place chooses the plans of all steps and the places of their states for room bytes, so that the fewest
// bytes are read and written. It returns false if no plan fits.
func (j *job) place(room int64) bool {
	// For every place of a step's rows: the bytes of the best way up to the step, and the way there.
	type way struct {
		cost     int64
		plan     grid.Plan
		before   int // place of the step's own table
		possible bool
	}
	ways := make([][2]way, len(j.steps))
	for k := range j.steps {
		s := &j.steps[k]
		for out := range 2 { // 0: on disk, or the result; 1: in memory
			if out == 1 && s.state == 0 {
				continue
			}
			for in := range 2 {
				if k == 0 && in == 1 || k > 0 && !ways[k-1][in].possible {
					continue
				}
				left, cost := room-s.engine-int64(out)*s.state, int64(1-out)*s.state
				sizes := s.sizes
				if in == 1 {
					left -= j.steps[k-1].state
					t := *sizes.Table
					t.File, sizes.Table, sizes.Need = nil, &t, nil
				}
				if left <= 0 {
					continue
				}
				plan, ok := sizes.Choose(left)
				if k > 0 {
					cost += ways[k-1][in].cost
				}
				cost += plan.Cost(&sizes)
				if w := &ways[k][out]; ok && (!w.possible || cost < w.cost) {
					*w = way{cost, plan, in, true}
				}
			}
		}
	}
	last := len(j.steps) - 1
	if !ways[last][0].possible {
		return false
	}
	for k, out := last, 0; k >= 0; k-- {
		s := &j.steps[k]
		s.plan, s.inMemory = ways[k][out].plan, out == 1
		out = ways[k][out].before
	}
	return true
}

// least returns the bytes that the steps need at least, and the step that needs them.
func (j *job) least() (need int64, worst *step) {
	for k := range j.steps {
		s := &j.steps[k]
		plan, _ := s.sizes.Choose(0)
		if n := s.engine + plan.Memory; n > need {
			need, worst = n, s
		}
	}
	return need, worst
}

// leastGPU returns the bytes of the GPU's memory that the steps need at least, and the step that needs them.
func (j *job) leastGPU() (need int64, worst *step) {
	for k := range j.steps {
		s := &j.steps[k]
		if plan, _ := s.sizes.Choose(0); plan.GPU > need {
			need, worst = plan.GPU, s
		}
	}
	return need, worst
}

// most returns the bytes with which nothing is read twice.
func (j *job) most() (n int64) {
	before := int64(0)
	for k := range j.steps {
		s := &j.steps[k]
		n = max(n, before+s.state+s.engine+s.sizes.Most())
		before = s.state
	}
	return n
}

// held returns the bytes of step k while it runs: its memory and the states in memory.
func (j *job) held(k int) int64 {
	s := &j.steps[k]
	n := s.engine + s.plan.Memory
	if s.inMemory {
		n += s.state
	}
	if k > 0 && j.steps[k-1].inMemory {
		n += j.steps[k-1].state
	}
	return n
}

// onDisk returns the most bytes of states on disk at a time.
func (j *job) onDisk() (most int64) {
	before := int64(0)
	for k := range j.steps {
		now := int64(0)
		if s := &j.steps[k]; !s.inMemory {
			now = s.state
		}
		most = max(most, before+now)
		before = now
	}
	return most
}
