package sampler

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
)

// topologyOf returns the topology of a dataset made in the directory.
func topologyOf(t interface {
	datasettest.TB
	Cleanup(func())
}, dir string, raw dataset.Raw) *dataset.Topology {
	t.Helper()
	topology, err := datasettest.Create(t, dir, raw).Topology(context.Background(), progress.Discard, 1)
	if err != nil {
		t.Fatalf("open the topology: %v", err)
	}
	t.Cleanup(func() { _ = topology.Close() })
	return topology
}

// communitiesOf is walker.communities with maps.
func communitiesOf(g *graph.CSC, key uint64) []uint32 {
	label := identity(make([]uint32, g.NumNodes()))
	for round := range mostRounds {
		key := rng.Join(key, uint64(round))
		next, moved := slices.Clone(label), 0
		for v := range next {
			draw := rng.Join(key, uint64(v))
			if draw&1 == 0 {
				continue
			}
			list := g.Neighbors(uint32(v))
			step := max((len(list)+mostVotes-1)/mostVotes, 1)
			votes := map[uint32]int{}
			for i := 0; i < len(list); i += step {
				votes[label[list[i]]]++
			}
			most, lot := 0, uint64(0)
			for l, n := range votes {
				if draw := rng.Join(draw, uint64(l)); n > most || n == most && draw > lot {
					next[v], most, lot = l, n, draw
				}
			}
			if next[v] != label[v] {
				moved++
			}
		}
		if label = next; moved <= len(label)/settled {
			break
		}
	}
	return label
}

func TestLocalityProperties(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		tmp, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(tmp)
		raw := datasettest.Params{
			Nodes: rapid.IntRange(1, 300).Draw(t, "nodes"), AvgDegree: rapid.Float64Range(0, 100).Draw(t, "degree"), Seed: rapid.Uint64().Draw(t, "graph"),
		}.Raw()
		topology := topologyOf(t, tmp, raw)
		key := rapid.Uint64().Draw(t, "key")
		w := walker{topology, rapid.IntRange(1, 3).Draw(t, "workers")}
		label, _, err := w.communities(context.Background(), key)
		if d := cmp.Diff(communitiesOf(&topology.CSC, key), label); err != nil || d != "" {
			t.Fatalf("communities: %v %s", err, d)
		}
		nodes := rapid.SliceOfDistinct(rapid.Uint32Range(0, uint32(topology.NumNodes()-1)), func(v uint32) uint32 { return v }).Draw(t, "training")
		order, err := locality(context.Background(), topology, nodes, key, w.workers)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(slices.Values(order)); !slices.Equal(got, identity(make([]uint32, len(nodes)))) {
			t.Fatalf("no permutation of %d: %v", len(nodes), order)
		}
	})
}

// TestLocalityTellsPartsApart: even nodes and odd nodes are two cliques; node 8
// has no neighbours.
func TestLocalityTellsPartsApart(t *testing.T) {
	raw := datasettest.Params{Nodes: 9, AvgDegree: 0, Seed: 1}.Raw()
	raw.Indptr, raw.Indices = []int64{0}, nil
	for v := range uint32(9) {
		for u := v % 2; u < 8 && v < 8; u += 2 {
			if u != v {
				raw.Indices = append(raw.Indices, u)
			}
		}
		raw.Indptr = append(raw.Indptr, int64(len(raw.Indices)))
	}
	topology := topologyOf(t, t.TempDir(), raw)
	nodes := []uint32{0, 1, 2, 3, 4, 8, 5, 6, 7}
	for key := range uint64(10) {
		order, err := locality(t.Context(), topology, nodes, key, 2)
		if err != nil {
			t.Fatal(err)
		}
		changes := 0
		for i := range order[1:] {
			if a, b := nodes[order[i]], nodes[order[i+1]]; a == 8 || b == 8 || a%2 != b%2 {
				changes++
			}
		}
		// The parts change once between the cliques, and around the lonely node.
		if changes > 3 {
			t.Errorf("key %d: %v", key, order)
		}
	}
}
