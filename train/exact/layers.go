package exact

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"diskgnn/device"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/train/cpu"
	"diskgnn/train/score"
)

// compute computes all layers and passes the last one's rows to emit, range by range: the targets'
// rows from lo on. If it returns nil, the graph's files did not change until then.
func (j *job) compute(ctx context.Context, emit func(ctx context.Context, lo int, rows []float32) error) (err error) {
	f := j.data.Facts()
	var in table = j.features
	rows := features(&f)
	for l := range j.layers {
		var out *state
		e := emit
		if j.layers[l].writesState {
			if out, err = j.scratch.create(l, j.layers[l].out); err != nil {
				return err
			}
			e = func(ctx context.Context, _ int, rows []float32) error { return out.write(ctx, rows) }
		}
		err := j.layer(ctx, l, in, rows, e)
		if out != nil {
			err = errors.Join(err, out.finish())
		}
		if err == nil && l > 0 {
			err = j.fs.Remove(in.Path())
		}
		if err != nil {
			return fmt.Errorf("layer %d: %w", l, err)
		}
		if out != nil {
			j.costs[l].BytesWritten = out.sums.Size
			in, rows = out, out.layout()
			release()
		}
	}
	return j.topology.Unchanged()
}

// release frees the buffers of a layer before the next layer allocates its own. They hang on
// Gorgonia's machine, which has a finalizer: the first collection runs it, the second frees them.
func release() {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
}

// layerRun computes one layer from the rows of a table, range by range.
type layerRun struct {
	job       *job
	index     int
	plan      *layerPlan
	cost      score.LayerCost
	reader    *rowReader
	matrix    *device.Host
	evaluator *cpu.Evaluator
	input     cpu.Input
	cut       *cutter
}

// layer computes one layer of its targets from the rows of a table.
func (j *job) layer(ctx context.Context, l int, in table, rows layout, emit func(ctx context.Context, lo int, rows []float32) error) (err error) {
	p := &j.layers[l]
	began := time.Now()
	r := &layerRun{job: j, index: l, plan: p, input: cpu.Input{Prepared: new(cpu.Prepared)}, cut: newCutter(&j.topology.CSC, p.targets, p.most, j.sources, j.out),
		cost: score.LayerCost{Layer: l, Order: string(j.model.Orders[l]), Nodes: int64(p.targets.len()), Edges: p.edges}}
	task := j.report.Task(fmt.Sprintf("layer %d of %d", l+1, len(j.layers)), r.cost.Nodes, progress.Nodes)
	defer task.Done()
	if r.reader, err = newRowReader(j.stack, in, rows, j.wires); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.reader.Close()) }()
	if r.matrix, err = device.NewHost(int(matrixBytes(p.most.src, p.in))); err != nil {
		return err
	}
	defer r.matrix.Free()
	if r.evaluator, err = j.engine.NewLayerEvaluator(l, p.most.sizes()); err != nil {
		return err
	}
	for lo := 0; lo < p.targets.len(); {
		next, out, err := r.next(ctx, lo)
		if err != nil {
			return err
		}
		if l == len(j.layers)-1 {
			err = j.checkFinite(out, p.out, p.targets, lo)
		}
		if err == nil {
			err = emit(ctx, lo, out)
		}
		if err != nil {
			return err
		}
		r.cost.Ranges++
		r.cost.Sources += int64(len(r.cut.batch.Input))
		task.Add(int64(next - lo))
		lo = next
	}
	r.cost.BytesRead = r.reader.Bytes()
	r.cost.Seconds = time.Since(began).Seconds()
	j.costs = append(j.costs, r.cost)
	j.report.Logf("layer %d: %s in %s, %s read, %s (reading %s, computing %s)", l, units.Of(r.cost.Nodes, "node"), units.Of(r.cost.Ranges, "range"),
		budget.FormatBytes(r.cost.BytesRead), units.Seconds(r.cost.Seconds), units.Seconds(r.cost.ReadSeconds), units.Seconds(r.cost.ComputeSeconds))
	return nil
}

// next computes the range of targets that begins at lo. It returns where the range ends, and
// the layer's output for it, valid until the next one.
func (r *layerRun) next(ctx context.Context, lo int) (next int, out []float32, err error) {
	j := r.job
	err = j.topology.Guard(func() (err error) {
		_, next, err = r.cut.next(ctx, lo)
		return err
	})
	if err != nil {
		return 0, nil, j.ofDataset(err)
	}
	b := &r.cut.batch
	r.input.X = r.matrix.Float32s()[:len(b.Input)*r.plan.in]
	start := time.Now()
	if err := r.reader.read(ctx, b.Input, r.input.X); err != nil {
		if r.index == 0 {
			err = j.ofDataset(err)
		}
		return 0, nil, err
	}
	r.cost.ReadSeconds += time.Since(start).Seconds()
	start = time.Now()
	if j.out == nil {
		err = r.evaluator.Preparer().Prepare(r.input.Prepared, b)
	} else {
		err = r.evaluator.Preparer().PrepareRange(r.input.Prepared, b, r.cut.outs)
	}
	if err != nil {
		return 0, nil, err
	}
	out, err = r.evaluator.Infer(ctx, &r.input)
	r.cost.ComputeSeconds += time.Since(start).Seconds()
	return next, out, err
}

// checkFinite refuses rows of the last layer that give no score, class or embedding; lo is the
// first of the targets.
func (j *job) checkFinite(rows []float32, width int, t targets, lo int) error {
	if cpu.Finite(rows) {
		return nil
	}
	for i := range len(rows) / width {
		if !cpu.Finite(rows[i*width : (i+1)*width]) {
			return fault.New(fault.ErrInput, "the weights of %s give node %d values that are not finite: training diverged, or features of %s are not finite",
				j.options.Run, t.at(lo+i), j.options.Dataset)
		}
	}
	return nil
}
