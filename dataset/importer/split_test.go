package importer

import (
	"errors"
	"slices"
	"strings"
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
		classes := rapid.SliceOfN(rapid.Int32Range(graph.Unlabelled, 3), 50, 300).Draw(rt, "labels are whole numbers")
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

// TestSplitParts: percentages and shares by hand, and what the content parameters say of them.
func TestSplitParts(t *testing.T) {
	for _, c := range []struct {
		parts, content string
		percent        [3]float64
	}{
		{"60/20/20", "60/20/20", [3]float64{60, 20, 20}},
		{" 60% / 20% /20%", " 60% / 20% /20%", [3]float64{60, 20, 20}},
		{"5/2.5/0", "5/2.5/0", [3]float64{5, 2.5, 0}},
		{"1/1/1", "1/1/1", [3]float64{1, 1, 1}},
		{"1/0.2/0.2", "1/0.2/0.2", [3]float64{1, 0.2, 0.2}},
		{"100/0/0", "100/0/0", [3]float64{100, 0, 0}},
		{"0.6/0.2/0.2", "60/20/20", [3]float64{60, 20, 20}},
		{"0.07/0.9/0.03", "7/90/3", [3]float64{7, 90, 3}},
		{"0.33/0.33/0.33", "33/33/33", [3]float64{33, 33, 33}},
		{"0.99999/0.00001/0", "99.999/0.001/0", [3]float64{99.999, 0.001, 0}},
		{"0.6%/0.2%/0.2%", "0.6%/0.2%/0.2%", [3]float64{0.6, 0.2, 0.2}},
		{"1%/0%/0%", "1%/0%/0%", [3]float64{1, 0, 0}},
	} {
		percent, content, err := (&Split{Parts: c.parts}).percent()
		if err != nil || percent != c.percent || content != c.content {
			t.Errorf("%q: %v, %q, want %v, %q; %v", c.parts, percent, content, c.percent, c.content, err)
		}
	}
	// Equal shares in either form draw the same nodes.
	for seed := range uint64(5) {
		classes := make([]int32, 617)
		if !slices.Equal(drawn(t, Split{Parts: "0.55/0.35/0.1", Seed: seed}, classes), drawn(t, Split{Parts: "55/35/10", Seed: seed}, classes)) {
			t.Errorf("seed %d: shares draw other nodes than percentages", seed)
		}
	}
}

func TestSplitRefuses(t *testing.T) {
	for _, parts := range []string{"", "60/40", "60/20/20/1", "a/b/c", "60/30/20", "0/50/50", "-1/50/50", "NaN/1/1", "0/0.5/0.5", "101/0/0", "60%%/20/20", "%/1/1"} {
		if _, err := (&Split{Parts: parts}).shares(); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%q: %v", parts, err)
		}
	}
	// The way out is named where numbers may be either.
	for parts, ways := range map[string]string{
		"0.6/0.2/0.1":      "write 0.6%/0.2%/0.1% or 60%/20%/10%",
		"0.01/0.002/0.002": "write 0.01%/0.002%/0.002% or 1%/0.2%/0.2%",
		"1/0/0":            "write 1%/0%/0% or 100%/0%/0%",
		"8/1/1":            "write 8%/1%/1% or 80%/10%/10%",
		"0.6/0.3/0.2":      "write 0.6%/0.3%/0.2%",
		"60%/20/20":        "write 60%/20%/20%",
		"0.6%/0.2/0.2":     "write 0.6%/0.2%/0.2% or 60%/20%/20%",
	} {
		if _, err := (&Split{Parts: parts}).shares(); !errors.Is(err, fault.ErrUsage) || !strings.HasSuffix(err.Error(), ways) {
			t.Errorf("%q: %v", parts, err)
		}
	}
}
