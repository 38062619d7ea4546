package exact

import (
	"context"
	"math"
	"slices"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/shard"
	"diskgnn/train/exact/grid"
)

// targets are the nodes that a layer is computed for, ascending.
type targets struct {
	ids   []uint32 // nil: a range of nodes
	first uint32   // of the range, from which rows count nodes
	nodes int64    // in the range
	// calls says how rows of the nodes are called, and own has the original ids, if these are meant.
	calls idsKind
	own   *dataset.IDs
}

func (t *targets) kind() idsKind { return t.calls }

func (t *targets) number(i int) (int64, error) {
	if t.own == nil {
		return int64(t.at(i) - t.first), nil
	}
	err := t.own.To(int64(t.at(i)))
	return t.own.Number(), err
}

func (t *targets) name(b []byte, i int) ([]byte, error) {
	if err := t.own.To(int64(t.at(i))); err != nil {
		return b, err
	}
	return t.own.Append(b), nil
}

// cut leaves the share s of the targets: whole groups, so that rows are multiplied in the same groups as without
// shares.
func (t *targets) cut(s shard.Shard, group int) {
	if s.Whole() {
		return
	}
	n := t.len()
	lo, hi := s.Of((n + group - 1) / group)
	lo, hi = min(lo*group, n), min(hi*group, n)
	ids := make([]uint32, hi-lo)
	for i := range ids {
		ids[i] = t.at(lo + i)
	}
	t.ids = ids
}

func (t *targets) len() int {
	if t.ids != nil {
		return len(t.ids)
	}
	return int(t.nodes)
}

func (t *targets) at(i int) uint32 {
	if t.ids != nil {
		return t.ids[i]
	}
	return t.first + uint32(i)
}

// checkEvery is the number of targets between two checks of the context.
const checkEvery = 1 << 12

// lists are the counts of targets' lists of sources.
type lists struct {
	count             int64   // of the lists, in a typed graph
	edges, long, most int64   // in all; lists longer than grid.Fold; of one list
	groups            []int64 // of each grid.GPUGroup targets
}

// check refuses a list of the dataset that is too long to be counted in 32 bits.
func (n *lists) check(data string) error {
	if n.most < math.MaxUint32 {
		return nil
	}
	return fault.New(fault.ErrInput, "%s: a node has %d neighbours; this program computes only nodes with fewer than %d", data, n.most, int64(math.MaxUint32))
}

// measure counts the in-edges of all targets. It touches the graph: call it under Guard.
func (t *targets) measure(ctx context.Context, g *graph.CSC) (n lists, err error) {
	for i := range t.len() {
		if err := ctx.Err(); i%checkEvery == 0 && err != nil {
			return n, err
		}
		row, err := g.Row(t.at(i))
		if err != nil {
			return n, err
		}
		if i%grid.GPUGroup == 0 {
			n.groups = append(n.groups, 0)
		}
		n.groups[len(n.groups)-1] += int64(len(row))
		n.edges += int64(len(row))
		n.most = max(n.most, int64(len(row)))
		if len(row) > grid.Fold {
			n.long++
		}
	}
	return n, nil
}

// takeOut takes a number for every node.
func takeOut(a *device.Arena, nodes int64) []uint32 { return device.Take[uint32](a, int(nodes)) }

// countOut adds to out, initially zero, the number of edges that begin at each node. It touches the
// graph: call it under Guard.
func countOut(ctx context.Context, g *graph.CSC, out []uint32) error {
	const run = 1 << 20 // edges between two looks at the context
	for indices := range slices.Chunk(g.Indices, run) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, u := range indices {
			if int(u) >= len(out) {
				return fault.New(fault.ErrCorrupt, "an edge begins at node %d, but the graph has %d nodes", u, len(out))
			}
			if out[u] < math.MaxUint32 {
				out[u]++
			}
		}
	}
	return nil
}
