package chart

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestLanes: spans lie where the axis says, by hand; what is no time is left out, and text escaped.
func TestLanes(t *testing.T) {
	got := string(Lanes("a<b", "seconds", 10, []Lane{
		{"read", "disk", []Span{{0, 5, false, "five"}, {5, 10, true, "<"}}},
		{"compute & more", "compute", []Span{{2, math.NaN(), false, "none"}, {6, 4, false, "backwards"}, {-1, 20, false, "beyond"}, {1, 1, false, "short"}}},
	}, func(v float64) string { return fmt.Sprint(v) }))
	for _, want := range []string{
		`aria-label="a&lt;b"`, `viewBox="0 0 460 106"`, ">compute &amp; more<", ">seconds<",
		`<rect class="disk" x="0" y="16" width="230" height="14"><title>five</title>`,
		`<rect class="disk pale" x="230" y="16" width="230" height="14"><title>&lt;</title>`,
		`<rect class="compute" x="0" y="52" width="460" height="14"><title>beyond</title>`,
		`<rect class="compute" x="46" y="52" width="0.5" height="14"><title>short</title>`,
		`<text class="start" x="0" y="86">0</text>`, `<text class="end" x="460" y="86">10</text>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("without %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, "NaN") || strings.Contains(got, "backwards") {
		t.Errorf("draws what is no time:\n%s", got)
	}
	if got := string(Lanes("", "", 0, []Lane{{"none", "", nil}}, func(float64) string { return "" })); strings.Contains(got, "NaN") {
		t.Errorf("of nothing: %s", got)
	}
}
