package comparison

import (
	"math"
	"testing"

	"diskgnn/featurestore/all"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

// TestReading: the estimates of each kind of store, by hand.
func TestReading(t *testing.T) {
	d := &Drive{Sequential: 1000, Random: 50}
	for _, c := range []struct {
		store             string
		rowBytes          int64
		random            float64
		training, packing float64
	}{
		// Epochs 0, 1 and 2 take 100, 50 and 100 rows of a table of 4000 bytes.
		{"memory", 10, 50, 4, 0},
		{"packed", 10, 50, 2.5, 4 + 1.5},
		{"rows", 512, 50, 250 * 4096 / 1000., 0},      // rows on one page each
		{"rows", 6144, 50, 250 * 2 * 4096 / 1000., 0}, // on two
		{"rows", 4097, 50, 250 * 2 * 4096 / 1000., 0}, // (4097 + 4096 − 1)/4096
		{"rows", 512, 0.1, 2500, 0},                   // requests bound it
		{"rows", 512, 0, 250 * 4096 / 1000., 0},       // not measured
	} {
		w := workload{rowBytes: c.rowBytes, tableBytes: 4000, inputs: []int64{100, 50}}
		d.Random = c.random
		training, packing := w.reading(d, all.Builtin().Design(c.store), 3)
		if math.Abs(training-c.training) > 1e-9 || packing != c.packing {
			t.Errorf("%s of %d bytes at %v requests a second: %v and %v, want %v and %v", c.store, c.rowBytes, c.random, training, packing, c.training, c.packing)
		}
	}
}

// TestMostInputs: 25 seed nodes in batches of 10, 10 and 5, by hand.
func TestMostInputs(t *testing.T) {
	for _, c := range []struct {
		fanout []int
		nodes  int64
		want   int64
	}{
		{[]int{2, 3}, 1000, 25 * 12},
		{[]int{2, 3}, 120, 25 * 12},
		{[]int{2, 3}, 100, 100 + 100 + 60},
		{[]int{mbfile.AllNeighbours, 3}, 100, 300},
		{nil, 100, 25},
	} {
		if n := mostInputs(25, c.nodes, &presample.Options{BatchSize: 10, Fanout: c.fanout}); n != c.want {
			t.Errorf("fanout %v of %d nodes: %d, want %d", c.fanout, c.nodes, n, c.want)
		}
	}
}
