package onthefly

import "diskgnn/graph"

// tally adds up the sizes of batches.
type tally struct {
	batches int64
	most    graph.Sizes // maxima, layer by layer
	sum     []counts    // layer by layer
}

// counts are the counts of a block, summed over batches.
type counts struct{ src, dst, edges int64 }

func (t *tally) add(b *graph.Batch) {
	if t.sum == nil {
		t.sum = make([]counts, len(b.Blocks))
	}
	t.batches++
	t.most.Cover(b)
	for l := range b.Blocks {
		k, sum := &b.Blocks[l], &t.sum[l]
		sum.src, sum.dst, sum.edges = sum.src+int64(k.NumSrc), sum.dst+int64(k.NumDst), sum.edges+int64(len(k.Indices))
	}
}

// mean returns the averages, rounded half up as in the facts of samples.
func (t *tally) mean() graph.Sizes {
	n := len(t.sum)
	m := graph.Sizes{Src: make([]int, n), Dst: make([]int, n), Edges: make([]int, n)}
	mean := func(sum int64) int { return int((sum + t.batches/2) / t.batches) }
	for l, sum := range t.sum {
		m.Src[l], m.Dst[l], m.Edges[l] = mean(sum.src), mean(sum.dst), mean(sum.edges)
	}
	return m
}

func (t *tally) edges() (n int64) {
	for _, sum := range t.sum {
		n += sum.edges
	}
	return n
}

// covers reports whether no count of a batch exceeds the sizes.
func covers(s *graph.Sizes, b *graph.Batch) bool {
	for l := range b.Blocks {
		if k := &b.Blocks[l]; k.NumSrc > s.Src[l] || k.NumDst > s.Dst[l] || len(k.Indices) > s.Edges[l] {
			return false
		}
	}
	return true
}
