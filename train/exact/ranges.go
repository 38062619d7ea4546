package exact

import (
	"context"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/idset"
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

// measure returns the number of in-edges of all targets, and the largest number of one target. It
// touches the graph: call it under Guard.
func (t *targets) measure(g *graph.CSC) (edges int64, most int, err error) {
	for i := range t.len() {
		row, err := g.Row(t.at(i))
		if err != nil {
			return 0, 0, err
		}
		edges += int64(len(row))
		most = max(most, len(row))
	}
	return edges, most, nil
}

// capacity bounds the counts of a range of targets: its buffers are made for them once.
type capacity struct{ src, dst, edges int }

func (c capacity) sizes() graph.Sizes {
	return graph.Sizes{Src: []int{c.src}, Dst: []int{c.dst}, Edges: []int{c.edges}}
}

// fit returns the capacity of the ranges into which targets are cut, so that at most room bytes are
// held; bytes grows with each field of its argument. least is the capacity for the target with the
// most neighbours, and fits.
//
// The number of sources of a range depends on the graph. Sources get half of the memory, and
// targets with their edges the rest: so ranges are at least half as long as with the best division.
func fit(all, least capacity, bytes func(capacity) int64, room int64) capacity {
	if bytes(all) <= room {
		return all
	}
	edges := func(dst int) int {
		share := float64(dst) / float64(max(all.dst, 1))
		return min(all.edges, dst*least.edges, max(least.edges, int(1.25*share*float64(all.edges))))
	}
	c := least
	half := max(room/2, bytes(least))
	c.src = largest(least.src, all.src, func(n int) bool { return bytes(capacity{n, least.dst, least.edges}) <= half })
	c.dst = largest(least.dst, all.dst, func(n int) bool { return bytes(capacity{c.src, n, edges(n)}) <= room })
	c.edges = edges(c.dst)
	c.src = largest(c.src, all.src, func(n int) bool { return bytes(capacity{n, c.dst, c.edges}) <= room })
	return c
}

// largest returns the largest n from lo to hi for which ok holds. ok(lo) must hold.
func largest(lo, hi int, ok func(n int) bool) int {
	return lo + sort.Search(hi-lo, func(i int) bool { return !ok(lo + i + 1) })
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

// maxInBlock bounds the sources and edges of a block, which counts them in 32 bits.
const maxInBlock = math.MaxUint32

// cutter cuts targets into ranges and makes the block of each. It holds the buffers
// of one block.
type cutter struct {
	graph   *graph.CSC
	targets targets
	most    capacity
	sources *idset.Set // empty between calls
	out     []uint32
	batch   graph.Batch
	outs    []uint32 // out of the block's sources
}

// cutterBytes returns the bytes of a cutter's block, with the out-degrees of its sources if the
// model counts them.
func cutterBytes(most capacity, counts bool) int64 {
	dry := new(device.Arena)
	(&cutter{most: most}).takeBlock(dry, counts)
	return dry.Used()
}

// newCutter returns a cutter of targets into ranges of at most most. out has the edges
// that begin at each node of the graph, nil where the model does not count them.
func newCutter(g *graph.CSC, t targets, most capacity, sources *idset.Set, out []uint32) *cutter {
	c := &cutter{graph: g, targets: t, most: most, sources: sources, out: out}
	c.takeBlock(device.NewArena(), out != nil)
	return c
}

// takeBlock takes the memory of a block of the capacity.
func (c *cutter) takeBlock(a *device.Arena, counts bool) {
	words := func(n int) []uint32 { return device.Take[uint32](a, n) }
	if counts {
		c.outs = words(c.most.src)
	}
	c.batch = graph.Batch{
		Blocks: []graph.Block{{Indptr: words(c.most.dst + 1), Indices: words(c.most.edges), Dst: words(c.most.dst)}},
		Input:  words(c.most.src), Degree: words(c.most.src), Labels: device.Take[int32](a, c.most.dst),
	}
	for i := range c.batch.Labels {
		c.batch.Labels[i] = graph.Unlabelled
	}
}

// checkEvery is the number of targets between two checks of the context.
const checkEvery = 1 << 12

// next makes the block of the targets from lo on that fit the capacity, and returns the start of
// the next range. Its sources are the targets and all of their in-neighbours, ascending; the block
// is valid until the next call. It touches the graph: call it under Guard.
func (c *cutter) next(ctx context.Context, lo int) (*graph.Batch, int, error) {
	hi, err := c.collect(ctx, lo)
	if err != nil {
		return nil, 0, err
	}
	b, k := &c.batch, &c.batch.Blocks[0]
	b.Input = c.sources.Sorted(b.Input[:0])
	b.Degree = b.Degree[:0]
	for _, id := range b.Input {
		row, err := c.graph.Row(id)
		if err != nil {
			return nil, 0, err
		}
		b.Degree = append(b.Degree, uint32(min(len(row), math.MaxUint32)))
	}
	c.outs = c.outs[:0]
	if c.out != nil {
		for _, id := range b.Input {
			c.outs = append(c.outs, c.out[id])
		}
	}
	k.Indptr, k.Indices, k.Dst = append(k.Indptr[:0], 0), k.Indices[:0], k.Dst[:0]
	for i := lo; i < hi; i++ {
		if err := ctx.Err(); i%checkEvery == 0 && err != nil {
			return nil, 0, err
		}
		v := c.targets.at(i)
		k.Dst = append(k.Dst, c.sources.Place(v))
		from, err := c.graph.Row(v)
		if err != nil {
			return nil, 0, err
		}
		for _, u := range from {
			k.Indices = append(k.Indices, c.sources.Place(u))
		}
		k.Indptr = append(k.Indptr, uint32(len(k.Indices)))
	}
	c.sources.RemoveAll(b.Input)
	k.NumSrc, k.NumDst = len(b.Input), hi-lo
	b.Labels = b.Labels[:hi-lo]
	return b, hi, nil
}

// collect adds the sources of the targets from lo on to the set and the block, until a target
// would exceed the capacity.
func (c *cutter) collect(ctx context.Context, lo int) (hi int, err error) {
	found := c.batch.Input[:0]
	hi, err = c.walk(ctx, lo, func(v uint32, from []uint32) (fits bool) {
		found, fits = c.reach(v, from, c.most.src, found)
		return fits
	})
	if err != nil {
		c.sources.RemoveAll(found)
	}
	return hi, err
}

// walk passes the targets from lo on with their in-neighbours to reach, as long as their number and
// edges fit the capacity and reach reports that their sources do. It returns the start of the next
// range, which is beyond lo: the capacity fits every target.
func (c *cutter) walk(ctx context.Context, lo int, reach func(v uint32, from []uint32) (fits bool)) (hi int, err error) {
	end, edges := min(lo+c.most.dst, c.targets.len()), 0
	for hi = lo; hi < end; hi++ {
		if err := ctx.Err(); hi%checkEvery == 0 && err != nil {
			return hi, err
		}
		v := c.targets.at(hi)
		from, err := c.graph.Sources(v)
		if err != nil {
			return hi, err
		}
		if edges += len(from); edges > c.most.edges || !reach(v, from) {
			break
		}
	}
	if hi == lo && lo < end {
		return hi, fault.New(fault.ErrCorrupt, "node %d has more in-neighbours than when they were counted", c.targets.at(lo))
	}
	return hi, nil
}

// reach adds a node and its in-neighbours to the set, and appends the new ones to found, which may
// have most. If they would exceed most, it adds none.
func (c *cutter) reach(v uint32, from []uint32, most int, found []uint32) (_ []uint32, fits bool) {
	before := len(found)
	found, fits = c.include(found, most, v)
	for _, u := range from {
		if !fits {
			break
		}
		found, fits = c.include(found, most, u)
	}
	if !fits {
		c.sources.RemoveAll(found[before:])
		found = found[:before]
	}
	return found, fits
}

// include adds a source, unless found has most already.
func (c *cutter) include(found []uint32, most int, id uint32) (_ []uint32, fits bool) {
	if !c.sources.Add(id) {
		return found, true
	}
	if len(found) == most {
		c.sources.Remove(id)
		return found, false
	}
	return append(found, id), true
}

// matrixBytes returns the memory of the rows of a block's sources.
func matrixBytes(src, width int) int64 { return binio.AlignUp(4*int64(src)*int64(width), binio.Page) }
