package directgraph

import "diskgnn/internal/fault"

// Sizes of parts of sections, in bytes.
const (
	EntryBytes  = 4
	headerBytes = 6
	countBytes  = 2
)

// Pages are at least minPage bytes, and at most MaxPage.
const (
	minPage = 64
	MaxPage = 1 << 15
)

// Shape has the sizes of a DirectGraph's pages and vectors.
type Shape struct {
	Page    int // bytes of a page
	Feature int // bytes of a vector
}

// Check returns an error of kind fault.ErrInput if a page has no room for a vector and two neighbours, or
// is too large.
func (s Shape) Check() error {
	if s.Page < minPage || s.Page > MaxPage || s.Feature < 0 || s.primary() < 2 || s.secondary() < 2 {
		return fault.New(fault.ErrInput, "a page of %d bytes (at most %d) has no room for a vector of %d bytes and two neighbours", s.Page, MaxPage, s.Feature)
	}
	return nil
}

// primary returns the entries of a primary section without secondaries.
func (s Shape) primary() int64 {
	return int64(s.Page-headerBytes-countBytes-s.Feature) / EntryBytes
}

func (s Shape) secondary() int64 { return int64(s.Page-headerBytes) / EntryBytes }

// Secondaries returns the number of secondary sections of a node. The address of each takes the place of a
// neighbour in the primary section.
func (s Shape) Secondaries(degree int64) int64 {
	if degree <= s.primary() {
		return 0
	}
	each := s.secondary() - 1 // net gain of a secondary section
	return (degree - s.primary() + each - 1) / each
}

// MaxDegree is the largest degree for which the secondaries' addresses fit into the primary section.
func (s Shape) MaxDegree() int64 { return s.primary() + (s.primary()-1)*(s.secondary()-1) }

// own returns the number of neighbours in a node's primary section.
func (s Shape) own(degree int64) int64 { return min(degree, s.primary()-s.Secondaries(degree)) }

// Section returns the number of the section with the neighbour at the given slot of a node's list; 0 is
// the primary section.
func (s Shape) Section(slot, degree int64) int64 {
	own := s.own(degree)
	if slot < own {
		return 0
	}
	return 1 + (slot-own)/s.secondary()
}

func (s Shape) bytes(section, degree int64) int {
	n, own := s.Secondaries(degree), s.own(degree)
	if section == 0 {
		return headerBytes + countBytes + s.Feature + EntryBytes*int(own+n)
	}
	return headerBytes + EntryBytes*int(min(s.secondary(), degree-own-(section-1)*s.secondary()))
}

// RawBytes returns the size of a node without DirectGraph, in bytes: a count, its neighbours, its vector.
func (s Shape) RawBytes(degree int64) int64 { return EntryBytes*(1+degree) + int64(s.Feature) }
