package pack

import (
	"context"
	"fmt"

	"diskgnn/device"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/idset"
	"diskgnn/internal/stage"
	"diskgnn/pack/cut"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/packfile"
)

// onceRows takes the rows that a pack stores once: hot rows and evaluation rows. A nil onceRows
// takes none: another shard stores them.
type onceRows struct {
	hot  *hotRows
	eval *evalRows
}

func (p *Packing) newOnceRows(d *cut.Decision, m allotment, first *firstPass, out *rowfile.Writers) (*onceRows, error) {
	f := &first.facts
	places, err := p.hotPlaces(d, first.entries)
	if err != nil {
		return nil, err
	}
	hot, err := newHotRows(hotRows{files: p.files, writers: out, places: places, rows: f.HotRows, rowBytes: f.RowBytes, workers: p.o.Workers}, m.hotWindow, m.spillBuf)
	if err != nil {
		return nil, err
	}
	eval, err := rowfile.NewRows(p.files, out, packfile.EvalFile, f.EvalRows*int64(f.RowBytes))
	if err != nil {
		hot.close()
		return nil, err
	}
	return &onceRows{hot, &evalRows{nodes: d.Eval, out: eval, rowBytes: f.RowBytes}}, nil
}

// take picks those among the rows lo ≤ v < hi.
func (c *onceRows) take(ctx context.Context, lo, hi int64, rows []byte) error {
	if c == nil {
		return nil
	}
	if err := c.eval.take(ctx, lo, hi, rows); err != nil {
		return fmt.Errorf("evaluation rows: %w", err)
	}
	if err := c.hot.take(lo, hi, rows); err != nil {
		return fmt.Errorf("hot rows: %w", err)
	}
	return nil
}

// finish makes their files durable and describes them.
func (c *onceRows) finish(ctx context.Context) ([]stage.File, error) {
	if c == nil {
		return nil, nil
	}
	hot, err := c.hot.finish(ctx)
	if err != nil {
		return nil, fmt.Errorf("hot rows: %w", err)
	}
	c.hot.close()
	eval, err := c.eval.out.Finish(packfile.EvalSums)
	if err != nil {
		return nil, fmt.Errorf("evaluation rows: %w", err)
	}
	return append(hot, eval...), nil
}

// close closes all open files, finished or not.
func (c *onceRows) close() {
	if c != nil {
		c.hot.close()
		c.eval.out.Close()
	}
}

// hotRows collects the hot rows, which arrive in node order, and writes them in the
// order of their places: of ranks or, under policy min, of the cache's entries. If the
// budget holds them all they wait in memory, else in windows.
type hotRows struct {
	files    *rowfile.Set
	writers  *rowfile.Writers
	places   []uint32 // by node; those beyond the last row are of nodes that are not hot
	rows     int64
	rowBytes int
	workers  int

	mem     *device.Host // all rows; nil if they are in windows
	windows *rowfile.Windows
}

func newHotRows(h hotRows, window int64, buffer int) (_ *hotRows, err error) {
	if h.rows <= max(window, 1) {
		h.mem, err = device.NewHost(int(h.rows) * h.rowBytes)
	} else {
		h.windows, err = rowfile.NewWindows(h.files, h.rows, h.rowBytes, max(window, 1), buffer)
	}
	return &h, err
}

// close frees the memory.
func (h *hotRows) close() {
	if h.mem != nil {
		h.mem.Free()
	}
	if h.windows != nil {
		h.windows.Close()
	}
}

// take picks the hot ones among the rows lo ≤ v < hi.
func (h *hotRows) take(lo, hi int64, rows []byte) error {
	rb := int64(h.rowBytes)
	if h.mem == nil {
		for v := lo; v < hi; v++ {
			if place := int64(h.places[v]); place < h.rows {
				if err := h.windows.Put(place, rows[(v-lo)*rb:(v-lo+1)*rb]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	mem := h.mem.Bytes()
	var g errgroup.Group
	parts := int64(h.workers)
	for k := range parts {
		g.Go(func() error { // no two nodes have the same place
			for v := lo + (hi-lo)*k/parts; v < lo+(hi-lo)*(k+1)/parts; v++ {
				if place := int64(h.places[v]); place < h.rows {
					copy(mem[place*rb:(place+1)*rb], rows[(v-lo)*rb:(v-lo+1)*rb])
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func (h *hotRows) finish(ctx context.Context) ([]stage.File, error) {
	out, err := rowfile.NewRows(h.files, h.writers, packfile.HotFile, h.rows*int64(h.rowBytes))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if h.mem != nil {
		err = out.WriteAll(ctx, h.mem.Bytes(), h.workers)
	} else {
		err = h.windows.Each(func(rows []byte) error { return out.Write(ctx, rows) })
	}
	if err != nil {
		return nil, err
	}
	return out.Finish(packfile.HotSums)
}

// evalRows writes the rows of eval.bin, which are in node order.
type evalRows struct {
	nodes    *idset.Set
	out      *rowfile.Rows
	rowBytes int
}

func (e *evalRows) take(ctx context.Context, lo, hi int64, rows []byte) error {
	for v := range e.nodes.In(lo, hi) {
		if err := e.out.Write(ctx, rows[int(int64(v)-lo)*e.rowBytes:int(int64(v)-lo+1)*e.rowBytes]); err != nil {
			return err
		}
	}
	return nil
}
