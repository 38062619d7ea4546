package fill

import (
	"testing"

	"diskgnn/internal/dtype"
	"diskgnn/internal/rng"
)

// BenchmarkAccumulate adds rows of 128 elements to sums that no cache holds.
func BenchmarkAccumulate(b *testing.B) {
	const nodes, rows = 200_000, 2048
	shape := Shape{128, dtype.Float32}
	s := NewSums(Options{Shape: shape, Memory: LeastMemory(shape) + 2*nodes*shape.sumBytes(), Workers: 1}, nodes)
	values, src := make([]float32, rows*128), rng.New(1)
	for i := range pairs {
		s.keys, s.nodeOf = append(s.keys, uint32(i*rows/pairs)), append(s.nodeOf, src.Uint32n(nodes))
	}
	b.SetBytes(pairs * 128 * 4)
	for b.Loop() {
		if err := s.accumulate(b.Context(), values, 0, s.keys, s.nodeOf); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pairs, "ns/edge")
}
