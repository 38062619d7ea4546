package exact

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/idset"
)

// Ranges follow each other, keep to the capacity, and hold every edge of their
// targets, in order.
func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := datasettest.Params{Nodes: rapid.IntRange(1, 200).Draw(t, "nodes"), AvgDegree: rapid.Float64Range(0, 6).Draw(t, "degree"), Seed: rapid.Uint64Range(0, 99).Draw(t, "seed")}.Raw()
		g := &graph.CSC{Indptr: raw.Indptr, Indices: raw.Indices}
		of := targets{nodes: int64(g.NumNodes())}
		if rapid.Bool().Draw(t, "some") {
			of.ids = raw.Train
		}
		edges, most, err := of.measure(g)
		if err != nil {
			t.Fatal(err)
		}
		all := capacity{g.NumNodes(), of.len(), int(edges)}
		least := capacity{min(g.NumNodes(), most+1), 1, most}
		bytes := func(c capacity) int64 { return 40*int64(c.src) + 16*int64(c.dst) + 4*int64(c.edges) }
		room := bytes(least) + rapid.Int64Range(0, 10_000).Draw(t, "room")
		limit := fit(all, least, bytes, room)
		if bytes(limit) > room || limit.src < least.src || limit.dst < 1 || limit.edges < least.edges {
			t.Fatalf("%+v takes %d of %d; least %+v", limit, bytes(limit), room, least)
		}
		set := idset.New(of.nodes)
		c := newCutter(g, of, limit, set, nil)
		lo := 0
		for lo < of.len() {
			b, hi, err := c.next(context.Background(), lo)
			check(t, err)
			check(t, b.Validate())
			k := &b.Blocks[0]
			if hi <= lo || k.NumDst != hi-lo || k.NumDst > limit.dst || k.NumSrc > limit.src || len(k.Indices) > limit.edges || !slices.IsSorted(b.Input) {
				t.Fatalf("range [%d, %d) of %d: %d sources, %d edges; limit %+v", lo, hi, of.len(), k.NumSrc, len(k.Indices), limit)
			}
			needed := make(map[uint32]bool)
			for i := range k.NumDst {
				v := of.at(lo + i)
				needed[v] = true
				var from []uint32
				for _, s := range k.Indices[k.Indptr[i]:k.Indptr[i+1]] {
					from = append(from, b.Input[s])
					needed[b.Input[s]] = true
				}
				if b.Input[k.Dst[i]] != v || !slices.Equal(from, g.Neighbors(v)) {
					t.Fatalf("target %d: at %d, from %v", v, b.Input[k.Dst[i]], from)
				}
			}
			for i, v := range b.Input {
				if !needed[v] || int(b.Degree[i]) != g.Degree(v) {
					t.Fatalf("source %d is needed: %t; degree %d", v, needed[v], b.Degree[i])
				}
			}
			lo = hi
		}
		if n := set.Count(); n != 0 {
			t.Fatalf("%d sources were left in the set", n)
		}
	})
}

// What is planned for a cutter's block and for the edges that begin at each node is what
// they take.
func TestCutterHoldsWhatIsPlanned(t *testing.T) {
	most := capacity{src: 11, dst: 5, edges: 70}
	for _, out := range [][]uint32{nil, make([]uint32, 3)} {
		c := newCutter(nil, targets{}, most, nil, out)
		k := &c.batch.Blocks[0]
		words := cap(c.outs) + cap(k.Indptr) + cap(k.Indices) + cap(k.Dst) + cap(c.batch.Input) + cap(c.batch.Degree) + cap(c.batch.Labels)
		want := 4 * (2*11 + 3*5 + 1 + 70 + cap(c.outs))
		if planned := cutterBytes(most, out != nil); int64(4*words) != planned || 4*words != want || (cap(c.outs) == 11) != (out != nil) {
			t.Errorf("%d bytes are taken, %d planned, want %d", 4*words, planned, want)
		}
	}
}
