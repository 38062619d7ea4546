package packfile

import (
	"slices"
	"testing"
)

func TestBandEdges(t *testing.T) {
	all := []float64{50, 30, 20, 10, 5}
	for _, c := range []struct {
		touched, cache int64
		percent        []float64
		want           []int64
	}{
		{1000, 50, all, []int64{500, 300, 200, 100, 50}},
		{1000, 0, all, []int64{500, 300, 200, 100, 50, 0}},
		{1000, 120, all, []int64{500, 300, 200, 120}},
		{1000, 1000, all, []int64{1000}},
		{1000, 600, all, []int64{600}},
		{150, 50, all, []int64{150, 100, 50}}, // nothing beyond rank 150 is ever read
		{30, 50, all, []int64{30}},
		{1000, 70, []float64{}, []int64{70}},
	} {
		if got := BandEdges(1000, c.touched, c.cache, c.percent); !slices.Equal(got, c.want) {
			t.Errorf("%d touched, cache %d, bands %v: %v, want %v", c.touched, c.cache, c.percent, got, c.want)
		}
	}
}
