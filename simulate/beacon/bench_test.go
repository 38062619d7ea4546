package beacon

import "testing"

// BenchmarkRun is the simulator with its checks on, in events a second of one core.
func BenchmarkRun(b *testing.B) {
	p := Defaults(Strict)
	p.Model.Batch = 1024
	w := workloads[1]
	t, err := w.Trace(p, 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"BG-1", "BG-2"} {
		pf, _ := FindPlatforms(name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			events := int64(0)
			for b.Loop() {
				r, err := Run(p, &pf[0], t)
				if err != nil {
					b.Fatal(err)
				}
				events += r.Events
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
		})
	}
}
