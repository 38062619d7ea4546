package exact

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/train/exact/grid"
)

// targets are the nodes that a layer is computed for, ascending.
type targets struct {
	nodes int64    // of the graph
	ids   []uint32 // nil: all of them
	// own has the original ids of the nodes; nil: the nodes' numbers.
	own   *dataset.IDs
	named bool // they are names
}

// number returns the i-th target's id, for numeric ids. Calls go through targets in ascending
// order, as for appendID.
func (t *targets) number(i int) (int64, error) {
	if t.own == nil {
		return int64(t.at(i)), nil
	}
	err := t.own.To(int64(t.at(i)))
	return t.own.Number(), err
}

// appendID appends the i-th target's id as a field of a line: in quotes if it would be misread
// otherwise.
func (t *targets) appendID(b []byte, i int) ([]byte, error) {
	if t.own == nil {
		return strconv.AppendUint(b, uint64(t.at(i)), 10), nil
	}
	if err := t.own.To(int64(t.at(i))); err != nil {
		return b, err
	}
	begin := len(b)
	b = t.own.Append(b)
	if t.named {
		return quoted(b[:begin], string(b[begin:])), nil
	}
	return b, nil
}

// quoted appends a name to a line of CSV, in quotes if it could be read as something else.
func quoted(b []byte, name string) []byte {
	if !strings.ContainsAny(name, ",\"") && name == strings.TrimSpace(name) && name[0] != '#' && name != "node" {
		return append(b, name...)
	}
	b = append(b, '"')
	b = append(b, strings.ReplaceAll(name, `"`, `""`)...)
	return append(b, '"')
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
	return uint32(i)
}

// checkEvery is the number of targets between two checks of the context.
const checkEvery = 1 << 12

// lists are the counts of targets' lists of sources.
type lists struct {
	edges, long, most int64   // in all; lists longer than grid.Fold; of one target
	groups            []int64 // of each grid.GPUGroup targets
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
