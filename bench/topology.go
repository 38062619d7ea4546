package main

import (
	"cmp"
	"context"
	"flag"
	"path/filepath"
	"slices"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
)

// topologyCommand draws an epoch of each dataset with caches of 5, 10, 25 and 50 % of the topology,
// in each order, and prints the caches' hit rates and the bytes read for the misses:
//
//	go run ./bench topology DATASET…
func topologyCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	method := f.String("sampler", sampler.Uniform, "uniform or labor")
	fanout := f.String("fanout", "10,10", "neighbours to draw")
	batch := f.Int("batch-size", 512, "seed nodes of a batch")
	return func(ctx context.Context, args []string) (err error) {
		p := mbfile.Params{BatchSize: *batch, Epochs: 2, TrainRatio: 1, Order: sampler.Random}
		if p.Fanout, err = sampler.ParseFanout(*fanout); err != nil {
			return err
		}
		p.EvalFanout = p.Fanout
		if err := sampler.SetMethod(&p, *method, 1, false); err != nil {
			return err
		}
		for _, dir := range args {
			if err := h.orders(ctx, dir, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// counting counts how often each node is a destination.
type counting struct {
	topology.Reader
	counts []uint32
}

func (c *counting) Read(ctx context.Context, h *sampler.Hop) error {
	for i := range h.Len() {
		c.counts[h.Node(i)]++
	}
	return c.Reader.Read(ctx, h)
}

// namedOrder is an order in which neighbours are cached.
type namedOrder struct {
	name string
	topology.Order
}

// orders draws an epoch of a dataset with caches of several sizes and orders. The counts for the
// order "counts" come from another epoch.
func (h *harness) orders(ctx context.Context, dir string, p mbfile.Params) error {
	d, err := dataset.Open(vfs.OS, dir)
	if err != nil {
		return err
	}
	seeds, err := sampler.Load(ctx, d, p, progress.Discard)
	if err != nil {
		return err
	}
	top, err := topology.Open(ctx, d, topology.Options{Level: topology.Cached}, progress.Discard)
	if err != nil {
		return err
	}
	defer top.Close()
	from, err := top.NewReader()
	if err != nil {
		return err
	}
	defer from.Free()
	count := &counting{from, make([]uint32, d.Facts().Nodes)}
	batches := seeds.Batches(sampler.Train)
	draw := func(by *sampler.Sampler, epoch int) error {
		for i := range batches {
			if _, err := by.Draw(ctx, seeds, sampler.ID{Epoch: epoch, Index: i}); err != nil {
				return err
			}
		}
		return nil
	}
	if _, _, err := top.Fill(ctx, topology.Degree, 1<<60, progress.Discard); err != nil {
		return err
	}
	if err := draw(sampler.NewFrom(count, p.Fanout, sampler.Options{}), 1); err != nil {
		return err
	}
	offsets, err := d.Offsets(ctx, progress.Discard)
	if err != nil {
		return err
	}
	by := sampler.NewFrom(from, p.Fanout, sampler.Options{})
	for _, share := range []float64{5, 10, 25, 50} {
		for _, o := range append(counted(offsets, count.counts), namedOrder{"reach", topology.OrderOf("", seeds, p.Fanout)}) {
			c := topology.Choice{Level: topology.Cached, Memory: &budget.Size{Value: share, Unit: budget.UnitPercent}}
			if _, _, err := top.Fill(ctx, o.Order, c.Bytes(d, 0), progress.Discard); err != nil {
				return err
			}
			before := from.Reads()
			if err := draw(by, 0); err != nil {
				return err
			}
			r, n := from.Reads().Sub(before), int64(batches)
			if err := h.report(row{{"graph", filepath.Base(dir)}, {"sampler", cmp.Or(p.Method, sampler.Uniform)}, {"share", share / 100}, {"order", o.name},
				{"hits", float64(r.Held) / float64(max(r.Held+r.Missed, 1))}, {"bytes_per_batch", r.Bytes / n}, {"requests_per_batch", r.Requests / n}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// counted returns the orders other than the default; counts has the number of times that each node
// was a destination.
func counted(offsets *graph.Offsets, counts []uint32) []namedOrder {
	by := func(score func(v uint32) float64) topology.Order {
		list := make([]uint32, offsets.NumNodes())
		for v := range list {
			list[v] = uint32(v)
		}
		slices.SortStableFunc(list, func(a, b uint32) int { return cmp.Compare(score(b), score(a)) }) // ties to the lowest id
		return topology.Nodes(list)
	}
	return []namedOrder{
		{"degree", topology.Degree}, {"ginex", topology.Ginex},
		{"least degree", by(func(v uint32) float64 { return -float64(offsets.Degree(v)) })},
		{"counts", by(func(v uint32) float64 { return float64(counts[v]) })},
		{"counts per byte", by(func(v uint32) float64 { return float64(counts[v]) / float64(offsets.Degree(v)+1) })},
	}
}
