package residency

import "testing"

// BenchmarkBatch serves batches of 20,000 of a million nodes, with frames for a tenth; the
// lower nodes are used more often.
//
//	go test -run '^$' -bench Batch ./featurestore/residency
func BenchmarkBatch(b *testing.B) {
	const nodes, size = 1 << 20, 20_000
	batches := cycle(nodes, size, 64)
	c := config(nodes, nodes/10, batches)
	held, into := make([]int32, size), make([]int32, size)
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			p := newPolicy(b, name, c)
			start := p.State()
			hits, n := 0, 0
			for b.Loop() {
				if n%len(batches) == 0 && name == Belady {
					b.StopTimer()
					if err := p.LoadState(start); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				p.Batch(batches[n%len(batches)], held, into)
				n++
				for _, f := range held {
					if f != Absent {
						hits++
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/node")
			b.ReportMetric(float64(hits)/float64(n*size), "hits/access")
		})
	}
}
