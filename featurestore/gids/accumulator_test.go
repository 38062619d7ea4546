package gids

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// By hand: 0.95/0.05 = 19, 5.8·1024/4096 = 1.45, 11+20 = 31: 854.05. Two drives of 100 and 20 µs
// and 6.4 GB/s, half of the rate: 1·1.6·120·2.
func TestAccessesByHand(t *testing.T) {
	if n := Defaults().Accesses(); n != 854 {
		t.Errorf("%d accesses by default", n)
	}
	a := Accumulator{Share: .5, Bandwidth: 6.4, Page: 4096, DriveLatency: 100, SystemLatency: 20, Drives: 2}
	if n := a.Accesses(); n != 384 {
		t.Errorf("%d accesses", n)
	}
	if n := measured(70_000, 300*time.Microsecond); n != 399 {
		t.Errorf("%d accesses of 70,000 a second, a single one in 300 µs", n)
	}
	if n := measured(1, 0); n != 1 {
		t.Errorf("%d accesses of a drive without latency", n)
	}
	// What the formula solves: n accesses take n/IOPS on the drives, and as many latencies as
	// make that a share p of the whole.
	iops := a.Bandwidth * 1024 / a.Page * a.Drives // per µs
	n := a.Share / (1 - a.Share) * iops * (a.DriveLatency + a.SystemLatency)
	if busy := n / iops; math.Abs(busy/(busy+a.DriveLatency+a.SystemLatency)-a.Share) > 1e-12 {
		t.Errorf("%v accesses", n)
	}
}

// batchesOf divides batches of some rows and of as many that the buffer serves into gathers, and
// returns how many batches each has.
func batchesOf(g *gathers, rows, served []int64) (list []int) {
	n := 0
	for i := range rows {
		g.add(rows[i], served[i])
		if n++; g.batches == 0 {
			list, n = append(list, n), 0
		}
	}
	return list
}

// By hand, for more than 100 accesses. By paper batches of 60 rows, of which the buffer serves
// 20, are gathered by three: 40, 80, 120. By script the first gather has two, 60 and 120, with
// hits of 40; the second, which needs 140, 180, 220, 260 and so on for 60, 120, 180, never has
// enough, since 40 hits of two batches are added for each batch, but would have with 20.
func TestGathersByHand(t *testing.T) {
	rows, served := slices.Repeat([]int64{60}, 140), slices.Repeat([]int64{20}, 140)
	if got := batchesOf(&gathers{need: 100}, rows[:9], served); !slices.Equal(got, []int{3, 3, 3}) {
		t.Errorf("by paper: %v", got)
	}
	// 100 + 40m < 60m from m = 6 on; then 120 hits are added for each batch.
	if got := batchesOf(&gathers{need: 100, script: true}, rows, served); !slices.Equal(got, []int{2, 6, mostGathered, mostGathered}) {
		t.Errorf("by script: %v", got)
	}
	// Without hits the two agree.
	none := make([]int64, 9)
	if a, b := batchesOf(&gathers{need: 100}, rows[:9], none), batchesOf(&gathers{need: 100, script: true}, rows[:9], none); !slices.Equal(a, []int{2, 2, 2, 2}) || !slices.Equal(a, b) {
		t.Errorf("without hits: %v and %v", a, b)
	}
	// Exactly as many as are needed are not enough.
	if got := batchesOf(&gathers{need: 60}, rows[:4], none); !slices.Equal(got, []int{2, 2}) {
		t.Errorf("of just enough: %v", got)
	}
}

// The batches under way with one: those of its gather, and two in any case.
func TestBefore(t *testing.T) {
	g := &gathers{need: 100}
	for i, want := range []int64{2, 2, 2, 3, 4, 2, 2} {
		if got := g.before(); got != want {
			t.Errorf("batch %d: %d before it, want %d", i, got, want)
		}
		g.add(25, 0)
	}
	g = &gathers{need: math.MaxInt64}
	for range 3 * mostGathered {
		g.add(1, 0)
		if g.before() >= mostGathered {
			t.Fatalf("%d before one", g.before())
		}
	}
}

func TestGathersStates(t *testing.T) {
	g := gathers{need: 100, script: true, batches: 3, accesses: 90, served: 7, last: 5}
	b := g.save(nil)
	if len(b) != gathersBytes {
		t.Errorf("%d bytes", len(b))
	}
	again := gathers{need: 100, script: true}
	d := binio.NewDecoder(b)
	if again.load(d); d.Err() != nil || again != g {
		t.Errorf("%+v, %v", again, d.Err())
	}
	for at, x := range map[int]byte{0: mostGathered, 7: 1, 8: 6, 14: 1, 15: 128, 22: 1, 30: 2} {
		b := g.save(nil)
		b[at] = x
		d := binio.NewDecoder(b)
		if again.load(d); !errors.Is(d.Err(), fault.ErrCorrupt) {
			t.Errorf("byte %d is %d: %+v, %v", at, x, again, d.Err())
		}
	}
}
