package beacon

import "testing"

func TestTry2(t *testing.T) {
	for _, mode := range []Mode{Faithful, Strict} {
		p := Defaults(mode)
		mean := map[string]float64{}
		for _, w := range workloads {
			tp := map[string]float64{}
			en := map[string]float64{}
			cm := 0
			for i := range platforms {
				pf := &platforms[i]
				for seed := range 3 {
					tr, _ := w.Trace(p, uint64(seed), 0)
					b, err := Run(p, pf, tr)
					if err != nil {
						t.Fatal(err)
					}
					tp[pf.Name] += b.Throughput() / 3
					en[pf.Name] += b.Joules.Total() / 3
					cm = len(tr.Commands)
				}
			}
			r := func(a, b string) {
				x := tp[a] / tp[b]
				mean[a+"/"+b] += x / 5
				t.Logf("%s %s %s/%s %.2f energy %.2f", mode, w.Name, a, b, x, en[b]/en[a])
			}
			t.Log(cm)
			r("SmartSAGE", "CC")
			r("GLIST", "CC")
			r("BG-1", "CC")
			r("BG-DG", "BG-1")
			r("BG-SP", "BG-1")
			r("BG-DGSP", "BG-SP")
			r("BG-2", "BG-DGSP")
			r("BG-2", "BG-1")
			r("BG-2", "CC")
		}
		t.Log(mode, mean)
	}
}
