package packed

import (
	"context"
	"fmt"

	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// minCache is what a store has beside the RAM cache under policy min: every batch
// changes the cache's slots, so the batches must be assembled in the pack's order,
// around the circle. One goroutine assembles.
type minCache struct {
	refill iostack.File // nil when empty
	sums   binio.Sums
	// home is, by slot, the row of hot.bin that the slot holds after the last batch.
	home       []uint32
	row, spare []byte // a row under way to another slot, and room for the next
	// admitted has room for a batch's admitted rows, where they are kept apart.
	admitted *device.Host
	next     int // the batch that the slots are for; all batches: the first, once home; -1: none
}

// noBatch says that the slots' content is undefined.
const noBatch = -1

// minBytes returns the bytes that policy min takes beside the cache's rows: home, the
// list of what a cache is refilled with, and admitted rows.
func minBytes(r *packfile.Reader) int64 { return 16*r.Facts().HotRows + admittedBytes(r) }

// admittedBytes returns the most bytes of a batch's admitted rows, if they have to be
// kept apart: of compressed chunks the matrix has the widened rows only.
func admittedBytes(r *packfile.Reader) int64 {
	f := r.Facts()
	if !r.Form().Compressed() || f.DType == dtype.Float32 {
		return 0
	}
	most := 0
	for i := range r.Index().Train {
		most = max(most, r.Index().Train[i].Bands[1])
	}
	return int64(most) * int64(f.RowBytes)
}

// isMin reports whether a pack is one of policy min.
func isMin(r *packfile.Reader) bool { return r.Params().Policy == packfile.PolicyMin }

// openMin opens what policy min needs.
func (s *Store) openMin(fsys vfs.FS) error {
	m := &minCache{next: noBatch, row: make([]byte, s.facts.RowBytes), spare: make([]byte, s.facts.RowBytes)}
	s.min = m
	var err error
	if m.admitted, err = device.NewHost(int(admittedBytes(s.pack))); err != nil {
		return err
	}
	if m.refill, m.sums, err = s.openRows(fsys, packfile.RefillFile, packfile.RefillSums); err != nil {
		return err
	}
	records := int64(s.facts.Train+packfile.RefillBatches-1) / packfile.RefillBatches
	if want := records * 8 * s.facts.HotRows; m.sums.Size != want {
		return fault.New(fault.ErrCorrupt, "%s: %d bytes instead of %d", s.pack.Path(packfile.RefillFile), m.sums.Size, want)
	}
	return nil
}

// preloadMin makes the cache what it is before the given training batch: the first
// content, what the last refill record before the batch says, and what the batches
// since then admit.
func (s *Store) preloadMin(ctx context.Context, batch int, rep progress.Reporter) (int64, error) {
	m := s.min
	m.next = noBatch
	read, err := s.preloadHot(ctx, rep)
	if err != nil {
		return 0, err
	}
	if m.refill != nil {
		n, err := s.loadHome(ctx)
		if err != nil {
			return 0, fmt.Errorf("fill the cache: %w", err)
		}
		read += n
	}
	if batch > 0 {
		n, err := s.replay(ctx, batch, rep)
		if err != nil {
			return 0, fmt.Errorf("refill the cache for batch %d: %w", batch, err)
		}
		read += n
	}
	m.next = batch
	return read, nil
}

// close releases what openMin took.
func (m *minCache) close() (err error) {
	if m == nil {
		return nil
	}
	if m.refill != nil {
		err = m.refill.Close()
	}
	if m.admitted != nil {
		m.admitted.Free()
	}
	return err
}

// keep asks for the admitted rows of a chunk that is about to be loaded.
func (m *minCache) keep(l *chunkLoad, t *packfile.Train, form packfile.Form) {
	l.keptFrom = int64(t.Bands[0]) * int64(form.RowBytes)
	if m.admitted.Len() > 0 {
		l.kept = m.admitted.Bytes()[:t.Bands[1]*form.RowBytes]
	}
}

// admittedRows returns the loaded batch's admitted rows as the cache holds them.
func (s *Store) admittedRows(sl *Slot) []byte {
	t, form := &s.pack.Index().Train[sl.batch], s.pack.Form()
	first := t.Bands[0] * form.RowBytes
	switch {
	case s.min.admitted.Len() > 0:
		return s.min.admitted.Bytes()
	case form.Compressed(): // float32, decompressed into the matrix
		return sl.matrix.Bytes()[first:]
	}
	return sl.chunkBytes()[first:]
}

// assembleMin completes the matrix of the next batch with its hits, and admits to the
// cache what the batch's plan says.
func (s *Store) assembleMin(sl *Slot) error {
	m := s.min
	if m.next == s.facts.Train && sl.batch == 0 { // around the circle
		m.goHome(s.cache.Bytes())
		m.next = 0
	}
	if sl.batch != m.next {
		return fmt.Errorf("batch %d is assembled when the cache is that of batch %d", sl.batch, m.next)
	}
	dim, rb := s.facts.Dim, s.facts.RowBytes
	cache := s.cache.Bytes()
	s.copies.gather(sl.X()[sl.cold*dim:], cache, sl.plan.Hits, s.facts.DType, dim)
	admitted := s.admittedRows(sl)
	for k, slot := range sl.plan.Admit {
		copy(cache[int(slot)*rb:int(slot+1)*rb], admitted[k*rb:])
	}
	m.next++
	return nil
}

// movedHome marks a slot that has its row again.
const movedHome = 1 << 31

// goHome brings the rows that the slots hold after the last batch to the slots that
// they had in the beginning, in place: cycle by cycle, each row moves once.
func (m *minCache) goHome(cache []byte) {
	at := func(slot uint32) []byte { return cache[int(slot)*len(m.row) : int(slot+1)*len(m.row)] }
	for first := range m.home {
		slot := uint32(first)
		if m.home[slot]&movedHome != 0 || m.home[slot] == slot {
			continue
		}
		copy(m.row, at(slot)) // the row under way
		for again := false; !again || slot != uint32(first); again = true {
			to := m.home[slot]
			m.home[slot] |= movedHome
			copy(m.spare, at(to))
			copy(at(to), m.row)
			m.row, m.spare, slot = m.spare, m.row, to
		}
	}
	for slot := range m.home {
		m.home[slot] &^= movedHome
	}
}
