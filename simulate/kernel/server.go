package kernel

// Server is one queue before k equal servers, in order of arrival. A job's duration is known when it
// arrives, so its end is too, and a job needs no event of its own: the model schedules the next
// event.
type Server struct {
	free   []Time // when each server is idle: the least first
	starts fifo[Time]
	last   Time // of arrivals
	stats  Stats
}

// Stats is the counters of a Server.
type Stats struct {
	Jobs    int64
	Busy    Time    // of all servers together
	Waited  float64 // picoseconds of all jobs together, before they were served: more than Time may reach
	Longest Time    // that a job waited
	Queue   int     // most jobs that waited at once
	servers int
}

// NewServer returns k idle servers; k must be positive.
func NewServer(k int) *Server {
	return &Server{free: make([]Time, k), stats: Stats{servers: k}}
}

// Serve gives the servers a job that arrives at a time and takes a duration, and returns
// when it is done. Times must not decrease from call to call; they may lie ahead of the
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

// replace gives the server that was idle first its next time, in a binary heap.
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

// Stats returns the counters over all jobs submitted.
func (s *Server) Stats() Stats { return s.stats }

// Utilisation returns the share of a duration in which the servers worked: all jobs must
// have been done in it.
func (s Stats) Utilisation(over Time) float64 {
	if over <= 0 || s.servers == 0 {
		return 0
	}
	return float64(s.Busy) / float64(over) / float64(s.servers)
}

// MeanQueue returns the jobs that waited on average, over a duration in which all were done
// (Little's law: the sum of all waiting is the queue's length, summed over time).
func (s Stats) MeanQueue(over Time) float64 {
	if over <= 0 {
		return 0
	}
	return s.Waited / float64(over)
}
