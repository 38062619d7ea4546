package chart

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestBars: widths are parts of the longest bar, by hand; what is not known has none, and text
// is escaped.
func TestBars(t *testing.T) {
	got := string(Bars("a<b", 0, []Bar{
		{Name: "one", Says: "3 of 4", Bars: [][]Part{{{"c1", 3, "three"}, {"c2", 1, "one"}}}},
		{Name: "two & more", Bars: [][]Part{{{"c1", 2, ""}}, {{"c3", math.NaN(), ""}, {"c4", 1e-9, "<"}}}},
	}, Part{"c5", 1, "mark"}, Part{"c6", math.NaN(), "none"}))
	for _, want := range []string{
		`aria-label="a&lt;b"`, `viewBox="0 0 460 84"`, "two &amp; more", "<title>&lt;</title>",
		`<rect class="c1" x="0" y="18" width="345" height="12"><title>three</title>`,
		`<rect class="c2" x="345" y="18" width="115" height="12"><title>one</title>`,
		`<rect class="c1" x="0" y="58" width="230" height="7">`,
		`<rect class="c4" x="0" y="67" width="1" height="7">`, // so that it is seen
		`<line class="line c5" x1="115" y1="17" x2="115" y2="32"><title>mark</title>`,
		`<line class="line c5" x1="115" y1="57" x2="115" y2="76"><title>mark</title>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("without %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, "NaN") || strings.Contains(got, "c6") || strings.Contains(got, "c3") {
		t.Errorf("draws what is not known:\n%s", got)
	}
	if got := string(Bars("", 8, []Bar{{Bars: [][]Part{{{"c1", 2, ""}}}}})); !strings.Contains(got, `width="115"`) {
		t.Errorf("of a given length: %s", got)
	}
	if got := string(Bars("", 0, []Bar{{Bars: [][]Part{{{"c1", 2, ""}}}}}, Part{"c2", 4, ""})); !strings.Contains(got, `width="230"`) || !strings.Contains(got, `x1="459"`) {
		t.Errorf("with a mark beyond: %s", got)
	}
	if got := string(Bars("", 0, []Bar{{Name: "none"}})); strings.Contains(got, "NaN") {
		t.Errorf("of nothing: %s", got)
	}
}

// TestCurves: points lie where both axes say, and a break where a value is not known.
func TestCurves(t *testing.T) {
	got := string(Curves("scores", "seconds", true, []Curve{
		{"c1", []float64{0, 5, 10}, []float64{0, 50, 100}},
		{"c2 dashed", []float64{0, 2, 4}, []float64{100, math.NaN(), 50}},
	}, func(v float64) string { return fmt.Sprint(v) }, func(v float64) string { return fmt.Sprintf("%g!", v) }))
	for _, want := range []string{
		`<polyline class="line c1" points="62,208 254,108 446,8 "/>`,
		`<circle class="c2 dashed" cx="62" cy="8" r="2.5"/>`, `<circle class="c2 dashed" cx="215.6" cy="108" r="2.5"/>`,
		`>100!</text>`, `<text class="end" x="460" y="225">10</text>`, ">seconds</text>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("without %s:\n%s", want, got)
		}
	}
}
