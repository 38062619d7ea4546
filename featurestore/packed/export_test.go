package packed

import (
	"context"
	"errors"

	"diskgnn/featurestore"
	"diskgnn/internal/progress"
	"diskgnn/pack/packfile"
)

// SetPiece changes the size of the pieces in which a consumer gets rows, until the result is called.
func SetPiece(bytes int) (reset func()) {
	before := remotePiece
	remotePiece = bytes
	return func() { remotePiece = before }
}

// NewSlot makes a slot for training batches.
func (s *Store) NewSlot() (*Slot, error) { return s.newSlot(&s.train) }

// NewEvalSlot makes a slot for validation and test batches.
func (s *Store) NewEvalSlot() (*Slot, error) { return s.newSlot(&s.eval) }

// PlanShare returns the bytes that the planned memory of a slot for training has for a plan.
func (s *Store) PlanShare() int64 {
	bare := s.train
	bare.plans = false
	with, _ := s.slotBytes(&s.train)
	without, _ := s.slotBytes(&bare)
	return with - without
}

// Preload fills the caches for a training that begins with batch 0.
func (s *Store) Preload(ctx context.Context, rep progress.Reporter) (int64, error) {
	return s.Fill(ctx, 0, rep)
}

// PreloadFor is Fill.
func (s *Store) PreloadFor(ctx context.Context, batch int, rep progress.Reporter) (int64, error) {
	return s.Fill(ctx, batch, rep)
}

// Start is Slot.Start of a training batch.
func (s *Store) Start(sl *Slot, i int) error { return sl.Start(featurestore.Ref{Index: i}) }

// LoadGraph is Slot.LoadGraph.
func (s *Store) LoadGraph(ctx context.Context, sl *Slot) error { return sl.LoadGraph(ctx) }

// Wait is Slot.Wait.
func (s *Store) Wait(ctx context.Context, sl *Slot) error { return sl.Wait(ctx) }

// Assemble is Slot.Assemble.
func (s *Store) Assemble(ctx context.Context, sl *Slot) error { return sl.Assemble(ctx) }

// LoadEval takes an evaluation batch through all steps.
func (s *Store) LoadEval(ctx context.Context, sl *Slot, test bool, i int) error {
	ref := featurestore.Ref{Split: featurestore.Valid, Index: i}
	if test {
		ref.Split = featurestore.Test
	}
	err := sl.Start(ref)
	if err == nil {
		err = sl.LoadGraph(ctx)
	}
	if err = errors.Join(err, sl.Wait(ctx)); err != nil {
		return err
	}
	return sl.Assemble(ctx)
}

// Dim returns the width of the feature matrix.
func (sl *Slot) Dim() int { return sl.src.facts.Dim }

// Cache returns the rows that RAM holds, by entry.
func (s *Store) Cache() []byte {
	h := s.sink.(*host)
	return h.mem.Bytes()[:h.end*int64(s.src.facts.RowBytes)]
}

// KeepIdle sets how many files are kept open that no batch reads, before any was opened.
func (s *Store) KeepIdle(n int) { s.src.files = s.src.newFiles(n) }

// PlanRoom returns the room of the lists of the slot's plan.
func (sl *Slot) PlanRoom() []int {
	return []int{cap(sl.plan.SSD), cap(sl.plan.Hits), cap(sl.plan.Admit)}
}

// SumsBytes is the memory that is planned for the tables of page checksums.
var SumsBytes = sumsBytes

// Pieces returns the first bytes of the pieces that a goroutine with the pieces from lo up to hi converts, of the
// chunk of the batch in the slot.
func (sl *Slot) Pieces(lo, hi int) []int64 {
	r, l := &recorder{}, *sl.parts[0].(*chunkPart).chunk
	l.form = r
	_ = (&chunkPart{chunk: &l, b: &sl.batch}).Do(lo, hi, nil)
	return r.list
}

// recorder is a form that notes the first bytes of pieces.
type recorder struct {
	form
	list []int64
}

func (r *recorder) piece(_ *chunkPart, at packfile.Piece, _ *[]byte) error {
	r.list = append(r.list, at.Row)
	return nil
}
