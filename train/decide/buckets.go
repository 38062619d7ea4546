package decide

import (
	"diskgnn/featurestore"
	"diskgnn/graph"
)

// bucketSaves is the share of a batch's rows that a bucket must save to be worth the memory of its
// graphs.
const bucketSaves = 0.05

// Buckets returns sizes, the smallest first, for most of a pack's training batches, which are much
// smaller than the largest: a quarter and half of the way from the mean counts to the largest.
func Buckets(f *featurestore.Facts) []graph.Sizes {
	if len(f.TrainMeans.Src) != len(f.TrainSizes.Src) || len(f.TrainSizes.Src) == 0 {
		return nil
	}
	var found []graph.Sizes
	larger := rows(f.TrainSizes)
	for _, way := range []float64{0.5, 0.25} {
		s := between(f.TrainMeans, f.TrainSizes, way)
		if n := rows(s); n <= (1-bucketSaves)*larger {
			found, larger = append([]graph.Sizes{s}, found...), n
		}
	}
	return found
}

// between returns sizes at the fraction way from the mean to the largest ones, with the largest
// number of seed nodes: only an epoch's last batch has fewer.
func between(mean, most graph.Sizes, way float64) graph.Sizes {
	along := func(from, to []int) []int {
		at := make([]int, len(to))
		for l := range to {
			at[l] = min(to[l], from[l]+1+int(way*float64(to[l]-from[l])))
		}
		return at
	}
	s := graph.Sizes{Src: along(mean.Src, most.Src), Dst: make([]int, len(most.Dst)), Edges: along(mean.Edges, most.Edges)}
	for l := len(s.Dst) - 1; l >= 0; l-- { // a layer's sources hold its destinations
		if s.Dst[l] = most.Dst[l]; l < len(s.Dst)-1 {
			s.Dst[l] = s.Src[l+1]
		}
		s.Src[l] = max(s.Src[l], s.Dst[l])
	}
	return s
}

// rows counts the rows of all layers.
func rows(s graph.Sizes) float64 {
	n := 0
	for l := range s.Src {
		n += s.Src[l] + s.Dst[l]
	}
	return float64(n)
}
