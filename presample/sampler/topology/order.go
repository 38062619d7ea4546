package topology

import (
	"cmp"
	"context"
	"slices"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/progress"
)

// Order says whose in-neighbours are wanted most in memory.
type Order struct {
	// List returns nodes, the most wanted first, not necessarily all, and the bytes that it
	// read. The list is the caller's.
	List func(ctx context.Context, d *dataset.Dataset, o *graph.Offsets, rep progress.Reporter) (nodes []uint32, read int64, err error)
	// Work returns the memory that List holds in a graph of so many nodes, with its result.
	Work func(nodes int64) int64
}

// Nodes is an order that is known already: the list must stay as it is until Fill returns.
func Nodes(list []uint32) Order {
	return Order{
		List: func(context.Context, *dataset.Dataset, *graph.Offsets, progress.Reporter) ([]uint32, int64, error) {
			return list, 0, nil
		},
		Work: func(int64) int64 { return 0 },
	}
}

// Degree is the order of descending in-degree, ties to the lowest id.
var Degree = Order{
	List: func(_ context.Context, _ *dataset.Dataset, o *graph.Offsets, _ progress.Reporter) ([]uint32, int64, error) {
		return sorted(o.NumNodes(), func(a, b uint32) int { return cmp.Compare(o.Degree(b), o.Degree(a)) }), 0, nil
	},
	Work: func(nodes int64) int64 { return 4 * nodes },
}

// Ginex is the order of Ginex' neighbour cache (Park, Min, Lee: Ginex, VLDB 2022), by
// descending (out-degree + 10⁻⁸) / (in-degree + 10⁻⁸), ties to the lowest id: how often a node
// is drawn, about, over what its in-neighbours take. It counts out-degrees in a pass over the
// indices.
var Ginex = Order{
	List: func(ctx context.Context, d *dataset.Dataset, o *graph.Offsets, rep progress.Reporter) ([]uint32, int64, error) {
		out, err := d.OutDegrees(ctx, rep)
		if err != nil {
			return nil, 0, err
		}
		const little = 1e-8
		score := func(v uint32) float64 {
			return (float64(out[v]) + little) / (float64(o.Degree(v)) + little)
		}
		return sorted(o.NumNodes(), func(a, b uint32) int { return cmp.Compare(score(b), score(a)) }), d.IndicesBytes(), nil
	},
	Work: func(nodes int64) int64 { return 8*nodes + 2*dataset.Granule },
}

// sorted returns all nodes in an order, ties to the lowest id.
func sorted(nodes int, by func(a, b uint32) int) []uint32 {
	list := make([]uint32, nodes)
	for v := range list {
		list[v] = uint32(v)
	}
	slices.SortFunc(list, func(a, b uint32) int { return cmp.Or(by(a, b), cmp.Compare(a, b)) })
	return list
}
