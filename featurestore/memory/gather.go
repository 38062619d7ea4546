package memory

import (
	"runtime"
	"sync"

	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
)

// gatherer copies and widens rows on several goroutines that live as long as the store, so
// that a batch costs no allocation.
type gatherer struct {
	jobs    chan job
	workers int
}

// job fills dst with the rows of src that ids name.
type job struct {
	dst  []float32
	src  []byte
	ids  []uint32
	from dtype.Type
	dim  int
	done *sync.WaitGroup
}

func newGatherer() *gatherer {
	g := &gatherer{workers: min(4, runtime.GOMAXPROCS(0))} // a few saturate memory
	g.jobs = make(chan job, g.workers)
	for range g.workers {
		go func() {
			defer fault.Crash()
			for j := range g.jobs {
				j.run()
				j.done.Done()
			}
		}()
	}
	return g
}

// rows does all of a job, whose done it counts with.
func (g *gatherer) rows(j job) {
	for w := range g.workers {
		lo, hi := len(j.ids)*w/g.workers, len(j.ids)*(w+1)/g.workers
		part := j
		part.dst, part.ids = j.dst[lo*j.dim:hi*j.dim], j.ids[lo:hi]
		j.done.Add(1)
		g.jobs <- part
	}
	j.done.Wait()
}

func (j *job) run() {
	row := j.from.RowBytes(j.dim)
	for i, id := range j.ids {
		kernel.Widen(j.dst[i*j.dim:(i+1)*j.dim], j.src[int(id)*row:int(id)*row+row], j.from, j.dim)
	}
}

func (g *gatherer) close() { close(g.jobs) }
