package exact

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/train/cpu"
	"diskgnn/train/score"
)

// compute computes all layers and hands the last one's rows on, range by range: those
// of the targets from lo on.
func (j *job) compute(ctx context.Context, emit func(ctx context.Context, lo int, rows []float32) error) (err error) {
	f := j.data.Facts()
	var in table = j.features
	rows := layout{dataset.Granule, f.Dim, f.DType}
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
	return nil
}

// release gives the buffers of a layer back before those of the next are taken. They
// hang on Gorgonia's machine, which has a finalizer: the first collection runs it, the
// second frees them.
func release() {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
}

// layer computes one layer of its targets from the rows of a table.
func (j *job) layer(ctx context.Context, l int, in table, rows layout, emit func(ctx context.Context, lo int, rows []float32) error) (err error) {
	p := &j.layers[l]
	began := time.Now()
	cost := score.LayerCost{Layer: l, Order: string(j.model.Orders[l]), Nodes: int64(p.targets.len()), Edges: p.edges}
	task := j.report.Task(fmt.Sprintf("layer %d of %d", l+1, len(j.layers)), cost.Nodes, progress.Nodes)
	defer task.Done()
	reader, err := newRowReader(j.stack, in, rows, j.wires)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	matrix, err := device.NewHost(int(matrixBytes(p.most.src, p.in)))
	if err != nil {
		return err
	}
	defer matrix.Free()
	evaluator, err := j.engine.NewLayerEvaluator(l, p.most.sizes())
	if err != nil {
		return err
	}
	input := &cpu.Input{Prepared: new(cpu.Prepared)}
	cut := newCutter(&j.topology.CSC, p.targets, p.most, j.sources, j.out)
	for lo := 0; lo < p.targets.len(); {
		next := lo
		err := j.topology.Guard(func() (err error) {
			_, next, err = cut.next(ctx, lo)
			return err
		})
		if err != nil {
			return j.ofDataset(err)
		}
		b := &cut.batch
		x := matrix.Float32s()[:len(b.Input)*p.in]
		start := time.Now()
		if err := reader.read(ctx, b.Input, x); err != nil {
			if l == 0 {
				err = j.ofDataset(err)
			}
			return err
		}
		cost.ReadSeconds += time.Since(start).Seconds()
		start = time.Now()
		if j.out == nil {
			err = evaluator.Preparer().Prepare(input.Prepared, b)
		} else {
			err = evaluator.Preparer().PrepareRange(input.Prepared, b, cut.outs)
		}
		if err != nil {
			return err
		}
		input.X = x
		out, err := evaluator.Infer(ctx, input)
		if err != nil {
			return err
		}
		cost.ComputeSeconds += time.Since(start).Seconds()
		if l == len(j.layers)-1 {
			err = j.checkFinite(out, p.out, p.targets, lo)
		}
		if err == nil {
			err = emit(ctx, lo, out)
		}
		if err != nil {
			return err
		}
		cost.Ranges++
		cost.Sources += int64(len(b.Input))
		task.Add(int64(next - lo))
		lo = next
	}
	cost.BytesRead = reader.Bytes()
	cost.Seconds = time.Since(began).Seconds()
	j.costs = append(j.costs, cost)
	j.report.Logf("layer %d: %s in %s, %s read, %s (reading %s, computing %s)", l, units.Of(cost.Nodes, "node"), units.Of(cost.Ranges, "range"),
		budget.FormatBytes(cost.BytesRead), units.Seconds(cost.Seconds), units.Seconds(cost.ReadSeconds), units.Seconds(cost.ComputeSeconds))
	return nil
}

// checkFinite refuses rows of the last layer, of the targets from lo on, of which no
// score, class or embedding can be made.
func (j *job) checkFinite(rows []float32, width int, t targets, lo int) error {
	if cpu.Finite(rows) {
		return nil
	}
	for i := range len(rows) / width {
		if !cpu.Finite(rows[i*width : (i+1)*width]) {
			return fault.New(fault.ErrInput, "what the weights of %s make of node %d is not finite: training diverged, or features of %s are not finite",
				j.options.Run, t.at(lo+i), j.options.Dataset)
		}
	}
	return nil
}
