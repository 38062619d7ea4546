// Package idset has a set of node ids, one bit each, which returns the rank of every member in ascending
// order.
package idset

import (
	"iter"
	"math/bits"
)

// Set is a set of ids below a bound. Concurrent reads are safe; a change excludes all other calls.
type Set struct {
	words  []uint64
	before []uint32 // by word: number of members in the words before it, set by Count and Sorted
}

// New returns the empty set of ids below n.
func New(n int64) *Set { return &Set{words: make([]uint64, words(n))} }

func words(n int64) int64 { return (n + 63) / 64 }

// Bytes returns the memory in bytes of a set of ids below n, with the table of Place.
func Bytes(n int64) int64 { return 12 * words(n) }

// Add adds an id, and reports whether it is new.
func (s *Set) Add(id uint32) bool {
	w, bit := &s.words[id/64], uint64(1)<<(id%64)
	if *w&bit != 0 {
		return false
	}
	*w |= bit
	return true
}

// AddAll adds ids.
func (s *Set) AddAll(ids []uint32) {
	for _, id := range ids {
		s.Add(id)
	}
}

// Remove removes an id, if it is a member.
func (s *Set) Remove(id uint32) { s.words[id/64] &^= 1 << (id % 64) }

// Clear removes all ids.
func (s *Set) Clear() { clear(s.words) }

// Has reports whether an id is a member.
func (s *Set) Has(id uint32) bool { return s.words[id/64]>>(id%64)&1 != 0 }

// HasAll reports whether all ids are members.
func (s *Set) HasAll(ids []uint32) bool {
	for _, id := range ids {
		if !s.Has(id) {
			return false
		}
	}
	return true
}

// All yields the members in ascending order.
func (s *Set) All() iter.Seq[uint32] { return s.In(0, int64(len(s.words))*64) }

// In yields the members lo ≤ id < hi in ascending order.
func (s *Set) In(lo, hi int64) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i := lo / 64; i < int64(len(s.words)) && i*64 < hi; i++ {
			w := s.words[i]
			if lo > i*64 {
				w &= ^uint64(0) << (lo % 64)
			}
			for ; w != 0; w &= w - 1 {
				id := i*64 + int64(bits.TrailingZeros64(w))
				if id >= hi || !yield(uint32(id)) {
					return
				}
			}
		}
	}
}

// Count returns the number of members, and makes Place valid until the set changes.
func (s *Set) Count() int64 {
	s.places()
	n := 0
	for i, w := range s.words {
		s.before[i] = uint32(n)
		n += bits.OnesCount64(w)
	}
	return int64(n)
}

// places allocates the table of Place, once.
func (s *Set) places() {
	if s.before == nil {
		s.before = make([]uint32, len(s.words))
	}
}

// Place returns the number of members below id; id is at most the bound of the set. Count must have
// been called since the last change.
func (s *Set) Place(id uint32) uint32 {
	w := int(id / 64)
	if w == len(s.words) { // past the last word: all members are below
		if w == 0 {
			return 0
		}
		return s.before[w-1] + uint32(bits.OnesCount64(s.words[w-1]))
	}
	return s.before[w] + uint32(bits.OnesCount64(s.words[w]&(1<<(id%64)-1)))
}
