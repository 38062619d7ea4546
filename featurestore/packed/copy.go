package packed

import (
	"runtime"
	"sync"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/pack/packfile"
)

// copier checks, decompresses, copies and converts rows on several goroutines that
// live as long as the store, so that a batch costs no allocation.
type copier struct {
	jobs    chan copyJob
	workers int
	decoder *packfile.FrameDecoder // nil if no chunks are compressed
	form    packfile.Form
	groups  sync.Pool // *copyGroup
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

// copyJob is a part of a call: to load a chunk, if there is one, or else to fill dst
// with rows of src: those that ids name, or, without ids, all in order.
type copyJob struct {
	dst   []float32
	src   []byte
	ids   []uint32
	from  dtype.Type
	dim   int
	chunk *chunkLoad
	lo    int // pieces of the chunk
	hi    int
	group *copyGroup
}

// chunkLoad is a chunk that has landed.
type chunkLoad struct {
	batch   *packfile.Train
	through int
	name    string // of the file, for errors
	stored  []byte
	// Where compressed pieces go: rows as packed, or else x, widened.
	rows []byte
	x    []float32
	// kept is where rows that are widened are wanted as they are too, from byte
	// keptFrom of the chunk's rows, where a piece begins, on; nil for none.
	kept     []byte
	keptFrom int64
}

// copyWorkers returns the number of goroutines: a few saturate memory, but all are
// needed where they decompress.
func copyWorkers(form packfile.Form) int {
	if form.Compressed() {
		return runtime.GOMAXPROCS(0)
	}
	return min(4, runtime.GOMAXPROCS(0))
}

// newCopier starts the goroutines for rows of a pack of the given form.
func newCopier(workers int, form packfile.Form) (*copier, error) {
	c := &copier{jobs: make(chan copyJob, workers), workers: workers, form: form}
	if form.Compressed() {
		var err error
		if c.decoder, err = packfile.NewFrameDecoder(form.Codec, workers); err != nil {
			return nil, err
		}
	}
	c.groups.New = func() any { return new(copyGroup) }
	for range workers {
		go func() {
			defer fault.Crash()
			var plain []byte // rows to be widened
			for j := range c.jobs {
				if j.chunk != nil {
					plain = c.load(&j, plain)
				} else {
					j.run()
				}
				j.group.Done()
			}
		}()
	}
	return c, nil
}

// copierMemory returns what the goroutines hold of compressed pieces.
func copierMemory(workers int, form packfile.Form) int64 {
	if !form.Compressed() {
		return 0
	}
	return int64(workers) * 3 * form.PieceBytes() // rows to be widened, the decoder's window and tables
}

func (c *copier) close() {
	close(c.jobs)
	c.decoder.Close()
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

// check checks a chunk, and if it is compressed fills the matrix with its rows.
func (c *copier) check(l *chunkLoad, from dtype.Type, dim int) error {
	n := c.form.NumPieces(l.batch.Bands[:l.through+1])
	return c.split(copyJob{chunk: l, from: from, dim: dim}, n, func(j *copyJob, lo, hi int) {
		j.lo, j.hi = lo, hi
	})
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

func (j *copyJob) run() {
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

// load checks the job's pieces of a chunk and, if they are compressed, fills the
// matrix with their rows; plain is memory for those that are widened then.
func (c *copier) load(j *copyJob, plain []byte) []byte {
	l, i := j.chunk, 0
	err := l.batch.Pieces(c.form, l.through, func(p packfile.Piece) error {
		i++
		switch {
		case i-1 < j.lo || i-1 >= j.hi:
			return nil
		case !c.form.Compressed():
			return l.batch.VerifyPiece(l.name, l.stored, p)
		case l.rows != nil:
			return l.batch.LoadPiece(c.decoder, l.name, l.stored, p, l.rows[p.Row:p.Row+int64(p.RowLen)])
		}
		plain = binio.Grow(plain, p.RowLen)
		rows := plain
		if at := p.Row - l.keptFrom; l.kept != nil && at >= 0 {
			rows = l.kept[at : at+int64(p.RowLen)]
		}
		if err := l.batch.LoadPiece(c.decoder, l.name, l.stored, p, rows); err != nil {
			return err
		}
		first, n := int(p.Row)/c.form.RowBytes, p.RowLen/c.form.RowBytes
		kernel.Widen(l.x[first*j.dim:(first+n)*j.dim], rows, j.from, j.dim)
		return nil
	})
	if err != nil {
		j.group.fail(err)
	}
	return plain
}
