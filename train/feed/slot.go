package feed

import (
	"fmt"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/kernel"
	"diskgnn/train/engine"
)

// slot is the memory of a slot that the consumer maps. It implements engine.Work: Prepare writes a batch's arrays.
type slot struct {
	shared  *device.Shared
	matrix  []byte
	held    int64  // the consumer has the rows of the ranks below
	more    []byte // behind the matrix
	offset  int64  // of more
	at      places
	message Batch
	named   bool          // input is called before Prepare
	users   int           // consumers that have the batch
	used    chan struct{} // a token of each of them that has used it
}

// places are places in the memory behind the matrix, each on a line of the cache.
type places struct{ at int64 }

const line = 64

// take returns the place of the next n bytes.
func (p *places) take(n int) int64 {
	at := p.at
	p.at += binio.AlignUp(int64(n), line)
	return at
}

// Slot moves the matrix of a slot to memory that the consumer maps, and returns the work that writes the other arrays of
// the batches within the sizes. The consumer holds the rows of the ranks below held.
func (s *Server) Slot(of featurestore.Slot, held int64, sizes *graph.Sizes, targetBytes int) (engine.Work, error) {
	names, named := of.(featurestore.Named)
	shared, err := device.Share(of.Matrix(), int(Bytes(sizes, targetBytes, named)))
	if err != nil {
		return nil, err
	}
	sl := &slot{shared: shared, matrix: of.Matrix(), held: held, named: named, used: make(chan struct{}, len(s.consumers)), message: Batch{Slot: len(s.slots), Held: []Range{}, IDs: -1, Blocks: make([]Block, len(sizes.Src))}}
	if named {
		names.OnInput(sl.input)
	}
	sl.more, sl.offset = shared.More()
	s.slots = append(s.slots, sl)
	return sl, nil
}

func (s *slot) bytes() int64 { return s.offset + int64(len(s.more)) }

// numbers returns n int64 for the next array, and their place in the slot's memory.
func (s *slot) numbers(n int) (_ []int64, place int64) {
	at := s.at.take(8 * n)
	return binio.View[int64](s.more[at : at+int64(8*n)]), s.offset + at
}

// input begins a batch with the ids of its input nodes.
func (s *slot) input(nodes []uint32) {
	s.at = places{}
	s.message.IDs = s.widen(nodes)
}

// Prepare implements engine.Work.
func (s *slot) Prepare(b *graph.Batch) error {
	m := &s.message
	if len(b.Blocks) != len(m.Blocks) {
		return fmt.Errorf("a batch has %d blocks, and the sizes are of %d", len(b.Blocks), len(m.Blocks))
	}
	if !s.named {
		s.at = places{}
	}
	for l := range b.Blocks {
		if b.Types == nil {
			m.Blocks[l] = s.block(&b.Blocks[l])
		} else {
			m.Blocks[l] = s.typedBlock(b, l)
		}
	}
	if b.Types != nil {
		m.Types = s.inputTypes(b)
	}
	m.Rows, m.Seeds = len(b.Input), b.NumSeeds()
	m.Held = appendRanges(m.Held[:0], b.Input, s.held)
	m.Rank, m.Degree = s.widen(b.Input), s.widen(b.Degree)
	labels, at := s.numbers(len(b.Labels))
	for i, y := range b.Labels {
		labels[i] = int64(y)
	}
	m.Labels = at
	at = s.at.take(len(b.Targets))
	copy(s.more[at:], b.Targets)
	m.Targets, m.Arrays = s.offset+at, [2]int64{s.offset, s.offset + s.at.at}
	return nil
}

// appendRanges appends the ranges of ranks below held.
func appendRanges(list []Range, ranks []uint32, held int64) []Range {
	first := -1
	for i, r := range ranks {
		switch in := int64(r) < held; {
		case in && first < 0:
			first = i
		case !in && first >= 0:
			list, first = append(list, Range{first, i - first}), -1
		}
	}
	if first >= 0 {
		list = append(list, Range{first, len(ranks) - first})
	}
	return list
}

// block writes the edges of a block.
func (s *slot) block(b *graph.Block) Block {
	out := Block{Src: b.NumSrc, Dst: b.NumDst, Edges: len(b.Indices), DstPos: -1}
	edges, at := s.numbers(2 * len(b.Indices))
	out.EdgeIndex = at
	kernel.WidenUints(edges[:len(b.Indices)], b.Indices)
	kernel.FillRuns(edges[len(b.Indices):], b.Indptr[1:])
	if b.Dst != nil {
		out.DstPos = s.widen(b.Dst)
	}
	return out
}

// typedBlock writes the edges of a block of a typed graph, in the order of their relations.
func (s *slot) typedBlock(b *graph.Batch, l int) Block {
	k, ends := &b.Blocks[l], b.DstEnds(l)
	out := Block{Src: k.NumSrc, Dst: k.NumDst, Edges: len(k.Indices), ByRelation: make([]int, len(b.Types.Relations)), DstEnds: ends}
	edges, at := s.numbers(2 * len(k.Indices))
	out.EdgeIndex = at
	sources, destinations := edges[:len(k.Indices)], edges[len(k.Indices):]
	row, from := 0, 0
	eachRow := func(f func(destination, relation int, sources []uint32)) {
		row, from = 0, 0
		for kind, end := range ends {
			first, n := b.Types.Into(kind)
			for ; from < int(end); from++ {
				for r := range n {
					f(from, first+r, k.Indices[k.Indptr[row]:k.Indptr[row+1]])
					row++
				}
			}
		}
	}
	eachRow(func(_, r int, list []uint32) { out.ByRelation[r] += len(list) })
	next := make([]int, len(out.ByRelation))
	for r := range next[1:] {
		next[r+1] = next[r] + out.ByRelation[r]
	}
	eachRow(func(d, r int, list []uint32) {
		for _, source := range list {
			sources[next[r]], destinations[next[r]] = int64(source), int64(d)
			next[r]++
		}
	})
	out.DstPos = s.widen(k.Dst)
	return out
}

// inputTypes writes the types of the input nodes, and returns their place.
func (s *slot) inputTypes(b *graph.Batch) int64 {
	if b.InputTypes != nil {
		return s.widen(b.InputTypes)
	}
	types, at := s.numbers(len(b.Input))
	from := uint32(0)
	for kind, end := range b.Blocks[0].Ends {
		for i := from; i < end; i++ {
			types[i] = int64(kind)
		}
		from = end
	}
	return at
}

// widen writes numbers as int64, and returns their place.
func (s *slot) widen(list []uint32) int64 {
	wide, at := s.numbers(len(list))
	kernel.WidenUints(wide, list)
	return at
}

// Close implements engine.Work.
func (s *slot) Close() { s.shared.Close() }
