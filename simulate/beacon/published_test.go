package beacon

import (
	"context"
	"math"
	"testing"
)

// studied runs all workloads on all platforms, some batches of each.
func studied(t *testing.T, m Mode, batches int, settings ...string) map[string]map[string]*Outcome {
	t.Helper()
	p := Defaults(m)
	if err := p.Set(settings...); err != nil {
		t.Fatal(err)
	}
	var studies []Study
	for _, w := range workloads {
		studies = append(studies, Study{Source: Trees{Workload: w}, Params: p, Platforms: platforms})
	}
	all, err := RunAll(context.Background(), studies, batches, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]map[string]*Outcome{}
	for i, w := range workloads {
		by[w.Name] = map[string]*Outcome{}
		for j := range all[i] {
			by[w.Name][all[i][j].Platform] = &all[i][j]
		}
	}
	return by
}

// The means that were published, within the bounds that were set before.
func TestPublished(t *testing.T) {
	by := map[Mode]map[string]map[string]*Outcome{Faithful: studied(t, Faithful, 3), Strict: studied(t, Strict, 1)}
	all := Claims(by)
	if len(all) != len(claims) {
		t.Fatalf("%d claims of %d", len(all), len(claims))
	}
	for _, c := range all {
		t.Logf("%-52s paper %6.2f  authors' %6.2f  faithful %6.2f  strict %6.2f", c.What, c.Paper, c.Authors, c.Faithful, c.Strict)
		if !c.Holds() {
			t.Errorf("%s: %.3f, published %.3f", c.What, c.Faithful, c.Paper)
		}
	}
	delete(by[Strict]["ppi"], "CC")
	if Claims(by) != nil {
		t.Error("a platform is missing, and claims are compared")
	}
}

// The golden vector: microseconds of a batch of 128 on nodes of 300 neighbours and vectors
// of 400 bytes, as the authors' simulator gives them on the mean of ten seeds.
func TestGoldenVector(t *testing.T) {
	w := Workload{Name: "golden", Degree: 300, Feature: 400}
	all, err := RunAll(context.Background(), []Study{{Trees{Workload: w}, Defaults(Faithful), platforms}}, 10, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"CC": 4484, "BG-1": 1929, "BG-DG": 1756, "BG-SP": 332.9, "BG-DGSP": 267.2, "BG-2": 207.6}
	for _, o := range all[0] {
		us := o.Seconds * 1e6
		t.Logf("%-10s %.1f µs, golden %.1f", o.Platform, us, want[o.Platform])
		if o.Commands != 5120 {
			t.Errorf("%s: %v commands of a batch", o.Platform, o.Commands)
		}
		if g, found := want[o.Platform]; found && math.Abs(us/g-1) > 0.03 {
			t.Errorf("%s: %.1f µs, want %.1f within 3%%", o.Platform, us, g)
		}
	}
}
