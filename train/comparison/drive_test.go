package comparison

import (
	"testing"

	"diskgnn/internal/progress"
	"diskgnn/train/score"
)

// TestAccessBytes: the nearest power of two, by ratio: 5792.6 is between 4096 and 8192.
func TestAccessBytes(t *testing.T) {
	for mean, want := range map[float64]int64{1: 4096, 4096: 4096, 5792: 4096, 5793: 8192, 8192: 8192, 60_000: 65536, 700_000: 524_288, 800_000: 1 << 20, 1 << 30: 1 << 20} {
		if n := accessBytes(mean); n != want {
			t.Errorf("%v: %d, want %d", mean, n, want)
		}
	}
}

// TestBesideDrive: a store's rate is compared with the drive's for reads of its size, which is measured
// once.
func TestBesideDrive(t *testing.T) {
	c := &comparison{rep: progress.Discard, driveBytes: 1 << 19, random: map[int64]float64{4096: 1000, 1 << 16: 8000}}
	store := func(request, device score.Score) Store {
		return Store{RequestBytes: request, Device: device, AtRequest: score.Undefined, DeviceFraction: score.Undefined}
	}
	c.result.Stores = []Store{store(4100, 900), store(60_000, 4000), store(1<<20, 10), store(score.Undefined, 10), store(4096, score.Undefined)}
	if err := c.besideDrive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ rate, fraction score.Score }{{1000, 0.9}, {8000, 0.5}, {score.Undefined, score.Undefined}, {score.Undefined, score.Undefined}, {1000, score.Undefined}} {
		s := &c.result.Stores[i]
		same := func(a, b score.Score) bool { return a == b || !a.Defined() && !b.Defined() }
		if !same(s.AtRequest, want.rate) || !same(s.DeviceFraction, want.fraction) {
			t.Errorf("store %d: %v of the drive's %v, want %+v", i, s.DeviceFraction, s.AtRequest, want)
		}
	}
}

// TestRandomRate: each size is measured once.
func TestRandomRate(t *testing.T) {
	f, o := begin(t)
	o.Stores, o.Rounds = []string{"rows"}, 1
	if _, err := f.compare(o); err != nil {
		t.Fatal(err)
	}
	c := &comparison{o: o, rep: progress.Discard, random: map[int64]float64{}}
	c.result.Drive.Path = o.Dataset + "/features.bin"
	first, err := c.randomRate(t.Context(), 8192)
	if err != nil || first <= 0 {
		t.Fatal(first, err)
	}
	c.result.Drive.Path = "gone"
	if again, err := c.randomRate(t.Context(), 8192); err != nil || again != first {
		t.Errorf("again: %v, first %v, %v", again, first, err)
	}
	if _, err := c.randomRate(t.Context(), 4096); err == nil {
		t.Error("a size that was not measured has a rate without a file")
	}
}
