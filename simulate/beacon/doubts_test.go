package beacon

import (
	"slices"
	"testing"
)

// What claims about energy are by another assumption follows from the components of energy; by
// another degree law, from batches of that.
func TestDoubts(t *testing.T) {
	o := Options{Workloads: workloads, Platforms: platforms, Modes: []Mode{Faithful, Strict}, Batches: 1, Seed: 5, Settings: []string{"batch=16"}}
	r, err := Simulate(t.Context(), o, nil)
	if err != nil || len(r.Claims) != len(claims) || len(r.Doubts) != len(claims) || len(r.EnergyDoubts) != len(assumptions) {
		t.Fatalf("%d claims, %d and %d doubts: %v", len(r.Claims), len(r.Doubts), len(r.EnergyDoubts), err)
	}
	amazon := r.by(rowsOf(r.Rows, ""))[Faithful]["amazon"]
	for what, change := range map[string]func(j Joules) Joules{
		assumptions[0].what:                       func(j Joules) Joules { return j },
		assumptions[1].what:                       func(j Joules) Joules { j.Cores, j.Samplers, j.Router = 0, 0, 0; return j },
		"cores of 0.125 W":                        func(j Joules) Joules { j.Cores /= 2; return j },
		"cores of 0.5 W":                          func(j Joules) Joules { j.Cores *= 2; return j },
		"samplers of 10 mW, not 1":                func(j Joules) Joules { j.Samplers *= 10; return j },
		"1 nJ a command in the router, not 10 pJ": func(j Joules) Joules { j.Router *= 100; return j },
	} {
		i := slices.IndexFunc(r.EnergyDoubts, func(d EnergyDoubt) bool { return d.What == what })
		if i < 0 {
			t.Fatalf("no %q", what)
		}
		d := r.EnergyDoubts[i]
		joules := func(name string) Joules { return change(amazon[name].Joules) }
		bg2, bg1, cc := joules("BG-2"), joules("BG-1"), joules("CC")
		for k, c := range [][2]float64{
			{d.OverCC, cc.Total() / bg2.Total()}, {d.OverBG1, bg1.Total() / bg2.Total()}, {d.Watts, bg2.Total() / amazon["BG-2"].Seconds},
			{d.DRAMShare, bg1.DRAM / bg1.Total()}, {d.PCIeShare, (cc.PCIe + cc.HostDRAM) / cc.Total()},
		} {
			if !near(c[0], c[1]) {
				t.Errorf("%s, figure %d: %v, want %v", what, k, c[0], c[1])
			}
		}
	}
	for k, by := range deviations {
		o := o
		o.Workloads = slices.Clone(workloads)
		for i := range o.Workloads {
			o.Workloads[i].Deviation *= by
		}
		other, err := Simulate(t.Context(), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range r.Doubts {
			if got := []float64{d.Halved, d.More}[k]; d.What != other.Claims[i].What || !near(got, other.Claims[i].Faithful) {
				t.Errorf("%s: %v, want %v", d.What, got, other.Claims[i].Faithful)
			}
		}
	}
}
