package exact

import (
	"context"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/idset"
	"diskgnn/iostack/pieces"
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
	if err := j.checkReads(ctx, &j.reads); err != nil {
		return err
	}
	return j.take(ctx)
}

// decide is the deciding part of prepare. It takes memory only for the set of sources.
func (j *job) decide(ctx context.Context, last int, t targets, more int64) error {
	dry := new(device.Arena)
	all := targets{nodes: j.data.Facts().Nodes}
	if j.model.CountsBlocks() {
		takeOut(dry, all.nodes)
	}
	var states int64
	in := j.model.Features()
	for l := range last + 1 {
		p := layerPlan{targets: all, in: in, out: j.model.Out(l), writesState: l < last}
		in = p.out
		before := states
		states = 0
		if l == last {
			p.targets = t
		} else {
			states = stateBytes(all.nodes, p.out)
			j.fixed += stateMemory(all.nodes, p.out)
		}
		j.states = max(j.states, before+states)
		j.layers = append(j.layers, p)
	}
	j.fixed += more + dry.Used()
	room := j.options.Memory - j.fixed
	if j.parts.room > 0 {
		room = j.parts.room
	}
	if err := j.plan(ctx, room); err != nil {
		return err
	}
	most, err := j.capacities(room)
	if err != nil {
		return err
	}
	for l := range most {
		j.layers[l].most = most[l]
	}
	j.sources = idset.New(all.nodes)
	j.reads, err = j.survey(ctx, most)
	return j.ofDataset(err)
}

// plan measures the layers, and refuses insufficient memory: the error names the layer that needs
// most, and the memory that suffices for all and for the bound on the reads.
func (j *job) plan(ctx context.Context, room int64) error {
	var need int64
	var worst, neighbours int
	for l := range j.layers {
		n, most, err := j.measure(l)
		if err != nil {
			return err
		}
		if n > need {
			need, worst, neighbours = n, l, most
		}
	}
	if need > room {
		least, err := j.leastMemory(ctx, need)
		if err != nil {
			return err
		}
		return fault.New(fault.ErrBudget, "layer %d of a node with %d neighbours takes %s, but --memory %s leaves %s for it (the least that would do: --memory %dMiB)",
			worst, neighbours, budget.FormatBytes(need), budget.FormatBytes(j.options.Memory), budget.FormatBytes(max(room, 0)), least>>20)
	}
	return nil
}

// take takes the permanent buffers.
func (j *job) take(ctx context.Context) (err error) {
	outside := int64(0)
	for l := range j.layers {
		outside = max(outside, matrixBytes(j.layers[l].most.src, j.layers[l].in))
	}
	outside += pieces.Memory(dataset.Granule, j.features.Compressed())
	j.undo = budget.LimitHeap(j.options.Memory, outside)
	if len(j.layers) > 1 {
		dir, err := scratchDir(j.options.Run, j.options.Scratch)
		if err != nil {
			return err
		}
		if j.scratch, err = openScratch(j.fs, dir, j.states); err != nil {
			return err
		}
	}
	if j.wires, err = pieces.NewBuffers(dataset.Granule, j.features.Compressed()); err != nil || !j.model.CountsBlocks() {
		return err
	}
	j.out = takeOut(device.NewArena(), j.data.Facts().Nodes)
	return j.ofDataset(j.topology.Guard(func() error { return countOut(ctx, &j.topology.CSC, j.out) }))
}
