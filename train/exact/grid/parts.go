package grid

import (
	"context"
	"math"
	"slices"

	"diskgnn/graph"
	"diskgnn/train/prepare"
)

// Part is the destinations of one node type in a layer over a typed graph: targets that follow each other.
type Part struct {
	Lo, Hi int    // the targets
	Node   uint32 // target Lo; where targets are listed, the first node of the type
	// Begin is the first row of the topology of Node. Each node of the type has Rows of them.
	Begin int64
	Rows  int
	// Own is the row of Node in the table, which the rows of the type's other nodes follow. It is negative if
	// the type has no rows there: they would be zeros.
	Own int64
	// Links are the lists of each target, in the order of the relations; Lists names them for a Pull.
	Links []Link
	Lists *prepare.Lists
}

// Link is a list of sources of each destination of a part: their in-neighbours by one relation.
type Link struct {
	At       int // which of a node's rows of the topology it is
	Relation int
	Shift    int64 // the row of a source in the table is its id less this
	Lo, Hi   int64 // rows of the table from Lo to Hi may be sources
}

// in returns the row of source u in the table.
func (l *Link) in(u uint32) uint32 { return uint32(int64(u) - l.Shift) }

// untyped returns the parts of a graph without types.
func untyped(targets int) []Part {
	return []Part{{Hi: targets, Rows: 1, Links: []Link{{Hi: math.MaxInt64}}}}
}

// offset returns the number of nodes of the type between Node and target i.
func (p *Part) offset(ids []uint32, i int) int64 {
	if ids != nil {
		return int64(ids[i]) - int64(p.Node)
	}
	return int64(i - p.Lo)
}

// node returns target i.
func (p *Part) node(ids []uint32, i int) uint32 { return uint32(int64(p.Node) + p.offset(ids, i)) }

// first returns the first row of the topology of target i, and row the row with its list k.
func (p *Part) first(ids []uint32, i int) uint32 {
	return uint32(p.Begin + p.offset(ids, i)*int64(p.Rows))
}

func (p *Part) row(ids []uint32, i, k int) uint32 { return p.first(ids, i) + uint32(p.Links[k].At) }

// split calls do for the part of the targets from lo to hi of each of the parts that has any.
func split(parts []Part, lo, hi int, do func(part, lo, hi int) error) error {
	for i := range parts {
		from, to := max(lo, parts[i].Lo), min(hi, parts[i].Hi)
		if from >= to {
			continue
		}
		if err := do(i, from, to); err != nil {
			return err
		}
	}
	return nil
}

// count returns the number of lists of the targets from lo to hi.
func (p *Part) count(lo, hi int) int {
	return max(0, min(hi, p.Hi)-max(lo, p.Lo)) * len(p.Links)
}

// beginLists stores, for each part, the first of its lists among the lists of the targets from lo to hi, and at the end
// the number of all.
func beginLists(begins []int, parts []Part, lo, hi int) {
	n := 0
	for i := range parts {
		begins[i] = n
		n += parts[i].count(lo, hi)
	}
	begins[len(parts)] = n
}

// mostLists returns the most lists that a tile of targets has, wherever it begins. Without parts each target has one.
func mostLists(parts []Part, tile int) (most int) {
	if parts == nil {
		return tile
	}
	if len(parts) == 0 {
		return 0
	}
	// The number of lists is linear in the tile's place while neither end of it passes the end of a part.
	last := max(0, parts[len(parts)-1].Hi-tile)
	for i := range parts {
		for _, lo := range []int{parts[i].Lo, parts[i].Hi - tile} {
			lo, n := min(max(lo, 0), last), 0
			for k := range parts {
				n += parts[k].count(lo, lo+tile)
			}
			most = max(most, n)
		}
	}
	return most
}

// AllLists returns the number of the targets' lists.
func (s *Sizes) AllLists() int64 { return int64(mostLists(s.Parts, int(s.Targets))) }

// List is a list of sources of a target.
type List struct {
	Target  int
	Node    uint32
	Part    *Part
	Link    *Link
	Sources []uint32
}

// eachListChecks is the number of targets between two looks at the context.
const eachListChecks = 1 << 12

// EachList calls see for the lists of the targets from lo to hi, in their order. It touches the graph: call it under
// the graph's guard.
func EachList(ctx context.Context, parts []Part, ids []uint32, g *graph.CSC, lo, hi int, see func(l List) error) error {
	return split(parts, lo, hi, func(part, lo, hi int) error {
		p := &parts[part]
		for i := lo; i < hi; i++ {
			if err := ctx.Err(); i%eachListChecks == 0 && err != nil {
				return err
			}
			for k := range p.Links {
				sources, err := g.Row(p.row(ids, i, k))
				if err != nil {
					return err
				}
				if err := see(List{i, p.node(ids, i), p, &p.Links[k], sources}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// MarkOwn marks the pieces of the table with own rows of the targets.
func (s *Sizes) MarkOwn(marks []bool) {
	of := selection{hi: int(s.Targets), ids: s.IDs, parts: s.Parts}
	of.pieces(s.Table, func(i int) { marks[i] = true })
}

// partRun is selection.run in a typed graph.
func (s *selection) partRun(i, end int) (row int64, n int) {
	at, _ := slices.BinarySearchFunc(s.parts, i, func(p Part, i int) int {
		if p.Hi <= i {
			return -1
		}
		return 1
	})
	p := &s.parts[at]
	if n = min(end, p.Hi) - i; p.Own < 0 {
		return -1, n
	}
	if s.ids != nil {
		n = 1
	}
	return p.Own + p.offset(s.ids, i), n
}

// partAt returns the first place, from lo to hi, with the row or a later one, in a typed graph.
func (s *selection) partAt(row int64) int {
	for i := range s.parts {
		p := &s.parts[i]
		lo, hi := max(s.lo, p.Lo), min(s.hi, p.Hi)
		if lo >= hi || p.Own < 0 {
			continue
		}
		at := p.Lo + int(row-p.Own)
		if s.ids != nil {
			node := row - p.Own + int64(p.Node)
			at, _ = slices.BinarySearchFunc(s.ids[lo:hi], node, func(id uint32, node int64) int {
				if int64(id) < node {
					return -1
				}
				return 1
			})
			at += lo
		}
		if at < hi {
			return max(at, lo)
		}
	}
	return s.hi
}
