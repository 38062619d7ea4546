package cut

import (
	"slices"

	"diskgnn/presample/mbfile"
)

// Rank returns rank[v], the row of node v in the hot order, and how many nodes any training
// batch touches, as mbfile.Ranks counts both.
func Rank(hotness []uint32) (rank []uint32, touched int64) {
	rank = make([]uint32, len(hotness))
	return rank, mbfile.Ranks(hotness, rank)
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
