package tool

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestSpread(t *testing.T) {
	if s, want := SpreadOf([]float64{3, 1, 10, 2}), (Spread{2.5, 1, 10, 4}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	if s := SpreadOf(nil); !math.IsNaN(s.Median) || s.Rounds != 0 {
		t.Errorf("of nothing: %+v", s)
	}
	sum := Summary([]int{1, 5, 3}, Named("twice", func(n int) float64 { return float64(2 * n) }))
	if sum["rounds"] != 3 || sum["twice"] != (Spread{6, 2, 10, 3}) {
		t.Errorf("%+v", sum)
	}
}

// TestSteady: the first epoch fills the caches, and a drive that was idle is not itself in
// the first three seconds.
func TestSteady(t *testing.T) {
	for _, c := range []struct{ seconds, want []float64 }{
		{[]float64{5, 4, 6}, []float64{4, 6}},
		{[]float64{1, 1, 1.5, 2, 7}, []float64{2, 7}}, // 3.5 seconds are gone
		{[]float64{1, 1}, []float64{1}},
		{[]float64{2}, []float64{2}},
		{nil, nil},
	} {
		var epochs []Epoch
		for _, s := range c.seconds {
			epochs = append(epochs, Epoch{Seconds: s})
		}
		var got []float64
		for _, e := range Steady(epochs) {
			got = append(got, e.Seconds)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v count, want %v", c.seconds, got, c.want)
		}
	}
	// As many epochs as Steady leaves ten seconds of.
	for _, c := range []struct {
		bytes int64
		rate  float64
		want  int
	}{{40e9, 2e9, 2}, {2e9, 2e9, 1 + 2 + 10}, {5e9, 2e9, 1 + 1 + 4}, {0, 1e12, 1000}} {
		if n := SteadyEpochs(c.bytes, c.rate); n != c.want {
			t.Errorf("%d bytes at %v: %d epochs, want %d", c.bytes, c.rate, n, c.want)
		}
		each := float64(c.bytes) / c.rate
		epochs := slices.Repeat([]Epoch{{Seconds: each}}, c.want)
		if left := each * float64(len(Steady(epochs))); c.bytes > 0 && left < steadyFor {
			t.Errorf("%d bytes at %v: %v seconds count", c.bytes, c.rate, left)
		}
	}
}

func ExamplePrint() {
	fmt.Println(Print(SpreadOf([]float64{1, 2, 3})))
	fmt.Println(Print(math.NaN()))
	// Output:
	// {"median":2,"min":1,"max":3,"rounds":3}
	// <nil>
	// json: unsupported value: NaN
}
