// Package driverate says how long a drive is loaded to measure it, keeps the clock meanwhile, and
// measures how fast a drive takes writes. Its reading counterparts need a storage stack:
// iostack.Sequential, iostack.Random, and Drive of iostack/all, which chooses the reads that suit
// the drive best.
//
// Drives of virtual machines are throttled: they earn credit at a rate of bytes a second and save up
// the unused credit, for a second or more. A load that follows an idle second is therefore faster
// than the drive is, and a short measurement shows that alone. The sustained rate is measured after
// a load has spent the savings, without a pause between.
package driverate

import (
	"sync"
	"time"
)

// Effort says how long a drive is measured. The zero value stands for one pass over the data, from
// its first byte: a short measurement.
type Effort struct {
	Drain time.Duration // of load before the clock starts
	For   time.Duration // measured, from then on
}

// Sustained is the effort for figures that serve as a reference. Limited is the effort of a command
// while the user waits for something else: it drains the savings of most throttles, and is too brief
// for a drive with an unsteady rate.
var (
	Sustained = Effort{Drain: 3 * time.Second, For: 10 * time.Second}
	Limited   = Effort{Drain: 2 * time.Second, For: 3 * time.Second}
)

// Total returns how long the drive is loaded.
func (e Effort) Total() time.Duration { return e.Drain + e.For }

// Once tells whether the effort is one pass.
func (e Effort) Once() bool { return e.For <= 0 }

// Rate is the result of a measurement.
type Rate struct {
	PerSecond float64 // bytes, or requests
	Seconds   float64 // the clock ran
	Drained   float64 // seconds of load before
	First     float64 // per second, in the first second of load: what a short measurement finds; 0 without a drain
}

// Meter keeps the time of one measurement, which begins when the Meter is made. Its methods may
// be called from several goroutines.
type Meter struct {
	effort Effort
	now    func() time.Time

	mu     sync.Mutex
	begin  time.Time     // of the load
	from   time.Time     // the clock runs; zero while the drive is drained
	last   time.Time     // when something was done
	done   int64         // since from
	first  int64         // in the first second of the drain
	opened time.Duration // that first covers
	over   bool
}

// NewMeter starts a measurement.
func NewMeter(e Effort) *Meter { return newMeter(e, time.Now) }

func newMeter(e Effort, now func() time.Time) *Meter {
	m := &Meter{effort: e, now: now, begin: now()}
	m.last = m.begin
	if e.Once() || e.Drain <= 0 {
		m.from = m.begin
	}
	return m
}

// Done counts bytes, or requests, that the drive has just completed, and tells whether the load goes
// on. Completions after its end do not count.
func (m *Meter) Done(n int64) (more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return false
	}
	now := m.now()
	m.last = now
	if !m.from.IsZero() {
		m.done += n
		m.over = !m.effort.Once() && now.Sub(m.from) >= m.effort.For
		return !m.over
	}
	if loaded := now.Sub(m.begin); m.opened < time.Second {
		m.first += n
		m.opened = loaded
	}
	if now.Sub(m.begin) >= m.effort.Drain {
		m.from = now
	}
	return true
}

// More tells whether the load goes on.
func (m *Meter) More() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.over
}

// Sync extends the measurement to this moment, at which the writes have become durable.
func (m *Meter) Sync() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = m.now()
}

// Rate returns the result so far.
func (m *Meter) Rate() Rate {
	m.mu.Lock()
	defer m.mu.Unlock()
	var r Rate
	if m.from.IsZero() {
		return r
	}
	r.Seconds, r.Drained = m.last.Sub(m.from).Seconds(), m.from.Sub(m.begin).Seconds()
	r.PerSecond = float64(m.done) / max(r.Seconds, 1e-9)
	if m.opened > 0 {
		r.First = float64(m.first) / m.opened.Seconds()
	}
	return r
}
