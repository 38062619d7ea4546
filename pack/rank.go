package pack

import (
	"iter"
	"math/bits"
	"slices"
)

// rankNodes numbers the nodes by descending hotness, ties by ascending id:
// rank[v] is v's row in the hot order. It also returns how many nodes any
// training batch touches; theirs are the first ranks.
func rankNodes(hotness []uint32) (rank []uint32, touched int64) {
	most := uint32(0)
	if len(hotness) > 0 {
		most = slices.Max(hotness)
	}
	next := make([]uint64, most+2) // next[c+1]: nodes hotter than c
	for _, c := range hotness {
		next[c]++
	}
	touched = int64(len(hotness)) - int64(next[0])
	sum := uint64(0)
	for c := len(next) - 1; c >= 0; c-- {
		next[c], sum = sum, sum+next[c]
	}
	rank = make([]uint32, len(hotness))
	for v, c := range hotness {
		rank[v] = uint32(next[c])
		next[c]++
	}
	return rank, touched
}

// bandEdges turns the wanted edges, in percent of the nodes, into descending
// ranks. The last is the least hot set; wanted edges at or below it vanish, and
// none lies above what training touches, since rows beyond are never read.
func bandEdges(nodes, touched, cacheRows int64, percent []float64) []int64 {
	least := min(cacheRows, touched)
	edges := []int64{least}
	for _, p := range percent {
		if e := min(int64(p/100*float64(nodes)), touched); e > least {
			edges = append(edges, e)
		}
	}
	slices.Sort(edges)
	slices.Reverse(edges)
	return slices.Compact(edges)
}

// bitset is a set of nodes that knows each member's place among the members.
type bitset struct {
	words  []uint64
	before []uint32 // members in the words before this one; set by count
}

func newBitset(n int64) *bitset { return &bitset{words: make([]uint64, (n+63)/64)} }

func (s *bitset) add(v uint32)      { s.words[v/64] |= 1 << (v % 64) }
func (s *bitset) has(v uint32) bool { return s.words[v/64]>>(v%64)&1 != 0 }

// addAll adds nodes.
func (s *bitset) addAll(nodes []uint32) {
	for _, v := range nodes {
		s.add(v)
	}
}

// hasAll reports whether all nodes are members.
func (s *bitset) hasAll(nodes []uint32) bool {
	for _, v := range nodes {
		if !s.has(v) {
			return false
		}
	}
	return true
}

// all yields the members in ascending order.
func (s *bitset) all() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(uint32(i*64 + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// count prepares place and returns the number of members.
func (s *bitset) count() int64 {
	s.before = make([]uint32, len(s.words))
	n := 0
	for i, w := range s.words {
		s.before[i] = uint32(n)
		n += bits.OnesCount64(w)
	}
	return int64(n)
}

// place returns the number of members below v.
func (s *bitset) place(v uint32) uint32 {
	if int(v/64) >= len(s.words) { // v is the number of nodes, past the last word
		last := len(s.words) - 1
		return s.before[last] + uint32(bits.OnesCount64(s.words[last]))
	}
	return s.before[v/64] + uint32(bits.OnesCount64(s.words[v/64]&(1<<(v%64)-1)))
}
