// Package charttest has checks for tests of pages with figures, and of the figures' data.
package charttest

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/internal/chart"
)

var update = flag.Bool("update", false, "write the goldens in testdata anew")

// SameAs fails the test unless got equals the content of the file golden. With -update it writes the file.
func SameAs(t testing.TB, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
		t.Errorf("%s: look at it and, if it is right, run with -update:\n%s", golden, d)
	}
}

// Figures checks that a page has exactly one element for each of the figures, and no others, and that the
// data of every figure is complete.
func Figures(t testing.TB, page string, figures []chart.Figure) {
	t.Helper()
	for _, f := range figures {
		if strings.Count(page, `<figure id="figure-`+f.ID+`"`) != 1 {
			t.Errorf("the figure %q is not on the page, or there twice", f.ID)
		}
		if f.ID == "" || f.Title == "" || f.Unit == "" || len(f.Series) == 0 || len(f.Charts) == 0 {
			t.Errorf("the figure %s: %+v", f.ID, f)
		}
		for _, s := range f.Series {
			if s.Name == "" || len(s.Values) == 0 || len(s.Values) != len(s.X)+len(s.Names) {
				t.Errorf("the figure %s has the series %+v", f.ID, s)
			}
		}
	}
	if n := strings.Count(page, "<figure"); n != len(figures) {
		t.Errorf("%d figures on the page, %d in the data", n, len(figures))
	}
}

// StandsAlone checks that a page has no scripts, links, loads over the network, NaN or infinities.
func StandsAlone(t testing.TB, page string) {
	t.Helper()
	for _, no := range []string{"<script", "http:", "https:", "src=", "href=", "url(", "@import", "NaN", "Inf"} {
		if strings.Contains(page, no) {
			t.Errorf("the page has %q", no)
		}
	}
}

var things = regexp.MustCompile(`<(?:rect|circle|polyline|i) class="([a-z0-9 ]+)"`)

// Styled checks that the style sheet of a page has every class of its drawn elements.
func Styled(t testing.TB, page string) {
	t.Helper()
	style := string(chart.Style()) + string(chart.Things())
	for _, m := range things.FindAllStringSubmatch(page, -1) {
		for _, class := range strings.Fields(m[1]) {
			if !strings.Contains(style, "."+class) {
				t.Errorf("the class %q of %s has no style", class, m[0])
			}
		}
	}
}
