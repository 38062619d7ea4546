package packed

import (
	"sync"

	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
)

// copier copies and converts rows on several goroutines that live as long as the store,
// and does other work that is divided evenly, so that a batch costs no allocation.
type copier struct {
	workers int
	jobs    chan copyJob
	groups  sync.Pool // *copyGroup
}

// work is work of n parts, of which a goroutine does those from lo up to hi. Between calls
// it keeps scratch memory.
type work interface {
	do(lo, hi int, scratch *[]byte) error
}

// copyGroup is what the jobs of one call end in.
type copyGroup struct {
	sync.WaitGroup
	mu  sync.Mutex
	err error
}

func (g *copyGroup) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
}

// copyJob is a part of a call: some parts of other work, if there is any, or else to fill
// dst with rows of src: those that ids name, or, without ids, all in order.
type copyJob struct {
	dst    []float32
	src    []byte
	ids    []uint32
	from   dtype.Type
	dim    int
	work   work
	lo, hi int
	group  *copyGroup
}

// start starts the goroutines.
func (c *copier) start() {
	c.jobs = make(chan copyJob, c.workers)
	c.groups.New = func() any { return new(copyGroup) }
	for range c.workers {
		go func() {
			defer fault.Crash()
			var scratch []byte
			for j := range c.jobs {
				if j.work == nil {
					j.copy()
				} else if err := j.work.do(j.lo, j.hi, &scratch); err != nil {
					j.group.fail(err)
				}
				j.group.Done()
			}
		}()
	}
}

// close ends the goroutines, if they were started.
func (c *copier) close() {
	if c.jobs != nil {
		close(c.jobs)
	}
}

// gather fills dst with the rows of src that ids name, widened.
func (c *copier) gather(dst []float32, src []byte, ids []uint32, from dtype.Type, dim int) {
	_ = c.split(copyJob{dst: dst, src: src, ids: ids, from: from, dim: dim}, len(ids), func(j *copyJob, lo, hi int) {
		j.dst, j.ids = dst[lo*dim:hi*dim], ids[lo:hi]
	})
}

// widen fills dst with the rows of src, in order.
func (c *copier) widen(dst []float32, src []byte, from dtype.Type, dim int) {
	row := from.RowBytes(dim)
	_ = c.split(copyJob{dst: dst, src: src, from: from, dim: dim}, len(dst)/dim, func(j *copyJob, lo, hi int) {
		j.dst, j.src = dst[lo*dim:hi*dim], src[lo*row:hi*row]
	})
}

// run does work of n parts, and returns the first error.
func (c *copier) run(w work, n int) error {
	return c.split(copyJob{work: w}, n, func(j *copyJob, lo, hi int) { j.lo, j.hi = lo, hi })
}

// split cuts n units of work into a job for each worker, waits for them, and returns
// the first error.
func (c *copier) split(j copyJob, n int, cut func(j *copyJob, lo, hi int)) error {
	if n == 0 {
		return nil
	}
	g := c.groups.Get().(*copyGroup)
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

func (j *copyJob) copy() {
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
