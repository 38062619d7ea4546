package agnes

import "math/bits"

// nodeSet is a set of nodes. After index, place returns the place of a node in ascending order, which is
// the frame of its row.
type nodeSet struct {
	words  []uint64 // a bit for each node
	before []uint32 // by group of words: the nodes in the groups before
	n      int
}

// groupWords is the number of words of a group: a cache line.
const groupWords = 8

// nodeSetBytes returns the memory of a set of nodes below the given number.
func nodeSetBytes(nodes int64) int64 {
	words := (nodes + 63) / 64
	return 8*words + 4*((words+groupWords-1)/groupWords)
}

func newNodeSet(nodes int64) nodeSet {
	words := (nodes + 63) / 64
	return nodeSet{words: make([]uint64, words), before: make([]uint32, (words+groupWords-1)/groupWords)}
}

func (s *nodeSet) clear() {
	clear(s.words)
	s.n = 0
}

func (s *nodeSet) has(v uint32) bool { return s.words[v/64]>>(v%64)&1 != 0 }

// add adds distinct nodes, unless the set would have more than most nodes. It reports whether it added
// them.
func (s *nodeSet) add(nodes []uint32, most int) bool {
	more := 0
	for _, v := range nodes {
		if !s.has(v) {
			more++
		}
	}
	if s.n+more > most {
		return false
	}
	for _, v := range nodes {
		s.words[v/64] |= 1 << (v % 64)
	}
	s.n += more
	return true
}

// index prepares place after add.
func (s *nodeSet) index() {
	n := 0
	for i, w := range s.words {
		if i%groupWords == 0 {
			s.before[i/groupWords] = uint32(n)
		}
		n += bits.OnesCount64(w)
	}
}

// place returns the number of nodes in the set below v.
func (s *nodeSet) place(v uint32) uint32 {
	word := int(v / 64)
	n := int(s.before[word/groupWords])
	for _, w := range s.words[word/groupWords*groupWords : word] {
		n += bits.OnesCount64(w)
	}
	return uint32(n + bits.OnesCount64(s.words[word]&(1<<(v%64)-1)))
}

// from returns the smallest node of the set that is at least v, or -1.
func (s *nodeSet) from(v int64) int64 {
	word := v / 64
	if word >= int64(len(s.words)) {
		return -1
	}
	w := s.words[word] &^ (1<<(v%64) - 1)
	for w == 0 {
		if word++; word == int64(len(s.words)) {
			return -1
		}
		w = s.words[word]
	}
	return 64*word + int64(bits.TrailingZeros64(w))
}
