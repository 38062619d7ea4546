package importer

import (
	"context"
	"errors"
	"slices"
	"testing"

	"diskgnn/graph"
)

// graphOf has the neighbours of each node.
func graphOf(near ...[]uint32) *adjacency {
	g := &adjacency{CSC: graph.CSC{Indptr: []int64{0}}}
	for _, n := range near {
		g.Indices = append(g.Indices, n...)
		g.Indptr = append(g.Indptr, int64(len(g.Indices)))
	}
	return g
}

// TestSearch searches small graphs. In the third, components begin in the order of their lowest
// nodes, each at its node of the most neighbours, the lowest of several.
func TestSearch(t *testing.T) {
	for _, c := range []struct {
		g    *adjacency
		want []uint32
	}{
		{graphOf(), []uint32{}},
		{graphOf(nil, nil, nil), []uint32{0, 1, 2}},
		// 0-4, 1-2-3 and 1-5-3: 1 and 3 have two neighbours, as 2 and 5.
		{graphOf([]uint32{4}, []uint32{2, 5}, []uint32{1, 3}, []uint32{2, 5}, []uint32{0}, []uint32{1, 3}), []uint32{0, 4, 1, 2, 5, 3}},
		// A star around 3.
		{graphOf([]uint32{3}, []uint32{3}, []uint32{3}, []uint32{0, 1, 2}), []uint32{3, 0, 1, 2}},
		// A path 4-0-3-1-2, whose roots are joined from both sides.
		{graphOf([]uint32{3, 4}, []uint32{2, 3}, []uint32{1}, []uint32{0, 1}, []uint32{0}), []uint32{0, 3, 4, 1, 2}},
	} {
		n := len(c.g.Indptr) - 1
		from, to := make([]uint32, n), make([]uint32, n)
		if err := c.g.search(t.Context(), from, to); err != nil || !slices.Equal(from, c.want) {
			t.Errorf("%d, %v; want %d", from, err, c.want)
		}
	}
	// 130 nodes alone: the bits of three words.
	alone := graphOf(make([][]uint32, 130)...)
	from, to := make([]uint32, 130), make([]uint32, 130)
	if err := alone.search(t.Context(), from, to); err != nil || from[0] != 0 || from[64] != 64 || from[129] != 129 {
		t.Errorf("%d, %v", from, err)
	}
}

// soon is a context that is cancelled after so many looks at it.
type soon struct {
	context.Context
	left int
}

func (s *soon) Err() error {
	if s.left--; s.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestSearchStops looks at the context at the first node of every pass, and after 65536
// of them.
func TestSearchStops(t *testing.T) {
	const n = 1<<16 + 1
	path := &adjacency{CSC: graph.CSC{Indptr: []int64{0}}}
	for v := range uint32(n) {
		if v > 0 {
			path.Indices = append(path.Indices, v-1)
		}
		if v < n-1 {
			path.Indices = append(path.Indices, v+1)
		}
		path.Indptr = append(path.Indptr, int64(len(path.Indices)))
	}
	from, to := make([]uint32, n), make([]uint32, n)
	for looks := range 5 {
		if err := path.search(&soon{t.Context(), looks}, from, to); errors.Is(err, context.Canceled) != (looks < 4) || looks == 4 && err != nil {
			t.Errorf("cancelled at look %d: %v", looks, err)
		}
	}
}
