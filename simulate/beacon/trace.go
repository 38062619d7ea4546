package beacon

import (
	"cmp"
	"slices"

	"diskgnn/simulate/directgraph"
)

// Trace has the reads of a mini-batch: a forest of nodes in the order of their hops, and the commands that
// read their pages. The nodes of a hop are contiguous; so are a command's children, and a node's commands.
// If a node's primary page is read, its command is the first.
type Trace struct {
	Feature  int     // bytes of a feature vector
	Width    int     // numbers in a feature vector
	Hops     []int64 // number of nodes of each hop, from the targets
	Commands []Command
	first    []int32 // by node: its first command; then the end
	children []int32 // nodes
}

// Command is the read of one page of a node.
type Command struct {
	Page  int64 // determines the die
	Node  int32
	Child int32 // place of the first child in Trace.children; the next command's Child is the end
	Hop   uint8
	First bool // the first of the node's commands, which returns the vector
	Draws bool // neighbours of the node are drawn, from any of its pages
}

// Nodes returns the number of nodes of all hops.
func (t *Trace) Nodes() int { return len(t.first) - 1 }

// childrenOf returns the children of a command, as nodes.
func (t *Trace) childrenOf(c int32) []int32 {
	end := len(t.children)
	if int(c)+1 < len(t.Commands) {
		end = int(t.Commands[c+1].Child)
	}
	return t.children[t.Commands[c].Child:end]
}

// commandsOf returns the first and the end of a node's commands.
func (t *Trace) commandsOf(node int32) (first, end int32) { return t.first[node], t.first[node+1] }

// draw is a drawn neighbour: its slot in the adjacency list, and its node in the trace.
type draw struct {
	slot  int64
	child int32
}

// builder makes a trace, node by node in the order of their hops.
type builder struct {
	shape   directgraph.Shape
	primary bool // primary pages are always read
	t       Trace
}

// newBuilder returns the builder of a trace that draws in the given number of hops, with vectors of width
// numbers. If primary is set, it always reads primary pages, otherwise only primary pages with a drawn
// slot.
func newBuilder(s directgraph.Shape, width int, primary bool, draws int) *builder {
	return &builder{shape: s, primary: primary, t: Trace{Feature: s.Feature, Width: width, Hops: make([]int64, draws+1)}}
}

// read adds the next node, with its hop and degree, and the commands that read the pages of its draws.
// page returns the page of each of its sections. read sorts drawn by slot.
func (b *builder) read(hop int, degree int64, drawn []draw, page func(int64) int64) {
	node := int32(len(b.t.first))
	b.t.first = append(b.t.first, int32(len(b.t.Commands)))
	b.t.Hops[hop]++
	slices.SortFunc(drawn, func(x, y draw) int { return cmp.Compare(x.slot, y.slot) })
	last := int64(-1)
	command := func(at int64) {
		b.t.Commands = append(b.t.Commands, Command{
			Page: page(at), Node: node, Child: int32(len(b.t.children)), Hop: uint8(hop), First: last < 0, Draws: len(drawn) > 0,
		})
		last = at
	}
	if b.primary || len(drawn) == 0 {
		command(0)
	}
	for _, d := range drawn {
		if at := b.shape.Section(d.slot, degree); at != last {
			command(at)
		}
		b.t.children = append(b.t.children, d.child)
	}
}

func (b *builder) trace() *Trace {
	b.t.first = append(b.t.first, int32(len(b.t.Commands)))
	return &b.t
}
