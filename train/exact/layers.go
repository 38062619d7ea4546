package exact

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/train/cpu"
	"diskgnn/train/exact/grid"
	"diskgnn/train/model"
	"diskgnn/train/score"
)

// emitting takes the rows of targets from lo on, which are valid during the call.
type emitting func(ctx context.Context, lo int, rows []float32) error

// compute computes all steps and passes the last one's rows to emit, in the order of the targets. If it
// returns nil, the graph's files did not change until then.
func (j *job) compute(ctx context.Context, emit emitting) (err error) {
	from, in, out, err := j.goOn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if in != nil {
			err = errors.Join(err, in.drop())
		}
	}()
	for k := range j.steps {
		s := &j.steps[k]
		if k < from {
			j.skip(s)
			continue
		}
		e := j.finite(s, emit)
		if s.state > 0 {
			if out == nil {
				if out, err = j.newState(k); err != nil {
					return err
				}
			}
			e = func(ctx context.Context, _ int, rows []float32) error { return out.write(ctx, rows) }
		}
		err := j.step(ctx, k, in, out, e)
		if out != nil {
			err = errors.Join(err, out.finish())
		}
		switch {
		case in != nil && err == nil:
			err = errors.Join(in.remove(j.fs), j.scratch.forget(k-1))
		case in != nil:
			err = errors.Join(err, in.drop())
		}
		in, out = out, nil
		if err != nil {
			return fmt.Errorf("layer %d: %w", s.cost(), err)
		}
		if in != nil {
			release()
		}
	}
	return j.topology.Unchanged()
}

// newState makes the place of step k's rows.
func (j *job) newState(k int) (*state, error) {
	t := j.stateOf(k)
	if j.steps[k].inMemory {
		return t, t.hold()
	}
	return t, j.scratch.create(k, t)
}

// release frees the engine's buffers of a layer before the next layer allocates its own.
func release() { debug.FreeOSMemory() }

// step computes one step from the features, or from the state before. If out is not nil, it has the step's
// first rows already, and takes the others.
func (j *job) step(ctx context.Context, k int, in, out *state, emit emitting) error {
	s := &j.steps[k]
	began := time.Now()
	table := s.sizes.Table
	if in != nil {
		table = in.table()
	}
	l := &grid.Layer{Plan: s.plan, Table: *table, Guard: j.topology.Guard, Targets: s.targets.ids, Parts: s.parts, Long: s.lists.long,
		Threads: j.options.Threads, Stack: j.stack, Wires: j.wires}
	if j.gpu != nil {
		l.GPU = &grid.GPU{On: j.gpu.on, Model: &j.model, Layer: s.layer, Weights: j.gpu.weights, Graph: j.graph, Shape: s.sizes.Shape}
	} else {
		l.Pull = j.engine.NewPull(s.layer, grid.Group, j.graph)
	}
	if table.File != nil {
		l.Need = s.sizes.Need
	}
	if out != nil {
		s.kept = out.rows()
		l.From, l.Ended = int(s.kept), func() error { return j.keepRows(k, in, out) }
	}
	if s.sizes.Edges {
		l.Graph = &j.topology.CSC
	}
	task := j.report.Task(fmt.Sprintf("layer %d of %d", s.cost()+1, j.model.Layers()), s.passes()*s.sizes.Nodes, progress.Nodes)
	defer task.Done()
	l.Passed = task.Add
	read, err := l.Run(ctx, emit)
	if err != nil {
		if in == nil {
			err = j.ofDataset(err)
		}
		return err
	}
	j.count(s, &read, time.Since(began).Seconds())
	return nil
}

// count adds the cost of a step to its layer's.
func (j *job) count(s *step, read *grid.Cost, seconds float64) {
	if s.cost() == len(j.costs) {
		j.costs = append(j.costs, score.LayerCost{Layer: s.cost()})
	}
	c := &j.costs[s.cost()]
	c.Order, c.Nodes, c.Edges = j.order(s), int64(s.targets.len()), s.lists.edges
	c.Ranges, c.Blocks, c.Sources = int(s.passes()), s.plan.Blocks, s.passes()*s.sizes.Nodes
	c.BytesRead += read.BytesRead
	c.Seconds += seconds
	c.ReadSeconds += read.ReadSeconds
	c.ComputeSeconds = c.Seconds - c.ReadSeconds
	if !s.inMemory {
		c.BytesWritten += s.state / s.sizes.Targets * (s.sizes.Targets - s.kept)
	}
	j.report.Logf("layer %d: %s in %s, %s read, %s (waiting for rows %s, computing %s)", s.cost(), units.Of(c.Nodes, "node"), Passes(int64(c.Ranges)),
		budget.FormatBytes(read.BytesRead), units.Seconds(seconds), units.Seconds(read.ReadSeconds), units.Seconds(seconds-read.ReadSeconds))
}

// order returns the order of the step's layer.
func (j *job) order(s *step) string {
	if j.model.Orders == nil {
		return string(model.Aggregate)
	}
	return string(j.model.Orders[s.cost()])
}

// passes returns the number of tiles that this process computes.
func (s *step) passes() int64 {
	if s.kept == 0 {
		return s.plan.Tiles
	}
	tile := int64(s.plan.Tile)
	return (s.sizes.Targets - s.kept + tile - 1) / tile
}

// skip counts a layer that an earlier process has computed.
func (j *job) skip(s *step) {
	if s.cost() == len(j.costs) {
		j.costs = append(j.costs, score.LayerCost{Layer: s.cost(), Order: j.order(s)})
	}
}

// Passes counts passes over a table in words.
func Passes(n int64) string {
	if n == 1 {
		return "1 pass"
	}
	return units.Count(n) + " passes"
}

// finite returns emit with a check of the rows, which are the step's.
func (j *job) finite(s *step, emit emitting) emitting {
	return func(ctx context.Context, lo int, rows []float32) error {
		if err := j.checkFinite(ctx, rows, s.sizes.Shape.Out, s.targets, lo); err != nil {
			return err
		}
		return emit(ctx, lo, rows)
	}
}

// checkFinite refuses rows of the last layer that give no score, class or embedding; lo is the
// first of the targets.
func (j *job) checkFinite(ctx context.Context, rows []float32, width int, t targets, lo int) error {
	var some atomic.Bool // some are not finite
	err := divide(ctx, j.options.Threads, len(rows)/width, func(from, to int) error {
		if !cpu.Finite(rows[from*width : to*width]) {
			some.Store(true)
		}
		return nil
	})
	if err != nil || !some.Load() {
		return err
	}
	for i := range len(rows) / width {
		if !cpu.Finite(rows[i*width : (i+1)*width]) {
			return fault.New(fault.ErrInput, "the weights of %s give node %d values that are not finite: training diverged, or features of %s are not finite",
				j.options.Run, t.at(lo+i)-t.first, j.options.Dataset)
		}
	}
	return nil
}
