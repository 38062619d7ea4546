package beacon

import (
	"cmp"
	"slices"

	"diskgnn/simulate/directgraph"
)

// Trace is the reads of a mini-batch: a forest of nodes in the order of their hops, and the commands
// that read their pages. Nodes of a hop are contiguous; so are a node's commands, with its primary
// page first where it is read, and a command's children.
type Trace struct {
	Feature  int     // bytes of a feature vector
	Width    int     // numbers in it
	Hops     []int64 // nodes of each hop, from the targets
	Commands []Command
	first    []int32 // command of each node, and the end
	children []int32 // nodes
}

// Command reads one page of a node.
type Command struct {
	Page  int64 // which says the die
	Node  int32
	Child int32 // of Trace.children: the first; the end is the next command's
	Hop   uint8
	First bool // of the node's commands: it carries the vector
	Draws bool // neighbours of the node are drawn, of any of its pages
}

// Nodes returns the number of nodes.
func (t *Trace) Nodes() int { return len(t.first) - 1 }

// childrenOf returns the nodes that a command leads to.
func (t *Trace) childrenOf(c int32) []int32 {
	end := len(t.children)
	if int(c)+1 < len(t.Commands) {
		end = int(t.Commands[c+1].Child)
	}
	return t.children[t.Commands[c].Child:end]
}

// commandsOf returns the first and the end of a node's commands.
func (t *Trace) commandsOf(node int32) (first, end int32) { return t.first[node], t.first[node+1] }

// draw is a neighbour that was drawn of a node: the slot of its adjacency list, and the node
// of the trace.
type draw struct {
	slot  int64
	child int32
}

// builder makes a trace, node by node in the order of their hops.
type builder struct {
	shape   directgraph.Shape
	primary bool // is always read
	t       Trace
}

// newBuilder returns the builder of a trace that draws in the given number of hops, with vectors of
// width numbers. With primary it always reads primary pages, else only the ones with a drawn slot.
func newBuilder(s directgraph.Shape, width int, primary bool, draws int) *builder {
	return &builder{shape: s, primary: primary, t: Trace{Feature: s.Feature, Width: width, Hops: make([]int64, draws+1)}}
}

// read adds the next node, of a hop and a degree, and the commands that read the pages of its draws.
// page returns the place of each of its pages. It sorts drawn by slot.
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
