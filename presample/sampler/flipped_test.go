package sampler

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/presample/mbfile"
)

// TestFlippedBit flips a bit of a graph that was fine, as a mapped one may lose one while batches
// are drawn. Every sampler refuses ids and offsets that are out of range, and draws a valid batch of
// those that are not.
func TestFlippedBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, fanout := genGraph(t), genFanout(t)
		n := g.NumNodes()
		if n < 2 {
			return
		}
		p := mbfile.Params{BatchSize: n, Fanout: fanout, Epochs: 1}
		switch rapid.SampledFrom([]string{"uniform", "labor", "buffer"}).Draw(t, "method") {
		case "labor":
			p.Method = mbfile.Labor
		case "buffer":
			p = bufferParams(t, n)
		}
		from := &Seeds{params: p, split: [3]split{{nodes: identity(make([]uint32, n)), labels: make([]int32, n)}}}
		if from.orders.init(n, &p); p.Partitions > 0 {
			var err error
			if from, err = bufferSeeds(p, n, identity(make([]uint32, n))); err != nil {
				return // a sequential order, of more partitions than the buffer holds
			}
		}
		g = &graph.CSC{Indptr: slices.Clone(g.Indptr), Indices: slices.Clone(g.Indices)}
		if offset := rapid.Bool().Draw(t, "offset"); offset || len(g.Indices) == 0 {
			g.Indptr[rapid.IntRange(0, n).Draw(t, "node")] ^= 1 << rapid.IntRange(0, 63).Draw(t, "bit")
		} else {
			g.Indices[rapid.IntRange(0, len(g.Indices)-1).Draw(t, "edge")] ^= 1 << rapid.IntRange(0, 31).Draw(t, "bit")
		}
		for _, hash := range []bool{false, true} {
			b, err := New(g, fanout, Options{Hash: hash}).Draw(t.Context(), from, ID{Split: Train})
			if err == nil {
				if err = b.Validate(); err == nil && int(slices.Max(b.Input)) < n {
					continue
				}
				t.Fatalf("a batch of nodes up to %d of %d: %v", slices.Max(b.Input), n, err)
			}
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("hash %t: %v", hash, err)
			}
		}
	})
}

// TestOffsetsOutOfRange locates a node by itself. The last one's differences overflow.
func TestOffsetsOutOfRange(t *testing.T) {
	for _, c := range []struct {
		first, end int64
		ok         bool
	}{{0, 3, true}, {3, 3, true}, {0, 4, false}, {4, 4, false}, {2, 1, false}, {-1, 1, false}, {1, -1, false}, {100, -1<<63 + 50, false}} {
		g := &graph.CSC{Indptr: []int64{c.first, c.end}, Indices: make([]uint32, 3)}
		err := Graph(g).Locate([]uint32{0}, make([]int64, 1), make([]uint32, 1))
		if _, row := g.Row(0); (err == nil) != c.ok || (row == nil) != c.ok || err != nil && !(errors.Is(err, fault.ErrCorrupt) && errors.Is(row, fault.ErrCorrupt)) {
			t.Errorf("edges %d to %d of 3: %v, %v", c.first, c.end, err, row)
		}
	}
	if _, err := (&graph.CSC{Indptr: []int64{0, 0}}).Row(1); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a node that is not there: %v", err)
	}
}

// A source that no partition has is refused, whether it is counted or drawn.
func TestPartitionOutOfRange(t *testing.T) {
	w := &within{of: make([]uint16, 3), held: []bool{true}}
	if n, err := w.count(t.Context(), []uint32{0, 2, 3}); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("counted %d: %v", n, err)
	}
	w.begin(nil)
	if n, err := w.take(t.Context(), make([]uint32, 3), []uint32{0, 2, 3}); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("took %d: %v", n, err)
	}
}

// TestOutOfRange has the ends of what is in range, and what follows them.
func TestOutOfRange(t *testing.T) {
	for what, c := range map[string]struct {
		g  graph.CSC
		ok bool
	}{
		"all":                    {graph.CSC{Indptr: []int64{0, 2, 3}, Indices: []uint32{0, 1, 1}}, true},
		"the first id beyond":    {graph.CSC{Indptr: []int64{0, 2, 3}, Indices: []uint32{0, 2, 1}}, false},
		"ends at the last edge":  {graph.CSC{Indptr: []int64{0, 3, 3}, Indices: []uint32{0, 1, 1}}, true},
		"ends after it":          {graph.CSC{Indptr: []int64{0, 4, 4}, Indices: []uint32{0, 1, 1}}, false},
		"descends":               {graph.CSC{Indptr: []int64{2, 1, 3}, Indices: []uint32{0, 1, 1}}, false},
		"begins before the edge": {graph.CSC{Indptr: []int64{-1, 2, 3}, Indices: []uint32{0, 1, 1}}, false},
		"is negative":            {graph.CSC{Indptr: []int64{1, -1 << 63, 3}, Indices: []uint32{0, 1, 1}}, false},
	} {
		for _, hash := range []bool{false, true} {
			for _, fanout := range []int{all, 1} {
				var b graph.Batch
				err := New(&c.g, []int{fanout, fanout, fanout, fanout}, Options{Hash: hash}).sample(t.Context(), &b, []uint32{0, 1}, 1)
				if drawn := fanout == all || !(c.g.Indptr[1] == 2 && c.g.Indptr[0] == 0); drawn && (err == nil) != c.ok || err != nil && !errors.Is(err, fault.ErrCorrupt) {
					t.Errorf("%s, hash %t, fanout %d: %v", what, hash, fanout, err)
				}
			}
		}
		rows := 0
		for v := range uint32(2) {
			if _, err := c.g.Sources(v); err == nil {
				rows++
			} else if !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if c.ok != (rows == 2) {
			t.Errorf("%s: %d rows are fine", what, rows)
		}
	}
}
