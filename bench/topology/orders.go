package main

import (
	"cmp"
	"context"
	"slices"

	"diskgnn/bench/internal/tool"
	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
)

// found is what an order is worth in a cache of a share of the topology.
type found struct {
	Graph    string  `json:"graph"`
	Sampler  string  `json:"sampler"`
	Share    float64 `json:"share"` // of the topology, that the cache may take
	Order    string  `json:"order"`
	Hits     float64 `json:"hits"`               // share of the destinations
	Bytes    int64   `json:"bytes_per_batch"`    // read
	Requests int64   `json:"requests_per_batch"` // by which
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

// compareOrders draws an epoch of a dataset with caches of several sizes and orders. What is
// counted for the order "counts" is another epoch.
func compareOrders(ctx context.Context, name, dir string, p mbfile.Params) error {
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
	draw := func(by *sampler.Sampler, epoch int) error {
		for i := range seeds.Batches(sampler.Train) {
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
	orders := []struct {
		name string
		topology.Order
	}{
		{"reach", topology.OrderOf("", seeds, p.Fanout)}, {"degree", topology.Degree}, {"ginex", topology.Ginex},
		{"least degree", topology.Nodes(sortedBy(offsets, func(v uint32) float64 { return -float64(offsets.Degree(v)) }))},
		{"counts", topology.Nodes(sortedBy(offsets, func(v uint32) float64 { return float64(count.counts[v]) }))},
		{"counts per byte", topology.Nodes(sortedBy(offsets, func(v uint32) float64 { return float64(count.counts[v]) / float64(offsets.Degree(v)+1) }))},
	}
	for _, share := range []float64{5, 10, 25, 50} {
		for _, o := range orders {
			c := topology.Choice{Level: topology.Cached, Memory: &budget.Size{Value: share, Unit: budget.UnitPercent}}
			if _, _, err := top.Fill(ctx, o.Order, c.Bytes(d, 0), progress.Discard); err != nil {
				return err
			}
			before := from.Reads()
			if err := draw(by, 0); err != nil {
				return err
			}
			r, n := from.Reads().Sub(before), int64(seeds.Batches(sampler.Train))
			if err := tool.Print(found{name, cmp.Or(p.Method, sampler.Uniform), share / 100, o.name,
				float64(r.Held) / float64(max(r.Held+r.Missed, 1)), r.Bytes / n, r.Requests / n}); err != nil {
				return err
			}
		}
	}
	return nil
}

// sortedBy returns all nodes by descending score, ties to the lowest id.
func sortedBy(o *graph.Offsets, score func(v uint32) float64) []uint32 {
	list := make([]uint32, o.NumNodes())
	for v := range list {
		list[v] = uint32(v)
	}
	slices.SortStableFunc(list, func(a, b uint32) int { return cmp.Compare(score(b), score(a)) })
	return list
}
