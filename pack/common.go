package pack

import (
	"context"
	"fmt"

	"diskgnn/internal/stage"
	"diskgnn/pack/packfile"
)

// commonRows takes the rows that a pack has once: hot ones and those of evaluation. Nil
// takes none: another shard does.
type commonRows struct {
	hot    *hotWriter
	eval   *evalWriter
	window int64 // hot rows put in order at once
}

func (p *packing) newCommonRows(out *writers) (_ *commonRows, err error) {
	f := &p.facts
	places, err := p.hotPlaces()
	if err != nil {
		return nil, err
	}
	c := &commonRows{window: p.plan.hotWindow}
	if c.hot, err = newHotWriter(p.open, places, f.HotRows, f.RowBytes, c.window, p.plan.spillBuf, p.o.Workers); err != nil {
		return nil, err
	}
	file, err := newRowFile(p.open, out, packfile.EvalFile, f.EvalRows*int64(f.RowBytes))
	if err != nil {
		c.hot.close()
		return nil, err
	}
	c.eval = &evalWriter{set: p.eval, out: file, rowBytes: f.RowBytes}
	return c, nil
}

// take picks those among the rows lo ≤ v < hi.
func (c *commonRows) take(ctx context.Context, lo, hi int64, rows []byte) error {
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
func (c *commonRows) finish(ctx context.Context, out *writers) ([]stage.File, error) {
	if c == nil {
		return nil, nil
	}
	hot, err := c.hot.finish(ctx, out, c.window)
	if err != nil {
		return nil, fmt.Errorf("hot rows: %w", err)
	}
	c.hot.close()
	eval, err := c.eval.out.finish(packfile.EvalSums)
	if err != nil {
		return nil, fmt.Errorf("evaluation rows: %w", err)
	}
	return append(hot, eval...), nil
}

// close closes what is open, finished or not.
func (c *commonRows) close() {
	if c != nil {
		c.hot.close()
		c.eval.out.close()
	}
}
