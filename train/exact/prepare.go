package exact

import (
	"context"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/iostack/pieces"
	"diskgnn/train/decide"
	"diskgnn/train/prepare"
)

// preparing is prepare or decide.
type preparing func(ctx context.Context, last int, t targets, more int64) error

// prepare decides how the layers up to last are computed, refuses too many reads, and takes the
// permanent buffers. Layer last is computed only for the targets. more is the caller's memory in
// bytes.
func (j *job) prepare(ctx context.Context, last int, t targets, more int64) error {
	if err := j.decide(ctx, last, t, more); err != nil {
		return err
	}
	if err := j.checkReads(); err != nil {
		return err
	}
	return j.take(ctx)
}

// decide is the deciding part of prepare. It refuses insufficient memory: the error names the layer that
// needs most, and the memory that suffices for all and for the bound on the reads.
func (j *job) decide(ctx context.Context, last int, t targets, more int64) error {
	if err := j.makeSteps(ctx, last, t); err != nil {
		return err
	}
	j.fixed += more + j.beside()
	room := j.options.Memory - j.fixed
	if j.parts.room > 0 {
		room = j.parts.room
	}
	if j.place(room) {
		return nil
	}
	if need, worst := j.leastGPU(); j.gpu != nil && need > j.gpu.memory {
		return noGPURoom{fault.New(fault.ErrBudget, "layer %d takes at least %s of the GPU's memory, but %s are left for it; --engine %s needs no GPU",
			worst.cost(), budget.FormatBytes(need), budget.FormatBytes(max(j.gpu.memory, 0)), decide.EngineCPU)}
	}
	need, worst := j.least()
	return fault.New(fault.ErrBudget, "layer %d takes at least %s, but --memory %s leaves %s for it (the least that would do: --memory %dMiB)",
		worst.cost(), budget.FormatBytes(need), budget.FormatBytes(j.options.Memory), budget.FormatBytes(max(room, 0)), j.leastMemory(need)>>20)
}

// beside returns the bytes that are held beside the steps' memory: counts of edges, and checksums of states.
func (j *job) beside() int64 {
	dry := new(device.Arena)
	if j.model.CountsBlocks() {
		takeOut(dry, j.data.Facts().Nodes)
	}
	n := dry.Used()
	for k := range j.steps {
		n += stateMemory(j.steps[k].state)
	}
	return n
}

// outside returns the most bytes that are held outside of Go's heap at a time.
func (j *job) outside() (n int64) {
	for k := range j.steps {
		n = max(n, j.held(k)-j.steps[k].engine)
	}
	return n + pieces.Memory(dataset.Granule, j.features.Compressed())
}

// scratchDir returns the directory of the job's states.
func (j *job) scratchDir() (string, error) {
	if j.states != "" {
		return j.states, nil
	}
	return scratchDir(j.options.Run, j.options.Scratch)
}

// take takes the permanent buffers.
func (j *job) take(ctx context.Context) (err error) {
	j.undo = budget.LimitHeap(j.options.Memory, j.outside())
	if len(j.steps) > 1 { // also if all states fit in memory: two jobs of a run exclude each other
		dir, err := j.scratchDir()
		if err != nil {
			return err
		}
		if j.scratch, err = openScratch(j.fs, dir, j.onDisk()); err != nil {
			return err
		}
		if j.of, err = j.identity(); err != nil {
			return err
		}
	}
	return j.takeGraph(ctx)
}

// takeGraph takes the buffers of the graph and of reads.
func (j *job) takeGraph(ctx context.Context) (err error) {
	j.topology.InOrder()
	j.graph = &prepare.Whole{Graph: &j.topology.CSC, Weighing: j.model.Weighing()}
	if j.wires, err = pieces.NewBuffers(dataset.Granule, j.features.Compressed()); err != nil || !j.model.CountsBlocks() {
		return err
	}
	j.graph.Out = takeOut(device.NewArena(), j.data.Facts().Nodes)
	return j.ofDataset(j.topology.Guard(func() error { return countOut(ctx, &j.topology.CSC, j.graph.Out) }))
}
