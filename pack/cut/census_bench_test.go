package cut

import (
	"fmt"
	"testing"

	"diskgnn/internal/rng"
)

// BenchmarkCensus takes the census of more and more batches of 64 input nodes: what a
// batch takes must not grow with their number.
//
//	go test -run '^$' -bench Census -benchtime 1x ./pack
func BenchmarkCensus(b *testing.B) {
	const nodes, inputs = 1 << 20, 64
	for _, batches := range []int{60_000, 120_000, 240_000} {
		b.Run(fmt.Sprint(batches), func(b *testing.B) {
			for b.Loop() {
				src := rng.New(1)
				t := newCensusTaker(nodes, batches, []int64{0})
				list := make([]uint32, inputs)
				for i := range batches {
					for k := range list { // distinct, some of them used often
						list[k] = uint32(k)<<14 | src.Uint32n(1<<14)>>src.Uint32n(14)
					}
					t.add(i, 0, list)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batches), "ns/batch")
		})
	}
}
