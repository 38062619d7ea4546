package cut

import (
	"slices"
)

// Rank numbers the nodes by descending hotness, ties by ascending id:
// rank[v] is v's row in the hot order. It also returns how many nodes any
// training batch touches; theirs are the first ranks.
func Rank(hotness []uint32) (rank []uint32, touched int64) {
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

// BandEdges turns the wanted edges, in percent of the nodes, into descending
// ranks. The last is the least hot set; wanted edges at or below it vanish, and
// none lies above what training touches, since rows beyond are never read.
func BandEdges(nodes, touched, cacheRows int64, percent []float64) []int64 {
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
