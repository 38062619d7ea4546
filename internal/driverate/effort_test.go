package driverate

import (
	"math"
	"testing"
	"time"
)

// throttled is a drive that earns bytes with time, saves up what is not used, and serves
// what is asked for as fast as its link allows while there are savings.
type throttled struct {
	at            time.Time
	link, rate    float64 // bytes per second
	savings, most float64 // bytes
}

func (d *throttled) idle(s float64) {
	d.at = d.at.Add(time.Duration(s * 1e9))
	d.savings = min(d.most, d.savings+s*d.rate)
}

// read advances time by what n bytes take.
func (d *throttled) read(n float64) {
	took := n / d.link
	if missing := n - d.savings - took*d.rate; missing > 0 {
		took += missing / d.rate
	}
	d.savings = max(0, d.savings+took*d.rate-n)
	d.at = d.at.Add(time.Duration(took * 1e9))
}

// TestDrain: on a drive of 1 GB/s that bursts at 2 GB/s, a measurement after an idle
// second is right only if a load has spent the savings first.
func TestDrain(t *testing.T) {
	const piece = 1 << 20
	for _, c := range []struct {
		effort      Effort
		want, first float64 // GB/s
	}{
		{Effort{}, 4. / 3, 0},                                        // 4 GB: 2 of them in the first second
		{Effort{For: 2 * time.Second}, 1.5, 0},                       // the burst, and a second without
		{Effort{Drain: 2 * time.Second, For: 2 * time.Second}, 1, 2}, // what it keeps up
		{Sustained, 1, 2},
		{Limited, 1, 2},
	} {
		d := &throttled{at: time.Unix(0, 0), link: 2e9, rate: 1e9, most: 1e9}
		d.idle(5)
		m := newMeter(c.effort, func() time.Time { return d.at })
		for bytes := 0; !c.effort.Once() || bytes < 4e9; bytes += piece {
			d.read(piece)
			if !m.Done(piece) {
				break
			}
		}
		r := m.Rate()
		if near := func(got, want float64) bool { return math.Abs(got-1e9*want) < 0.01e9 }; !near(r.PerSecond, c.want) || !near(r.First, c.first) {
			t.Errorf("%+v: %+v, want %v and first %v GB/s", c.effort, r, c.want, c.first)
		}
		if !c.effort.Once() && (math.Abs(r.Seconds-c.effort.For.Seconds()) > 0.01 || math.Abs(r.Drained-c.effort.Drain.Seconds()) > 0.01) {
			t.Errorf("%+v: %+v", c.effort, r)
		}
	}
}

// TestMeterEnds: what is completed after the end does not count, and Sync lengthens the time.
func TestMeterEnds(t *testing.T) {
	at := time.Unix(0, 0)
	m := newMeter(Effort{For: time.Second}, func() time.Time { return at })
	at = at.Add(time.Second)
	if m.Done(10) || m.More() {
		t.Error("the load goes on after its time")
	}
	at = at.Add(time.Second)
	m.Done(100)
	if r := m.Rate(); r.PerSecond != 10 || r.Seconds != 1 {
		t.Errorf("%+v, want 10 in a second", r)
	}
	m.Sync()
	if r := m.Rate(); r.PerSecond != 5 || r.Seconds != 2 {
		t.Errorf("after Sync %+v, want 10 in two seconds", r)
	}
}
