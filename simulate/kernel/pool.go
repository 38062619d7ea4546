package kernel

// Pool lends k equal units. Those who find none wait in order of arrival.
type Pool struct {
	free    int
	size    int
	waiters fifo[Event]

	granted int64
	most    int     // units lent at once
	lent    float64 // Σ units × picoseconds, up to since
	since   Time
	queue   int // most that waited at once
}

// NewPool returns a pool of k units; k must be positive.
func NewPool(k int) *Pool { return &Pool{free: k, size: k} }

// Acquire borrows a unit now, and reports whether there was one. Otherwise the event waits,
// and is scheduled for the moment when a unit is given back, which it then has.
func (p *Pool) Acquire(s *Sim, e Event) bool {
	if p.free == 0 {
		p.waiters.push(e)
		p.queue = max(p.queue, p.waiters.len())
		return false
	}
	p.count(s.now)
	p.free--
	p.granted++
	p.most = max(p.most, p.size-p.free)
	return true
}

// Release gives a unit back, or hands it to the first that waits.
func (p *Pool) Release(s *Sim) {
	if p.waiters.len() > 0 {
		p.granted++
		s.After(0, *p.waiters.front())
		p.waiters.pop()
		return
	}
	if p.free == p.size {
		panic("simulate/kernel: a unit is given back that was not lent")
	}
	p.count(s.now)
	p.free++
}

func (p *Pool) count(now Time) {
	p.lent += float64(p.size-p.free) * float64(now-p.since)
	p.since = now
}

// Lent returns the units that are lent.
func (p *Pool) Lent() int { return p.size - p.free }

// Waiting returns how many wait.
func (p *Pool) Waiting() int { return p.waiters.len() }

// Granted returns how often a unit was lent, the most that were at once, and the most that
// waited at once.
func (p *Pool) Granted() (times int64, most, queue int) { return p.granted, p.most, p.queue }

// Mean returns the units that were lent on average, from the beginning to now.
func (p *Pool) Mean(s *Sim) float64 {
	p.count(s.now)
	if s.now == 0 {
		return 0
	}
	return p.lent / float64(s.now)
}
