package packed

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/pack/packfile"
)

// LoadEval loads a whole evaluation batch: its graph, and its rows from eval.bin,
// hot.bin and RAM or the GPU. Rows on disk are read as runs of pages, checked page by page.
func (s *Store) LoadEval(ctx context.Context, sl *Slot, test bool, i int) (err error) {
	list, what := s.pack.Index().Valid, "validation"
	if test {
		list, what = s.pack.Index().Test, "test"
	}
	e := &list[i]
	if err := sl.register(); err != nil {
		return err
	}
	sl.clearCounts()
	file, err := s.files.take(packfile.EvalGraphFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.files.give(file)) }()
	err = s.submitGraph(sl, file.File, e.GraphOffset, e.GraphBytes)
	if err = errors.Join(err, s.endGraph(ctx, sl)); err != nil {
		return fmt.Errorf("graph of %s batch %d: %w", what, i, err)
	}
	sl.UsefulBytes += int64(e.GraphBytes)
	if err := s.pack.DecodeEvalGraph(e, sl.raw.Bytes()[:e.GraphBytes], &sl.Batch); err != nil {
		return err
	}
	if err := s.evalRows(ctx, sl, e.Rows); err != nil {
		return fmt.Errorf("rows of %s batch %d: %w", what, i, err)
	}
	return nil
}

// evalRows fills the matrix of an evaluation batch whose first n rows lie in
// eval.bin; the others descend in rank, those beyond the caches first.
func (s *Store) evalRows(ctx context.Context, sl *Slot, n int) error {
	ids := sl.Batch.Input
	onDisk := n
	for onDisk < len(ids) && int64(ids[onDisk]) >= s.layout.CacheRows {
		onDisk++
	}
	err := s.readRows(ctx, sl, rowList{file: s.eval, sums: &s.evalSums, ids: ids[:n], base: -s.facts.HotRows * int64(s.facts.RowBytes), to: sl.places(0, 0, n)})
	if err != nil {
		return err
	}
	err = s.readRows(ctx, sl, rowList{file: s.hot, sums: &s.hotSums, ids: ids[n:onDisk], to: sl.places(n, n, onDisk-n), descending: true})
	if err != nil {
		return err
	}
	if s.gpu != nil {
		sl.route([2]stretch{{rows: onDisk}, {from: onDisk}}, [2]stretch{{to: onDisk, rows: len(ids) - onDisk}, {from: len(ids) - onDisk}})
		return nil
	}
	s.gatherHot(sl, onDisk, len(ids))
	return nil
}
