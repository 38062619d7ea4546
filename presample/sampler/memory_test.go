package sampler

import (
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"diskgnn/graph"
)

// heldBy adds up what a sampler's slices have room for, but its table's and those of the
// seed nodes.
func heldBy(s *Sampler, b *graph.Batch) int64 {
	n := 4*cap(s.nodes) + 4*cap(s.degree) + 8*cap(s.start) + 8*cap(s.pos) + 4*cap(s.ids) + 8*cap(s.taken) + int(unsafe.Sizeof(b.Blocks[0]))*cap(b.Blocks)
	for l := range b.Blocks {
		n += 4*cap(b.Blocks[l].Indptr) + 4*cap(b.Blocks[l].Indices)
	}
	return int64(n)
}

// A sampler holds no more than is planned for the largest batch that it has drawn: of any
// graph, and of one in which many edges lead to few nodes.
func TestSamplerHoldsWhatIsPlanned(t *testing.T) {
	const nodes, hubs = 50_000, 60
	few := &graph.CSC{Indptr: make([]int64, nodes+1)}
	for v := range nodes {
		for u := range uint32(hubs) {
			few.Indices = append(few.Indices, u)
		}
		few.Indptr[v+1] = int64(len(few.Indices))
	}
	rapid.Check(t, func(t *rapid.T) {
		g, fanout := genGraph(t), genFanout(t)
		if rapid.Bool().Draw(t, "few") {
			g, fanout = few, []int{rapid.IntRange(1, hubs).Draw(t, "fanout")}
		}
		if rapid.Bool().Draw(t, "wide") {
			fanout = append(slices.Clone(fanout), rapid.IntRange(1, MaxFanout).Draw(t, "widest"))
		}
		s := New(g, fanout, Options{})
		var b graph.Batch
		planned := int64(0)
		for range rapid.IntRange(1, 3).Draw(t, "batches") {
			seeds := genSeeds(t, g)
			if g == few {
				seeds = identity(make([]uint32, rapid.IntRange(1, 10_000).Draw(t, "seeds")))
			}
			if err := s.sample(t.Context(), &b, seeds, 1); err != nil {
				t.Fatal(err)
			}
			x := ExtentOf(&b)
			x.Widest = Widest(fanout)
			planned = max(planned, x.Memory())
			if held := heldBy(s, &b); held > planned || held < planned/3 {
				t.Fatalf("%d bytes are held, %d planned for %+v", held, planned, ExtentOf(&b))
			}
		}
	})
}
