package packfile

import (
	"errors"
	"testing"

	"diskgnn/graph"
	"diskgnn/internal/fault"
)

// threeSeeds is a batch of three seed nodes, each its own neighbour.
func threeSeeds() *graph.Batch {
	return &graph.Batch{
		Blocks: []graph.Block{{NumSrc: 3, NumDst: 3, Indptr: []uint32{0, 1, 2, 3}, Indices: []uint32{0, 1, 2}}},
		Input:  []uint32{0, 1, 2}, Degree: []uint32{1, 1, 1}, Labels: []int32{0, 4, graph.Unlabelled},
	}
}

// A batch has as many bytes of classes as the facts say.
func TestTargetsAgreeWithTheFacts(t *testing.T) {
	for _, c := range []struct {
		row, bytes int
		ok         bool
	}{{0, 0, true}, {0, 3, false}, {2, 6, true}, {2, 3, false}, {2, 0, false}} {
		r := &Reader{facts: Facts{TargetBytes: c.row, Classes: 5}}
		b := threeSeeds()
		b.Targets = make([]byte, c.bytes)
		err := r.checkBatch(b, 3, 3, 3, &graph.Sizes{Src: []int{3}, Dst: []int{3}, Edges: []int{3}})
		if c.ok != (err == nil) || err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A batch is what the index says of it, and no larger than buffers are made for.
func TestBatchAgreesWithTheIndex(t *testing.T) {
	for what, change := range map[string]func(b *graph.Batch, n []int, s *graph.Sizes, f *Facts){
		"inputs":        func(_ *graph.Batch, n []int, _ *graph.Sizes, _ *Facts) { n[0]++ },
		"seeds":         func(_ *graph.Batch, n []int, _ *graph.Sizes, _ *Facts) { n[1]-- },
		"edges":         func(_ *graph.Batch, n []int, _ *graph.Sizes, _ *Facts) { n[2]++ },
		"most sources":  func(_ *graph.Batch, _ []int, s *graph.Sizes, _ *Facts) { s.Src[0]-- },
		"most edges":    func(_ *graph.Batch, _ []int, s *graph.Sizes, _ *Facts) { s.Edges[0]-- },
		"layers":        func(_ *graph.Batch, _ []int, s *graph.Sizes, _ *Facts) { s.Src = append(s.Src, 3) },
		"classes":       func(_ *graph.Batch, _ []int, _ *graph.Sizes, f *Facts) { f.Classes = 4 },
		"negative":      func(b *graph.Batch, _ []int, _ *graph.Sizes, _ *Facts) { b.Labels[0] = -2 },
		"most of seeds": func(_ *graph.Batch, _ []int, s *graph.Sizes, _ *Facts) { s.Dst[0] = 2 },
	} {
		b, n, s, f := threeSeeds(), []int{3, 3, 3}, graph.Sizes{Src: []int{3}, Dst: []int{3}, Edges: []int{3}}, Facts{Classes: 5}
		r := &Reader{facts: f}
		if err := r.checkBatch(b, n[0], n[1], n[2], &s); err != nil {
			t.Fatal(err)
		}
		change(b, n, &s, &r.facts)
		if err := r.checkBatch(b, n[0], n[1], n[2], &s); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
