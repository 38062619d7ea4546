// Package copier is the goroutines of a store that copy and widen rows. They live as long as
// the store, so that a batch costs no allocation.
package copier

import (
	"runtime"
	"sync"

	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
)

// Enough returns how many goroutines saturate memory: a few.
func Enough() int { return min(4, runtime.GOMAXPROCS(0)) }

// Copier divides work evenly among its goroutines. Gather, Widen and Run return when all of
// it is done; several goroutines may call them.
type Copier struct {
	workers int
	jobs    chan job  // nil before Start
	groups  sync.Pool // *group
}

// New returns a copier that will have this many goroutines.
func New(workers int) *Copier {
	return &Copier{workers: workers, groups: sync.Pool{New: func() any { return new(group) }}}
}

// Workers returns the number of goroutines.
func (c *Copier) Workers() int { return c.workers }

// Work is work of n parts; a call of Do does the parts from lo up to hi. A goroutine keeps its scratch
// memory between calls.
type Work interface {
	Do(lo, hi int, scratch *[]byte) error
}

// group is what the jobs of one call end in.
type group struct {
	sync.WaitGroup
	mu  sync.Mutex
	err error
}

func (g *group) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
}

// job is a part of a call: some parts of other work, if there is any, or else to fill
// dst with rows of src: those that ids name, or, without ids, all in order.
type job struct {
	dst    []float32
	src    []byte
	ids    []uint32
	from   dtype.Type
	dim    int
	work   Work
	lo, hi int
	group  *group
}

// Start starts the goroutines.
func (c *Copier) Start() {
	c.jobs = make(chan job, c.workers)
	for range c.workers {
		go func() {
			defer fault.Crash()
			var scratch []byte
			for j := range c.jobs {
				if j.work == nil {
					j.copy()
				} else if err := j.work.Do(j.lo, j.hi, &scratch); err != nil {
					j.group.fail(err)
				}
				j.group.Done()
			}
		}()
	}
}

// Close ends the goroutines, if they were started. No call may be under way.
func (c *Copier) Close() {
	if c.jobs != nil {
		close(c.jobs)
	}
}

// Gather fills dst with the rows of src that ids name, widened: rows of dim elements each.
func (c *Copier) Gather(dst []float32, src []byte, ids []uint32, from dtype.Type, dim int) {
	_ = c.split(job{dst: dst, src: src, ids: ids, from: from, dim: dim}, len(ids), func(j *job, lo, hi int) {
		j.dst, j.ids = dst[lo*dim:hi*dim], ids[lo:hi]
	})
}

// Widen fills dst with the rows of src, in order.
func (c *Copier) Widen(dst []float32, src []byte, from dtype.Type, dim int) {
	row := from.RowBytes(dim)
	_ = c.split(job{dst: dst, src: src, from: from, dim: dim}, len(dst)/dim, func(j *job, lo, hi int) {
		j.dst, j.src = dst[lo*dim:hi*dim], src[lo*row:hi*row]
	})
}

// Run does work of n parts, and returns the first error.
func (c *Copier) Run(w Work, n int) error {
	return c.split(job{work: w}, n, func(j *job, lo, hi int) { j.lo, j.hi = lo, hi })
}

// split cuts n units of work into a job for each worker, waits for them, and returns
// the first error.
func (c *Copier) split(j job, n int, cut func(j *job, lo, hi int)) error {
	if n == 0 {
		return nil
	}
	g := c.groups.Get().(*group)
	j.group = g
	for w := range c.workers {
		lo, hi := n*w/c.workers, n*(w+1)/c.workers
		if lo == hi {
			continue
		}
		g.Add(1)
		cut(&j, lo, hi)
		c.jobs <- j
	}
	g.Wait()
	err := g.err
	g.err = nil
	c.groups.Put(g)
	return err
}

func (j *job) copy() {
	if j.ids == nil {
		kernel.Widen(j.dst, j.src, j.from, j.dim)
		return
	}
	row := j.from.RowBytes(j.dim)
	for i, id := range j.ids {
		src := j.src[int(id)*row : int(id)*row+row]
		kernel.Widen(j.dst[i*j.dim:(i+1)*j.dim], src, j.from, j.dim)
	}
}
