package sampler

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
)

func tinySeeds(t *testing.T, p mbfile.Params) *Seeds {
	t.Helper()
	s, err := Load(t.Context(), datasettest.Create(t, t.TempDir(), datasettest.Tiny(t)), p, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLabelled(t *testing.T) {
	s := labelled([]uint32{0, 2, 3, 5}, []int32{7, 0, graph.Unlabelled, 1, 0, 4})
	if !slices.Equal(s.nodes, []uint32{0, 3, 5}) || !slices.Equal(s.labels, []int32{7, 1, 4}) {
		t.Errorf("%+v", s)
	}
}

// TestAll: all nodes are seed nodes, in ascending order in every epoch, with their labels and classes if they have any.
func TestAll(t *testing.T) {
	p := mbfile.Params{BatchSize: 3, Fanout: []int{1}, Epochs: 2, TrainRatio: 0.5}
	tiny, multi := datasettest.Tiny(t), datasettest.Params{Nodes: 8, Classes: 11, MultiLabel: true, Dim: 1}.Raw()
	bare := tiny
	bare.Labels, bare.Classes, bare.Train, bare.Valid, bare.Test = nil, 0, nil, nil, nil
	for name, raw := range map[string]dataset.Raw{"tiny": tiny, "multi-label": multi, "without labels": bare} {
		d := datasettest.Create(t, t.TempDir(), raw)
		s, err := LoadAll(t.Context(), d, p)
		if err != nil {
			t.Fatal(err)
		}
		nodes := int(d.Facts().Nodes)
		if s.Batches(Train) != (nodes+2)/3 || s.Batches(Valid)+s.Batches(Test) != 0 || s.Nodes(Train) != nodes {
			t.Errorf("%s: %d, %d and %d batches", name, s.Batches(Train), s.Batches(Valid), s.Batches(Test))
		}
		labels := raw.Labels
		if labels == nil {
			labels = slices.Repeat([]int32{graph.Unlabelled}, nodes)
		}
		for epoch := range 2 {
			var all, one Picked
			for b := range s.Batches(Train) {
				s.Pick(ID{Train, epoch, b}, &one)
				all.Nodes, all.Labels, all.Targets = append(all.Nodes, one.Nodes...), append(all.Labels, one.Labels...), append(all.Targets, one.Targets...)
			}
			if !slices.Equal(all.Nodes, identity(make([]uint32, nodes))) || !slices.Equal(all.Labels, labels) || !slices.Equal(all.Targets, raw.Targets) {
				t.Errorf("%s: %+v of %v and %v", name, all, labels, raw.Targets)
			}
		}
	}
}

// TestTinySeeds: training nodes 0, 1, 4 of classes 0, 0, 1; validation 2, 5;
// test 3, 6.
func TestTinySeeds(t *testing.T) {
	s := tinySeeds(t, mbfile.Params{BatchSize: 2, Fanout: []int{1}, Epochs: 2, TrainRatio: 1, Seed: 1})
	if s.Batches(Train) != 2 || s.Batches(Valid) != 1 || s.Batches(Test) != 1 || s.TargetBytes() != 0 {
		t.Fatalf("%d, %d and %d batches, %d bytes of classes", s.Batches(Train), s.Batches(Valid), s.Batches(Test), s.TargetBytes())
	}
	for i, want := range []ID{{Train, 0, 0}, {Train, 0, 1}, {Train, 1, 0}, {Train, 1, 1}, {Valid, 0, 0}, {Test, 0, 0}} {
		if got := s.Nth(i); got != want {
			t.Errorf("batch %d of the samples is %+v, want %+v", i, got, want)
		}
	}
	var sl Picked
	for epoch := range 2 {
		var nodes []uint32
		var labels []int32
		for b := range 2 { // the last batch, of one node, is kept
			key := s.Pick(ID{Train, epoch, b}, &sl)
			if len(sl.Nodes) != 2-b || key != rng.Key(1, forDraws, uint64(epoch), uint64(b)) {
				t.Errorf("epoch %d, batch %d: %d seed nodes, key %x", epoch, b, len(sl.Nodes), key)
			}
			nodes, labels = append(nodes, sl.Nodes...), append(labels, sl.Labels...)
		}
		want := []uint32{0, 1, 4}
		src := rng.New(rng.Key(1, forOrder, uint64(epoch)))
		rng.Shuffle(&src, want)
		if !slices.Equal(nodes, want) {
			t.Errorf("epoch %d visits %v, want %v", epoch, nodes, want)
		}
		for i, v := range nodes {
			if labels[i] != v2class[v] {
				t.Errorf("epoch %d: node %d has class %d", epoch, v, labels[i])
			}
		}
	}
	key := s.Pick(ID{Split: Valid}, &sl)
	if !slices.Equal(sl.Nodes, []uint32{2, 5}) || !slices.Equal(sl.Labels, []int32{0, 1}) || key != rng.Key(1, forDraws, math.MaxUint64, 0) {
		t.Errorf("validation: %v %v", sl.Nodes, sl.Labels)
	}
	key = s.Pick(ID{Split: Test}, &sl)
	if !slices.Equal(sl.Nodes, []uint32{3, 6}) || !slices.Equal(sl.Labels, []int32{0, 1}) || key != rng.Key(1, forDraws, math.MaxUint64-1, 0) {
		t.Errorf("test: %v %v", sl.Nodes, sl.Labels)
	}
}

var v2class = map[uint32]int32{0: 0, 1: 0, 4: 1}

func TestRatio(t *testing.T) {
	for _, c := range []struct {
		n     int
		ratio float64
		want  int
	}{{1000, 0.1, 100}, {3, 0.01, 1}, {10, 0.55, 6}, {7, 1, 7}} {
		s := split{make([]uint32, c.n), make([]int32, c.n), make([]byte, 2*c.n), 2}
		for i := range s.nodes {
			s.nodes[i], s.labels[i] = uint32(i), int32(i)
			s.targets[2*i], s.targets[2*i+1] = byte(i), byte(i>>8)
		}
		s.keep(c.ratio, 5)
		if len(s.nodes) != c.want || len(s.labels) != c.want {
			t.Errorf("%g of %d: %d", c.ratio, c.n, len(s.nodes))
		}
		for i, v := range s.nodes {
			if b := s.targetsOf(i); s.labels[i] != int32(v) || b[0] != byte(v) || b[1] != byte(v>>8) {
				t.Errorf("%g of %d: node %d has label %d, classes % x", c.ratio, c.n, v, s.labels[i], b)
			}
		}
		if sorted := slices.Sorted(slices.Values(s.nodes)); len(slices.Compact(sorted)) != c.want {
			t.Errorf("%g of %d: a node twice", c.ratio, c.n)
		}
	}
}

// TestEpochsCoverTheTrainingSet asks for batches in any order within a window,
// as workers do.
func TestEpochsCoverTheTrainingSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "nodes")
		p := mbfile.Params{BatchSize: rapid.IntRange(1, 70).Draw(t, "batch"), Fanout: []int{1}, Epochs: rapid.IntRange(1, 6).Draw(t, "epochs"), Seed: 3}
		s := &Seeds{params: p, split: [3]split{{nodes: make([]uint32, n), labels: make([]int32, n)}}, orders: orders{seed: 3, n: n, of: map[int]*visit{}}}
		for i := range n {
			s.split[Train].nodes[i] = uint32(10 * i)
		}
		per := s.Batches(Train)
		visited := make([][]uint32, p.Epochs*per)
		window := rapid.IntRange(1, 9).Draw(t, "window")
		for first := 0; first < len(visited); first += window {
			last := min(first+window, len(visited)) - 1
			for i := last; i >= first; i-- {
				var sl Picked
				s.Pick(s.Nth(i), &sl)
				visited[i] = sl.Nodes
			}
			s.Forget(last / per)
		}
		for e := range p.Epochs {
			whole := slices.Concat(visited[e*per : (e+1)*per]...)
			slices.Sort(whole)
			if !slices.Equal(whole, s.split[Train].nodes) {
				t.Fatalf("epoch %d visits %v", e, whole)
			}
		}
	})
}

// TestSeedOfADraw pins the key of a draw to its documentation.
func TestSeedOfADraw(t *testing.T) {
	const seed, epoch, batch, hop, node = 11, 2, 7, 1, 42
	if rng.Join(rng.Join(rng.Key(seed, forDraws, epoch, batch), hop), node) != rng.Key(seed, 3, epoch, batch, hop, node) {
		t.Error("joining words is no longer the same as keying by all of them")
	}
}
