// Package copier copies and widens rows on several goroutines. They live as long as their store, so a call
// allocates nothing.
package copier

import (
	"runtime"
	"sync"

	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/internal/prefetch"
)

// Enough returns the number of goroutines that saturate the bandwidth of memory: up to 16. Of 16 processors that read
// 120 GB/s together, four read 44.
func Enough() int { return min(16, runtime.GOMAXPROCS(0)) }

// Copier divides work evenly among its goroutines. Gather, Widen and Run return when all of their work is
// done, and may be called concurrently, between Start and Close.
type Copier struct {
	workers int
	jobs    chan job  // nil before Start
	groups  sync.Pool // *group
}

// New returns a copier for the given number of goroutines. Start starts them.
func New(workers int) *Copier {
	return &Copier{workers: workers, groups: sync.Pool{New: func() any { return new(group) }}}
}

// Workers returns the number of goroutines.
func (c *Copier) Workers() int { return c.workers }

// Work is work of n parts. Do does the parts from lo up to hi; several goroutines call it for different
// parts. scratch is memory of the goroutine, which Do may replace and finds again in its next call.
type Work interface {
	Do(lo, hi int, scratch *[]byte) error
}

// group waits for the jobs of one call, and has their first error.
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

// job is a part of a call: the parts lo to hi of work, or if work is nil, copies of rows from src, which begins with row
// first, to dst: the rows ids, or if ids is nil, all rows in order.
type job struct {
	dst    []float32
	src    []byte
	ids    []uint32
	first  uint32
	from   dtype.Type
	dim    int
	past   bool // rows are many: see kernel.WidenPast
	work   Work
	lo, hi int
	group  *group
}

// Start starts the goroutines. Call it once.
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

// Close ends the goroutines, if Start has started them. No call may be under way.
func (c *Copier) Close() {
	if c.jobs != nil {
		close(c.jobs)
	}
}

// Gather fills dst with rows of src, widened to float32: row i of dst becomes the row ids[i]. The first row of src is
// row number first. Rows have dim elements, of type from in src.
func (c *Copier) Gather(dst []float32, src []byte, ids []uint32, first uint32, from dtype.Type, dim int) {
	_ = c.split(job{src: src, first: first, from: from, dim: dim, past: len(dst) >= kernel.Past}, len(ids), func(j *job, lo, hi int) {
		j.dst, j.ids = dst[lo*dim:hi*dim], ids[lo:hi]
	})
}

// Widen fills dst with the rows of src, in order, widened to float32. Rows have dim elements, of type from
// in src.
func (c *Copier) Widen(dst []float32, src []byte, from dtype.Type, dim int) {
	row := from.RowBytes(dim)
	_ = c.split(job{from: from, dim: dim, past: len(dst) >= kernel.Past}, len(dst)/dim, func(j *job, lo, hi int) {
		j.dst, j.src = dst[lo*dim:hi*dim], src[lo*row:hi*row]
	})
}

// Run does the n parts of w, and returns the first error.
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
	widen := kernel.Widen
	if j.past {
		widen = kernel.WidenPast
		defer kernel.Fence()
	}
	if j.ids == nil {
		widen(j.dst, j.src, j.from, j.dim)
		return
	}
	row := j.from.RowBytes(j.dim)
	for i, id := range j.ids {
		if k := i + prefetch.RowsAhead; k < len(j.ids) {
			prefetch.Row(j.src[int(j.ids[k]-j.first)*row:][:row])
		}
		src := j.src[int(id-j.first)*row:][:row]
		widen(j.dst[i*j.dim:(i+1)*j.dim], src, j.from, j.dim)
	}
}
