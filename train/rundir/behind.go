package rundir

import (
	"sync/atomic"

	"diskgnn/internal/fault"
)

// behind performs the writes of a run in their order, on goroutines, while the run goes on.
type behind struct {
	latest chan struct{} // closed when the latest write has ended; nil: there was none
	failed atomic.Pointer[error]
}

// Later performs a write after the writes before it, unless one of them failed. Until Wait returns, the
// directory belongs to these writes, and so does the memory that they use. Call Later and Wait from one
// goroutine.
func (b *behind) Later(write func() error) {
	before, done := b.latest, make(chan struct{})
	b.latest = done
	go func() {
		defer fault.Crash()
		defer close(done)
		if before != nil {
			<-before
		}
		if b.failed.Load() != nil {
			return
		}
		if err := write(); err != nil {
			b.failed.Store(&err)
		}
	}()
}

// Wait waits for the writes, and returns the error of the one that failed. The writes after that one were
// not performed.
func (b *behind) Wait() error {
	if b.latest != nil {
		<-b.latest
	}
	if err := b.failed.Swap(nil); err != nil {
		return *err
	}
	return nil
}

// Failed reports, without waiting, whether a write failed: Wait returns its error.
func (b *behind) Failed() bool { return b.failed.Load() != nil }
