package featurestore

import (
	"sync"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/kernel"
)

// copier copies and converts rows on several goroutines that live as long as
// the store, so that a batch costs no allocation.
type copier struct {
	jobs    chan copyJob
	workers int
	groups  sync.Pool // *sync.WaitGroup
}

// copyJob fills dst with rows of src: those that ids name, or, without ids, all
// in order.
type copyJob struct {
	dst  []float32
	src  []byte
	ids  []uint32
	from dtype.Type
	dim  int
	done *sync.WaitGroup
}

func newCopier(workers int) *copier {
	c := &copier{jobs: make(chan copyJob, workers), workers: workers}
	c.groups.New = func() any { return new(sync.WaitGroup) }
	for range workers {
		go func() {
			for j := range c.jobs {
				j.run()
				j.done.Done()
			}
		}()
	}
	return c
}

func (c *copier) close() { close(c.jobs) }

// gather fills dst with the rows of src that ids name, widened.
func (c *copier) gather(dst []float32, src []byte, ids []uint32, from dtype.Type, dim int) {
	c.split(copyJob{dst: dst, src: src, ids: ids, from: from, dim: dim}, len(ids), func(j *copyJob, lo, hi int) {
		j.dst, j.ids = dst[lo*dim:hi*dim], ids[lo:hi]
	})
}

// widen fills dst with the elements of src.
func (c *copier) widen(dst []float32, src []byte, from dtype.Type) {
	c.split(copyJob{dst: dst, src: src, from: from, dim: 1}, len(dst), func(j *copyJob, lo, hi int) {
		j.dst, j.src = dst[lo:hi], src[lo*from.Size():hi*from.Size()]
	})
}

// split cuts n units of work into a job for each worker and waits for them.
func (c *copier) split(j copyJob, n int, cut func(j *copyJob, lo, hi int)) {
	if n == 0 {
		return
	}
	done := c.groups.Get().(*sync.WaitGroup)
	j.done = done
	for w := range c.workers {
		lo, hi := n*w/c.workers, n*(w+1)/c.workers
		if lo == hi {
			continue
		}
		done.Add(1)
		cut(&j, lo, hi)
		c.jobs <- j
	}
	done.Wait()
	c.groups.Put(done)
}

func (j *copyJob) run() {
	if j.ids == nil {
		widen(j.dst, j.src, j.from)
		return
	}
	row := j.dim * j.from.Size()
	for i, id := range j.ids {
		src := j.src[int(id)*row : int(id)*row+row]
		widen(j.dst[i*j.dim:(i+1)*j.dim], src, j.from)
	}
}

// widen fills dst with the elements of src. dtype.Convert is its plain twin.
func widen(dst []float32, src []byte, from dtype.Type) {
	switch from {
	case dtype.Float32:
		copy(binio.Bytes(dst), src)
	case dtype.Float16:
		kernel.Float16ToFloat32(dst, src)
	case dtype.BFloat16:
		kernel.BFloat16ToFloat32(dst, src)
	default:
		dtype.Convert(binio.Bytes(dst), dtype.Float32, src, from)
	}
}
