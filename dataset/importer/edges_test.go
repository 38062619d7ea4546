package importer_test

import (
	"math"
	"testing"

	"diskgnn/dataset/importer"
)

// TestAddEdges adds what sources may say of their edges: no sum leaves the range that is computed with.
func TestAddEdges(t *testing.T) {
	const most = importer.MaxEdges
	for _, c := range []struct{ n, more, want int64 }{
		{0, 0, 0}, {3, 4, 7}, {most - 1, 1, most}, {most, 1, most + 1}, {most, 2, most + 1}, {most + 1, 0, most + 1},
		{0, math.MaxInt64, most + 1}, {1, math.MaxInt64, most + 1}, {most + 1, math.MaxInt64, most + 1},
	} {
		if got := importer.AddEdges(c.n, c.more); got != c.want {
			t.Errorf("%d and %d are %d, want %d", c.n, c.more, got, c.want)
		}
	}
}
