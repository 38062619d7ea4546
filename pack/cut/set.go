package cut

import (
	"iter"
	"math/bits"
)

// Set is a set of nodes that knows each member's place among the members.
type Set struct {
	words  []uint64
	before []uint32 // members in the words before this one; set by count
}

func NewSet(n int64) *Set { return &Set{words: make([]uint64, (n+63)/64)} }

// Add adds a node.
func (s *Set) Add(v uint32) { s.words[v/64] |= 1 << (v % 64) }

// Has reports whether a node is a member.
func (s *Set) Has(v uint32) bool { return s.words[v/64]>>(v%64)&1 != 0 }

// addAll adds nodes.
func (s *Set) addAll(nodes []uint32) {
	for _, v := range nodes {
		s.Add(v)
	}
}

// hasAll reports whether all nodes are members.
func (s *Set) hasAll(nodes []uint32) bool {
	for _, v := range nodes {
		if !s.Has(v) {
			return false
		}
	}
	return true
}

// In yields the members lo ≤ v < hi in ascending order.
func (s *Set) In(lo, hi int64) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i := lo / 64; i < int64(len(s.words)) && i*64 < hi; i++ {
			w := s.words[i]
			if lo > i*64 {
				w &= ^uint64(0) << (lo % 64)
			}
			for ; w != 0; w &= w - 1 {
				v := i*64 + int64(bits.TrailingZeros64(w))
				if v >= hi || !yield(uint32(v)) {
					return
				}
			}
		}
	}
}

// all yields the members in ascending order.
func (s *Set) all() iter.Seq[uint32] { return s.In(0, int64(len(s.words))*64) }

// Count prepares place and returns the number of members.
func (s *Set) Count() int64 {
	s.before = make([]uint32, len(s.words))
	n := 0
	for i, w := range s.words {
		s.before[i] = uint32(n)
		n += bits.OnesCount64(w)
	}
	return int64(n)
}

// Place returns the number of members below v.
func (s *Set) Place(v uint32) uint32 {
	if int(v/64) >= len(s.words) { // v is the number of nodes, past the last word
		last := len(s.words) - 1
		return s.before[last] + uint32(bits.OnesCount64(s.words[last]))
	}
	return s.before[v/64] + uint32(bits.OnesCount64(s.words[v/64]&(1<<(v%64)-1)))
}

// retain removes the nodes whose rank is below hot.
func (s *Set) retain(rank []uint32, hot int64) {
	for v, r := range rank {
		if int64(r) < hot {
			s.words[v/64] &^= 1 << (v % 64)
		}
	}
}
