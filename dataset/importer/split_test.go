package importer

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/internal/fault"
)

// drawn returns the part of every node.
func drawn(t rapid.TB, s Split, classes []int32) []uint8 {
	t.Helper()
	l := newLabelling(&Shape{Nodes: int64(len(classes))})
	for v, c := range classes {
		if err := l.Label(int64(v), int64(c)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.draw(l); err != nil {
		t.Fatal(err)
	}
	return l.part
}

// TestSplitSizes checks that a split has the sizes that its shares say, of the labelled nodes or of
// each class, and that another seed gives another one.
func TestSplitSizes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		classes := rapid.SliceOfN(rapid.Int32Range(graph.Unlabelled, 3), 50, 300).Draw(rt, "classes")
		s := Split{Parts: "60/20/10", Seed: rapid.Uint64().Draw(rt, "seed"), Stratify: rapid.Bool().Draw(rt, "stratify")}
		part := drawn(rt, s, classes)
		for stratum := int32(0); stratum < 4; stratum++ {
			var n [4]int
			total := 0
			for v, c := range classes {
				if c == graph.Unlabelled && part[v] != 0 {
					rt.Fatalf("node %d has no label and is in a split", v)
				}
				if c != graph.Unlabelled && (c == stratum || !s.Stratify) {
					n[part[v]]++
					total++
				}
			}
			for i, share := range []float64{0.6, 0.2, 0.1} {
				if d := float64(n[i+1]) - share*float64(total); d < -1 || d > 1 {
					rt.Fatalf("%d of %d nodes in part %d", n[i+1], total, i)
				}
			}
		}
		if !slices.Equal(part, drawn(rt, s, classes)) {
			rt.Fatal("another draw of the same split")
		}
	})
	classes := make([]int32, 100)
	if slices.Equal(drawn(t, Split{Parts: "50/25/25", Seed: 1}, classes), drawn(t, Split{Parts: "50/25/25", Seed: 2}, classes)) {
		t.Error("two seeds draw the same split")
	}
}

// TestSplitIsUniform counts where a node goes under many seeds.
func TestSplitIsUniform(t *testing.T) {
	const draws = 4000
	var n [10][4]int
	for seed := range uint64(draws) {
		for v, p := range drawn(t, Split{Parts: "50/30/20", Seed: seed}, make([]int32, 10)) {
			n[v][p]++
		}
	}
	for v := range n {
		for part, share := range []float64{0, 0.5, 0.3, 0.2} {
			if d := float64(n[v][part])/draws - share; d < -0.04 || d > 0.04 {
				t.Errorf("node %d is in part %d %d times of %d", v, part, n[v][part], draws)
			}
		}
	}
}

func TestSplitRefuses(t *testing.T) {
	for _, parts := range []string{"", "60/40", "60/20/20/1", "a/b/c", "60/30/20", "0/50/50", "-1/50/50", "NaN/1/1"} {
		if _, err := (&Split{Parts: parts}).shares(); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%q: %v", parts, err)
		}
	}
}
