package graph

import (
	"fmt"
	"slices"
)

// NumRows returns the number of rows of a decoded block: its destinations, or pairs of them with a relation.
func (b *Block) NumRows() int { return len(b.Indptr) - 1 }

// DstEnds returns, in a typed graph, the destination after the last of each type in block l.
func (b *Batch) DstEnds(l int) []uint32 {
	if l+1 < len(b.Blocks) {
		return b.Blocks[l+1].Ends
	}
	ends := make([]uint32, len(b.Types.Nodes))
	for t := b.SeedType; t < len(ends); t++ {
		ends[t] = uint32(b.NumSeeds())
	}
	return ends
}

// CountRows returns the number of rows of destinations that end so.
func (t *Types) CountRows(ends []uint32) int {
	rows, from := 0, uint32(0)
	for kind, to := range ends {
		_, n := t.Into(kind)
		rows += int(to-from) * n
		from = to
	}
	return rows
}

// RowRelations fills to with the relation of every row of destinations that end so, and returns it.
func (t *Types) RowRelations(to []int, ends []uint32) []int {
	to = to[:0]
	from := uint32(0)
	for kind, end := range ends {
		first, n := t.Into(kind)
		for range end - from {
			for r := range n {
				to = append(to, first+r)
			}
		}
		from = end
	}
	return to
}

// PlaceDestinations fills dst with the positions of a block's destinations among its sources, and returns it:
// the destinations of a type are the first of its sources. Among the input nodes of a batch, a type without
// features has one source at most, the row that its nodes share.
func (t *Types) PlaceDestinations(dst, dstEnds, srcEnds []uint32, inputs bool) []uint32 {
	dst = dst[:0]
	var from, begin uint32
	for kind, to := range dstEnds {
		step := uint32(1)
		if inputs && kind >= t.plain {
			step = 0
		}
		for i := range to - from {
			dst = append(dst, begin+i*step)
		}
		from, begin = to, srcEnds[kind]
	}
	return dst
}

// validateTypes checks the types of the blocks. Their other arrays are valid.
func (b *Batch) validateTypes() error {
	if b.Types == nil {
		for l := range b.Blocks {
			if b.Blocks[l].Ends != nil || b.InputTypes != nil {
				return fmt.Errorf("layer %d: its sources have types, but the batch has none", l)
			}
		}
		return nil
	}
	kinds := len(b.Types.Nodes)
	if b.SeedType < 0 || b.SeedType >= kinds {
		return fmt.Errorf("batch: its seed nodes have type %d of %d", b.SeedType, kinds)
	}
	if len(b.Degree) > 0 {
		return fmt.Errorf("batch: it has types, and also %d degrees", len(b.Degree))
	}
	for l := range b.Blocks {
		if err := b.validateEnds(l); err != nil {
			return err
		}
	}
	for l := range b.Blocks {
		if err := b.validateRows(l); err != nil {
			return err
		}
	}
	return nil
}

// validateEnds checks that the ends of types divide the sources of block l.
func (b *Batch) validateEnds(l int) error {
	k, kinds := &b.Blocks[l], len(b.Types.Nodes)
	if l == 0 && k.Ends == nil {
		if len(b.InputTypes) != len(b.Input) {
			return fmt.Errorf("batch: %d types of %d input nodes", len(b.InputTypes), len(b.Input))
		}
		if i, ok := below(b.InputTypes, kinds); !ok {
			return fmt.Errorf("batch: input node %d has type %d of %d", i, b.InputTypes[i], kinds)
		}
		return nil
	}
	if len(k.Ends) != kinds || int(k.Ends[kinds-1]) != k.NumSrc {
		return fmt.Errorf("layer %d: the ends of types %v do not divide %d sources among %d types", l, k.Ends, k.NumSrc, kinds)
	}
	if !slices.IsSorted(k.Ends) {
		return fmt.Errorf("layer %d: the ends of types %v descend", l, k.Ends)
	}
	return nil
}

// validateRows checks that block l has the rows and the positions of its destinations, and that each type has its
// destinations among its sources. The ends of all blocks are valid.
func (b *Batch) validateRows(l int) error {
	k, dst := &b.Blocks[l], b.DstEnds(l)
	if want := b.Types.CountRows(dst); k.NumRows() != want {
		return fmt.Errorf("layer %d: %d rows instead of %d", l, k.NumRows(), want)
	}
	if len(k.Dst) != k.NumDst {
		return fmt.Errorf("layer %d: %d destination positions for %d destinations", l, len(k.Dst), k.NumDst)
	}
	var from, begin uint32
	for kind, end := range k.Ends {
		destinations, sources := dst[kind]-from, end-begin
		if l == 0 && kind >= b.Types.plain {
			destinations = min(destinations, 1)
		}
		if destinations > sources {
			return fmt.Errorf("layer %d: type %s has %d destinations, but %d sources", l, b.Types.Nodes[kind].Name, destinations, sources)
		}
		from, begin = dst[kind], end
	}
	return nil
}

// CheckTypes checks a valid typed batch as it was read: destinations lie at sources of their types, rows have sources of
// the types that their relations lead from, and, in the form of samples, input nodes are rows of features of their types.
// Engines rely on the sources' types. Validate, which a batch passes more often, leaves this out: it takes several times
// as long.
func (b *Batch) CheckTypes() error {
	if b.Types == nil {
		return nil
	}
	for l := range b.Blocks {
		if err := b.checkSources(l); err != nil {
			return err
		}
	}
	return b.checkInput()
}

// checkSources checks the types of block l's sources.
func (b *Batch) checkSources(l int) error {
	k, row, from := &b.Blocks[l], 0, uint32(0)
	for kind, end := range b.DstEnds(l) {
		if !b.haveType(l, kind, k.Dst[from:end]) {
			return fmt.Errorf("layer %d: a destination of type %s is at a source of another type", l, b.Types.Nodes[kind].Name)
		}
		first, n := b.Types.Into(kind)
		for range end - from {
			for r := first; r < first+n; r++ {
				if !b.haveType(l, b.Types.Relations[r].Source, k.Indices[k.Indptr[row]:k.Indptr[row+1]]) {
					return fmt.Errorf("layer %d: row %d has a source that the relation %s does not lead from", l, row, b.Types.Triple(r))
				}
				row++
			}
		}
		from = end
	}
	return nil
}

// haveType reports whether sources of block l, at these positions, all have a type.
func (b *Batch) haveType(l, kind int, positions []uint32) bool {
	ends := b.Blocks[l].Ends
	if ends == nil {
		for _, p := range positions {
			if int(b.InputTypes[p]) != kind {
				return false
			}
		}
		return true
	}
	begin := uint32(0)
	if kind > 0 {
		begin = ends[kind-1]
	}
	for _, p := range positions {
		if p-begin >= ends[kind]-begin {
			return false
		}
	}
	return true
}

// checkInput checks the types of the input nodes, if the batch has the form of samples.
func (b *Batch) checkInput() error {
	begin := uint32(0)
	for kind, end := range b.Blocks[0].Ends {
		lo, hi := b.Types.featureRows(kind)
		for _, v := range b.Input[begin:end] {
			if v-lo >= hi-lo {
				return fmt.Errorf("batch: input node %d is not a row of features of type %s: these are %d to %d", v, b.Types.Nodes[kind].Name, lo, hi-1)
			}
		}
		begin = end
	}
	return nil
}
