package topology

import (
	"cmp"
	"context"
	"math"
	"slices"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/progress"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

// Order is an order in which Fill takes nodes, to hold their in-neighbours in memory.
type Order struct {
	// List returns nodes, the most useful first; it may leave out nodes. read is the number of bytes
	// read. The caller owns the list.
	List func(ctx context.Context, d *dataset.Dataset, o *graph.Offsets, rep progress.Reporter) (nodes []uint32, read int64, err error)
}

// Values of --topology-order.
const (
	ByReach  = "reach"
	ByDegree = "degree"
	ByGinex  = "ginex"
)

// Orders returns the values that --topology-order accepts, the default first.
func Orders() []string { return []string{ByReach, ByDegree, ByGinex} }

// OrderOf returns the order with the given name, "" for the default. s and fanout are the seed nodes
// and the fanout of the batches.
func OrderOf(name string, s *sampler.Seeds, fanout []int) Order {
	switch name {
	case ByDegree:
		return Degree
	case ByGinex:
		return Ginex
	}
	return Reach(s.List(sampler.Train), s.Batches(sampler.Train), fanout)
}

// orderWork returns the memory of the list of an order, and of the counts it is made from.
func orderWork(name string, nodes int64) int64 {
	switch name {
	case ByDegree:
		return 4 * nodes
	case ByGinex:
		return 8*nodes + 2*dataset.Granule
	}
	return 12*nodes + 2*dataset.Granule
}

// Nodes returns an Order of the given list, which must not be changed until Fill returns.
func Nodes(list []uint32) Order {
	return Order{
		List: func(context.Context, *dataset.Dataset, *graph.Offsets, progress.Reporter) ([]uint32, int64, error) {
			return list, 0, nil
		},
	}
}

// Degree is the order of descending in-degree, ties to the lowest id.
var Degree = Order{
	List: func(_ context.Context, _ *dataset.Dataset, o *graph.Offsets, _ progress.Reporter) ([]uint32, int64, error) {
		return sorted(o.NumNodes(), func(a, b uint32) int { return cmp.Compare(o.Degree(b), o.Degree(a)) }), 0, nil
	},
}

// Ginex is the order of Ginex' neighbour cache (Park, Min, Lee: Ginex, VLDB 2022), by descending
// (out-degree + 10⁻⁸) / (in-degree + 10⁻⁸), ties to the lowest id: about how often a node is drawn over
// the memory of its in-neighbours. It counts out-degrees in a pass over the indices.
var Ginex = Order{
	List: func(ctx context.Context, d *dataset.Dataset, o *graph.Offsets, rep progress.Reporter) ([]uint32, int64, error) {
		out := make([]uint32, o.NumNodes())
		err := d.ScanIndices(ctx, rep, "count out-degrees", func(_ int64, sources []uint32) error {
			for _, u := range sources {
				if out[u] < math.MaxUint32 {
					out[u]++
				}
			}
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
		const little = 1e-8
		score := func(v uint32) float64 {
			return (float64(out[v]) + little) / (float64(o.Degree(v)) + little)
		}
		return sorted(o.NumNodes(), func(a, b uint32) int { return cmp.Compare(score(b), score(a)) }), d.IndicesBytes(), nil
	},
}

// Reach is the order of descending use over size, ties to the lowest id: the expected number of
// hops of an epoch that have the node as a destination, over its in-degree and one. Nodes
// without in-neighbours, of which nothing is read, come last.
//
// The batches of an epoch are taken to be seed nodes drawn at random. With p(v) the chance that
// a batch's frontier has node v before a hop of fanout f, and d(v) its in-degree, the frontier
// after it has u with the chance
//
//	1 − (1 − p(u)) · exp(−Σ over edges u → v of p(v) · min(1, f / d(v)))
//
// as if nodes were drawn independently. Each hop but the last takes a pass over the indices.
func Reach(seeds []uint32, batches int, fanout []int) Order {
	return Order{
		List: func(ctx context.Context, d *dataset.Dataset, o *graph.Offsets, rep progress.Reporter) ([]uint32, int64, error) {
			use, read, err := reach(ctx, d, o, seeds, batches, fanout, rep)
			if err != nil {
				return nil, 0, err
			}
			for v := range use {
				if n := o.Degree(uint32(v)); n == 0 {
					use[v] = -1
				} else {
					use[v] /= float32(n) + 1
				}
			}
			return sorted(o.NumNodes(), func(a, b uint32) int { return cmp.Compare(use[b], use[a]) }), read, nil
		},
	}
}

// reach returns the expected number of a batch's hops that have each node as a destination, and
// the bytes read.
func reach(ctx context.Context, d *dataset.Dataset, o *graph.Offsets, seeds []uint32, batches int, fanout []int, rep progress.Reporter) (use []float32, read int64, err error) {
	use, p := make([]float32, o.NumNodes()), make([]float32, o.NumNodes())
	for _, v := range seeds {
		p[v] = 1 / float32(batches)
	}
	copy(use, p)
	drawn := make([]float32, o.NumNodes())
	for hop := len(fanout) - 1; hop > 0; hop-- {
		f := float32(fanout[hop])
		if fanout[hop] == mbfile.AllNeighbours {
			f = math.MaxFloat32
		}
		clear(drawn)
		var v, end int64 // the node of the next edges, plus one, and the end of its edges
		var each float32 // chance of each of them
		err := d.ScanIndices(ctx, rep, "compute the reach of nodes", func(first int64, sources []uint32) error {
			for len(sources) > 0 {
				for end <= first {
					v++
					end = o.Start(v)
					each = p[v-1] * min(1, f/float32(max(o.Degree(uint32(v-1)), 1)))
				}
				n := min(int64(len(sources)), end-first)
				if each > 0 {
					for _, u := range sources[:n] {
						drawn[u] += each
					}
				}
				first, sources = first+n, sources[n:]
			}
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
		read += d.IndicesBytes()
		for v := range p {
			p[v] = 1 - (1-p[v])*float32(math.Exp(-float64(drawn[v])))
			use[v] += p[v]
		}
	}
	return use, read, nil
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
