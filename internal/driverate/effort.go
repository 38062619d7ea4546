// Package driverate sets the duration of measurements of drives, keeps their time, and measures the rate
// of writes. The rates of reads need a storage stack: see iostack.Sequential, iostack.Random, and Drive
// of iostack/all, which finds the reads that are fastest on the drive.
//
// Drives of virtual machines are throttled: they earn credit at a rate of bytes per second, and save
// unused credit for a second or more. After an idle second they are therefore faster than their
// sustained rate, and a short measurement finds only the faster rate. So a measurement first spends the
// credit by a load, and continues without a pause.
package driverate

import (
	"sync"
	"time"
)

// Effort is the duration of a measurement. The zero value is a short measurement: one pass over the data,
// without a drain.
type Effort struct {
	Drain time.Duration // load before the measurement
	For   time.Duration // the measurement
}

// Sustained is the effort for reference figures. Limited is the effort of commands that measure the drive
// for a decision: it spends the credit of most throttles, but is too short for a drive with an unsteady
// rate.
var (
	Sustained = Effort{Drain: 3 * time.Second, For: 10 * time.Second}
	Limited   = Effort{Drain: 2 * time.Second, For: 3 * time.Second}
)

// Total returns the duration of the load.
func (e Effort) Total() time.Duration { return e.Drain + e.For }

// Once reports whether the effort is one pass over the data.
func (e Effort) Once() bool { return e.For <= 0 }

// Rate is the result of a measurement.
type Rate struct {
	PerSecond float64 // bytes, or requests
	Seconds   float64 // duration of the measurement
	Drained   float64 // seconds of load before it
	First     float64 // rate in the first second of the drain, as a short measurement finds it; 0 without a drain
}

// Meter keeps the time and the count of one measurement, which begins with NewMeter. Its methods may be
// called concurrently.
type Meter struct {
	effort Effort
	now    func() time.Time

	mu     sync.Mutex
	begin  time.Time     // begin of the load
	from   time.Time     // begin of the measurement; zero during the drain
	last   time.Time     // time of the last completion
	done   int64         // count since from
	first  int64         // count in the first second of the drain
	opened time.Duration // time that first covers
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

// Done counts n bytes, or requests, that the drive has just completed, and reports whether the load must
// continue. Completions after the end do not count.
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

// More reports whether the load must continue.
func (m *Meter) More() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.over
}

// Sync extends the measurement to the present time. Call it when the writes have become durable.
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
