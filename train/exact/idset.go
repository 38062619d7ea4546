package exact

import "math/bits"

// idSet is a set of node ids that knows the place of each among its members in
// ascending order. It takes 12 bytes for every 64 nodes, so that a range of
// destinations can number its sources without a hash table or a sort.
type idSet struct {
	words  []uint64
	before []uint32 // by word: members in the words before, as of the last call of sorted
}

// idSetBytes returns the memory of a set over the given number of nodes.
func idSetBytes(nodes int64) int64 { return 12 * ((nodes + 63) / 64) }

func newIDSet(nodes int64) *idSet {
	n := (nodes + 63) / 64
	return &idSet{make([]uint64, n), make([]uint32, n)}
}

// add reports whether the id is new.
func (s *idSet) add(id uint32) bool {
	w, bit := &s.words[id/64], uint64(1)<<(id%64)
	if *w&bit != 0 {
		return false
	}
	*w |= bit
	return true
}

func (s *idSet) remove(ids []uint32) {
	for _, id := range ids {
		s.words[id/64] &^= 1 << (id % 64)
	}
}

// sorted appends all members to ids, ascending, and makes place valid.
func (s *idSet) sorted(ids []uint32) []uint32 {
	for i, w := range s.words {
		s.before[i] = uint32(len(ids))
		for ; w != 0; w &= w - 1 {
			ids = append(ids, uint32(64*i+bits.TrailingZeros64(w)))
		}
	}
	return ids
}

// place returns how many members are less than id, a member.
func (s *idSet) place(id uint32) uint32 {
	return s.before[id/64] + uint32(bits.OnesCount64(s.words[id/64]&(1<<(id%64)-1)))
}
