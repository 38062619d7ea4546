package online

import (
	"runtime"
	"sync"

	"diskgnn/internal/fault"
)

// workers are goroutines that live as long as the store and share work that copies, so that
// a batch costs no allocation.
type workers struct {
	n    int
	jobs chan job
	busy sync.Mutex // with the work of one call
	done sync.WaitGroup
}

// work is work of n parts, of which a call does those from lo up to hi.
type work interface{ do(lo, hi int) }

type job struct {
	work   work
	lo, hi int
}

func newWorkers() *workers {
	w := &workers{n: min(4, runtime.GOMAXPROCS(0))} // a few saturate memory
	w.jobs = make(chan job, w.n)
	for range w.n {
		go func() {
			defer fault.Crash()
			for j := range w.jobs {
				j.work.do(j.lo, j.hi)
				w.done.Done()
			}
		}()
	}
	return w
}

// run does all of a work of n parts.
func (w *workers) run(what work, n int) {
	w.busy.Lock()
	defer w.busy.Unlock()
	for i := range w.n {
		w.done.Add(1)
		w.jobs <- job{what, n * i / w.n, n * (i + 1) / w.n}
	}
	w.done.Wait()
}

func (w *workers) close() { close(w.jobs) }
