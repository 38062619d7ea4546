package volume

import (
	"sync/atomic"

	"diskgnn/internal/progress"
)

// stopper ends a context when so much was done.
type stopper struct {
	at   int64
	done atomic.Int64
	stop func()
}

func (s *stopper) Task(string, int64, progress.Unit) progress.Task { return s }
func (s *stopper) Logf(string, ...any)                             {}
func (s *stopper) Done()                                           {}
func (s *stopper) Add(n int64) {
	if s.done.Add(n) >= s.at {
		s.stop()
	}
}
