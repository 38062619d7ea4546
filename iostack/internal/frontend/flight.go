package frontend

import (
	"sync"
	"time"
)

// flight is a stopwatch that runs while at least one device read is under way.
type flight struct {
	mu    sync.Mutex
	reads int           // under way
	since time.Time     // when the first of them began
	past  time.Duration // of earlier stretches
}

func (f *flight) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reads++; f.reads == 1 {
		f.since = time.Now()
	}
}

func (f *flight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reads--; f.reads == 0 {
		f.past += time.Since(f.since)
	}
}

// time returns how long it ran, the present stretch included.
func (f *flight) time() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reads > 0 {
		return f.past + time.Since(f.since)
	}
	return f.past
}
