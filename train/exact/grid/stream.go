package grid

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/kernel"
	"diskgnn/iostack/pieces"
)

// Table is a matrix with a row for every node: in a file of pieces with checksums, as the features of a
// dataset are, or in memory.
type Table struct {
	Rows    int64
	Width   int
	DType   dtype.Type
	File    pieces.File // nil: in memory
	Granule int64       // bytes of rows in a piece of the file, but for the last one
	// Held has the rows in memory, with room for Group more than fill whole groups.
	Held []byte
}

func (t *Table) rowBytes() int64 { return int64(t.DType.RowBytes(t.Width)) }

// pieces returns the pieces that have a part of the rows lo to hi, which are some.
func (t *Table) pieces(lo, hi int64) (from, to int) {
	return int(lo * t.rowBytes() / t.Granule), int((hi*t.rowBytes() + t.Granule - 1) / t.Granule)
}

// Bytes returns the bytes of the file's pieces with a part of the rows lo to hi.
func (t *Table) Bytes(lo, hi int64) int64 { return (&selection{lo: int(lo), hi: int(hi)}).bytes(t) }

// Pieces returns the number of pieces of the table.
func (t *Table) Pieces() int {
	_, n := t.pieces(0, t.Rows)
	return n
}

// Mark marks the pieces that have a part of a row.
func (t *Table) Mark(marks []bool, row uint32) {
	from, to := t.pieces(int64(row), int64(row)+1)
	for i := from; i < to; i++ {
		marks[i] = true
	}
}

// selection is the rows that a stream brings, in order: the rows from lo to hi, or of the ids at the
// places lo to hi.
type selection struct {
	lo, hi int
	ids    []uint32
	parts  []Part // of the places, in a typed graph: places of a part without own rows have none
	need   []bool // pieces without a needed row are left out, and their rows undefined; nil: all are needed
}

// run returns the row of place i, and the number of places, up to end, with rows that follow it. The row is
// negative if these places have none.
func (s *selection) run(i, end int) (row int64, n int) {
	switch {
	case s.parts != nil:
		return s.partRun(i, end)
	case s.ids != nil:
		return int64(s.ids[i]), 1
	}
	return int64(i), end - i
}

// pieces calls do for the needed pieces of the table with a part of a row, in ascending order.
func (s *selection) pieces(t *Table, do func(i int)) {
	next := 0
	add := func(lo, hi int64) {
		from, to := t.pieces(lo, hi)
		for next = max(next, from); next < to; next++ {
			if s.need == nil || s.need[next] {
				do(next)
			}
		}
	}
	if s.ids == nil && s.parts == nil {
		add(int64(s.lo), int64(s.hi))
		return
	}
	for i := s.lo; i < s.hi; {
		row, n := s.run(i, s.hi)
		if row >= 0 {
			add(row, row+int64(n))
		}
		i += n
	}
}

// bytes returns the bytes of these pieces in the table's file, of a table in memory 0.
func (s *selection) bytes(t *Table) (n int64) {
	if t.File == nil || s.lo == s.hi || t.Width == 0 {
		return 0
	}
	s.pieces(t, func(i int) {
		_, size := t.File.Piece(i)
		n += size
	})
	return n
}

// ended returns the first place, from lo to hi, with a row that ends beyond byte at of the table.
func (s *selection) ended(at, rowBytes int64) int {
	row := at / rowBytes // the first that ends beyond
	switch {
	case s.parts != nil:
		return s.partAt(row)
	case s.ids == nil:
		return min(max(int(row), s.lo), s.hi)
	}
	i, _ := slices.BinarySearchFunc(s.ids[s.lo:s.hi], row, func(id uint32, row int64) int { return cmp.Compare(int64(id), row) })
	return s.lo + i
}

// at returns the first place, from lo to hi, with the row or a later one.
func (s selection) at(row int) int { return s.ended(int64(row), 1) }

// begun returns the first place with a row that begins at byte at or beyond.
func (s *selection) begun(at, rowBytes int64) int { return s.ended(at+rowBytes-1, rowBytes) }

// stream brings the selected rows to use, window by window of Plan.Block rows: n rows from the place first
// on, in x, which has room for whole groups. Windows are filled ahead of their use.
func (r *run) stream(ctx context.Context, s selection, use func(first, n int, x []float32) error) error {
	t, held := r.Table, false
	if r.whole {
		t.Held, t.File, t.DType, held = binio.Bytes(r.held), nil, dtype.Float32, true
	}
	plain := s.ids == nil && s.parts == nil
	direct := t.File == nil && t.DType == dtype.Float32 && plain && r.GPU == nil
	f := &filler{run: r, table: t, of: s, ahead: len(r.windows)}
	if !direct {
		f.keep = r.Plan.Hold && !held && plain
		if f.keep {
			f.ahead = f.windows() // all of them have their own place
		}
		g, gctx := errgroup.WithContext(ctx)
		f.start(gctx, g)
		err := f.each(use)
		f.fail(err)
		if e := g.Wait(); err == nil {
			err = e
		}
		if err == nil && f.keep && s.lo == 0 && s.hi == int(t.Rows) && s.need == nil {
			r.whole = true
		}
		return err
	}
	rows := binio.View[float32](t.Held)
	for first := s.lo; first < s.hi; first += r.Plan.Block {
		if err := use(first, min(r.Plan.Block, s.hi-first), rows[first*r.In:]); err != nil {
			return err
		}
	}
	return nil
}

// filler fills windows with rows ahead of their use.
type filler struct {
	*run
	table Table
	of    selection
	ahead int  // windows that are filled or used at a time
	keep  bool // windows are parts of run.held

	mu      sync.Mutex
	changed sync.Cond
	todo    []int   // pieces to read, ascending
	missing []int32 // parts of each window that are still to come; -1: it has no needed row
	used    int     // windows that are given back
	failed  error
}

// windows returns the number of windows.
func (f *filler) windows() int { return (f.of.hi - f.of.lo + f.Plan.Block - 1) / f.Plan.Block }

// span returns the places of a window.
func (f *filler) span(w int) (first, end int) {
	first = f.of.lo + w*f.Plan.Block
	return first, min(first+f.Plan.Block, f.of.hi)
}

// room returns the memory of a window.
func (f *filler) room(w int) []float32 {
	if f.keep {
		first, _ := f.span(w)
		return f.held[first*f.In:]
	}
	return f.run.windows[w%len(f.run.windows)]
}

// errStopped ends the filling when the use has failed, or the context has ended.
var errStopped = errors.New("the rows are not used any more")

// start fills windows on goroutines of g.
func (f *filler) start(ctx context.Context, g *errgroup.Group) {
	f.changed.L = &f.mu
	f.missing = make([]int32, f.windows())
	if f.table.File == nil {
		for w := range f.missing {
			f.missing[w] = 1
		}
	} else {
		f.choose()
	}
	stop := context.AfterFunc(ctx, func() { f.fail(context.Cause(ctx)) })
	g.Go(func() (err error) {
		defer stop()
		if f.table.File == nil {
			err = f.copyWindows(ctx)
		} else {
			err = f.read(ctx)
		}
		f.fail(err)
		if errors.Is(err, errStopped) {
			return nil
		}
		return err
	})
}

// choose lists the pieces with selected rows, and counts their parts of windows.
func (f *filler) choose() {
	t, s := &f.table, &f.of
	s.pieces(t, func(i int) {
		f.todo = append(f.todo, i)
		a, b := f.places(i)
		for w := (a - s.lo) / f.Plan.Block; w <= (b-1-s.lo)/f.Plan.Block; w++ {
			f.missing[w]++
		}
	})
	if s.need == nil {
		return
	}
	for w, n := range f.missing {
		if n == 0 {
			f.missing[w] = -1
		}
	}
}

// places returns the places of the selected rows with a part in piece i.
func (f *filler) places(i int) (from, to int) {
	row, begin := f.table.rowBytes(), int64(i)*f.table.Granule
	end := min(begin+f.table.Granule, f.table.Rows*row)
	return f.of.ended(begin, row), f.of.begun(end, row)
}

// read fills the windows from the file.
func (f *filler) read(ctx context.Context) error {
	at := 0
	return f.file.Read(ctx, func() (int, bool) {
		if at == len(f.todo) {
			return 0, false
		}
		at++
		return f.todo[at-1], true
	}, func(p *pieces.Piece) error {
		plain, err := p.Decode()
		if err != nil {
			return err
		}
		a, b := f.places(p.Index)
		for a < b {
			w := (a - f.of.lo) / f.Plan.Block
			_, end := f.span(w)
			end = min(end, b)
			err := f.put(w, a, end, func(x []float32, first, end int) error {
				f.widen(x, plain, int64(p.Index)*f.table.Granule, first, end)
				return nil
			})
			if err != nil {
				return err
			}
			a = end
		}
		return nil
	})
}

// widen fills the places from first to end, of rows in x, with the part of them that plain has: the bytes of
// the table from start on.
func (f *filler) widen(x []float32, plain []byte, start int64, first, end int) {
	row, size := f.table.rowBytes(), int64(f.table.DType.Size())
	part := func(at, bytes int64, x []float32) {
		from, to := max(at, start), min(at+bytes, start+int64(len(plain)))
		n := int((to - from) / size)
		kernel.Widen(x[(from-at)/size:][:n], plain[from-start:to-start], f.table.DType, n)
	}
	for i := first; i < end; {
		at, n := f.of.run(i, end)
		if at >= 0 {
			part(at*row, int64(n)*row, x[(i-first)*f.In:])
		}
		i += n
	}
}

// fail wakes all who wait, unless err is nil.
func (f *filler) fail(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	if f.failed == nil {
		f.failed = err
	}
	f.mu.Unlock()
	f.changed.Broadcast()
}

// each passes on the windows in order when they are complete. It returns the error of the use, or why the
// filling has failed, such as the end of the context.
func (f *filler) each(use func(first, n int, x []float32) error) error {
	for w := range f.windows() {
		start := time.Now()
		f.mu.Lock()
		for f.failed == nil && f.missing[w] > 0 {
			f.changed.Wait()
		}
		err, empty := f.failed, f.missing[w] < 0
		f.mu.Unlock()
		f.wait(start)
		first, end := f.span(w)
		if err == nil && !empty {
			err = use(first, end-first, f.room(w))
		}
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.used++
		f.mu.Unlock()
		f.changed.Broadcast()
	}
	return nil
}

// put waits until a window may be filled, and fills its places from first to end by do.
func (f *filler) put(w, first, end int, do func(x []float32, first, end int) error) error {
	f.mu.Lock()
	for f.failed == nil && w >= f.used+f.ahead {
		f.changed.Wait()
	}
	err := f.failed
	f.mu.Unlock()
	if err != nil {
		return errStopped
	}
	at, _ := f.span(w)
	if err := do(f.room(w)[(first-at)*f.In:], first, end); err != nil {
		return err
	}
	f.mu.Lock()
	f.missing[w]--
	f.mu.Unlock()
	f.changed.Broadcast()
	return nil
}

// copyWindows fills the windows from memory.
func (f *filler) copyWindows(ctx context.Context) error {
	row := f.table.rowBytes()
	for w := range f.windows() {
		first, end := f.span(w)
		err := f.put(w, first, end, func(x []float32, first, end int) error {
			return f.run.each(ctx, end-first, copyGrain, func(_, from, to int) error {
				for i := from; i < to; {
					at, n := f.of.run(first+i, first+to)
					if at >= 0 {
						kernel.Widen(x[i*f.In:][:n*f.In], f.table.Held[at*row:(at+int64(n))*row], f.table.DType, n*f.In)
					}
					i += n
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// copyGrain is the number of rows that a worker copies at a time.
const copyGrain = 1 << 10
