package beacon

import "testing"

func TestTry(t *testing.T) {
	for _, mode := range []Mode{Faithful, Strict} {
		p := Defaults(mode)
		w := Workload{Name: "golden", Degree: 300, Feature: 400}
		for i := range platforms {
			pf := &platforms[i]
			sum, joules := 0.0, 0.0
			for seed := range 10 {
				tr, err := w.Trace(p, uint64(seed), 0)
				if err != nil {
					t.Fatal(err)
				}
				b, err := Run(p, pf, tr)
				if err != nil {
					t.Fatal(err)
				}
				sum += b.Period.Seconds() * 1e6 / 10
				joules += b.Joules.Total() / 10
				if seed == 0 && mode == Faithful {
					t.Logf("%+v dies %.1f channels %.1f", b.Joules, b.Die.Busy.Seconds()/b.Flash.Seconds(), b.Channel.Busy.Seconds()/b.Flash.Seconds())
				}
			}
			t.Logf("%s %-10s %.1f µs %.3f mJ %.2f W", mode, pf.Name, sum, joules*1e3, joules/sum*1e6)
		}
	}
}
