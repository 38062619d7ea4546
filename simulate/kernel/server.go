package kernel

// Server is one queue for k equal servers, in order of arrival. The duration of a job is known when it
// arrives, so Serve returns its end at once, and the model schedules the next event for that time.
type Server struct {
	free   []Time // by server: the time from which it is idle, as a heap with the earliest first
	starts fifo[Time]
	last   Time // time of the last arrival
	stats  Stats
}

// Stats are the counters of a Server.
type Stats struct {
	Jobs    int64
	Busy    Time    // sum over all servers
	Waited  float64 // sum of the jobs' waits, in picoseconds; may exceed the range of Time
	Longest Time    // the longest wait of a job
	Queue   int     // the most jobs that waited at a time
	servers int
}

// NewServer returns k idle servers; k must be positive.
func NewServer(k int) *Server {
	return &Server{free: make([]Time, k), stats: Stats{servers: k}}
}

// Serve adds a job that arrives at the time at and takes the duration takes, and returns the time of its
// end. at must not decrease from call to call, otherwise Serve panics; it may be later than the
// simulation's clock.
func (s *Server) Serve(at, takes Time) (done Time) {
	if at < s.last {
		panic("simulate/kernel: a server's jobs arrive out of order")
	}
	s.last = at
	start := max(at, s.free[0])
	done = start + takes
	s.replace(done)
	s.stats.Jobs++
	s.stats.Busy += takes
	if start > at {
		s.wait(at, start)
	}
	return done
}

// wait counts a job that has to wait. Jobs start in the order of their arrival.
func (s *Server) wait(at, start Time) {
	for s.starts.len() > 0 && *s.starts.front() <= at {
		s.starts.pop()
	}
	s.starts.push(start)
	s.stats.Waited += float64(start - at)
	s.stats.Longest = max(s.stats.Longest, start-at)
	s.stats.Queue = max(s.stats.Queue, s.starts.len())
}

// replace sets the time of the first server of the heap.
func (s *Server) replace(t Time) {
	i := 0
	for {
		c := 2*i + 1
		if c >= len(s.free) {
			break
		}
		if c+1 < len(s.free) && s.free[c+1] < s.free[c] {
			c++
		}
		if s.free[c] >= t {
			break
		}
		s.free[i] = s.free[c]
		i = c
	}
	s.free[i] = t
}

// Stats returns the counters of all jobs so far.
func (s *Server) Stats() Stats { return s.stats }

// Utilisation returns the share of the duration over in which the servers worked, from 0 to 1. All jobs
// must end within it.
func (s Stats) Utilisation(over Time) float64 {
	if over <= 0 || s.servers == 0 {
		return 0
	}
	return float64(s.Busy) / float64(over) / float64(s.servers)
}

// MeanQueue returns the mean number of waiting jobs over the duration over, in which all jobs must end. By
// Little's law, the sum of all waits is the integral of the queue's length over time.
func (s Stats) MeanQueue(over Time) float64 {
	if over <= 0 {
		return 0
	}
	return s.Waited / float64(over)
}
