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
		m.Blocks[l] = s.block(&b.Blocks[l])
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

// widen writes numbers as int64, and returns their place.
func (s *slot) widen(list []uint32) int64 {
	wide, at := s.numbers(len(list))
	kernel.WidenUints(wide, list)
	return at
}

// Close implements engine.Work.
func (s *slot) Close() { s.shared.Close() }
