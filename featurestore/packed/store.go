package packed

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// Store reads the features of one pack. Its methods may be called from several
// goroutines, each with a slot of its own.
type Store struct {
	src    source
	copies copier
	sink   sink
	cold   cold
	held   held
	train  course
	eval   course
}

// compose chooses the levels and the sink of a store with the given layout. Nothing is
// opened, and no memory taken.
func compose(r *packfile.Reader, l *Layout) *Store {
	s := &Store{src: source{pack: r, facts: r.Facts()}}
	f := &s.src.facts
	disk, shares, taken := mostRows(r, l.Through)
	evaluated := inputs(f.EvalSizes)
	s.train = course{sizes: f.TrainSizes, graphs: trainGraphs{r}, plans: true,
		matrix: matrixSize{rows: inputs(f.TrainSizes), disk: disk, landed: disk, taken: taken}}
	s.eval = course{sizes: f.EvalSizes, graphs: evalGraphs{r},
		matrix: matrixSize{rows: evaluated, disk: evaluated, landed: evaluated, taken: evaluated, eval: true}}

	codec := newCodec(r.Form())
	s.copies.workers = codec.workers()
	ram := newHost(&s.src, l, &s.copies)
	s.sink = ram
	if l.GPU != nil {
		s.sink = newGPU(&s.src, l, s.train.matrix, s.eval.matrix)
	}
	chunks := newChunk(&s.src, l.Through, s.sink.packed(), isMin(r), codec, &s.copies)
	s.cold = chunks
	if l.GPU != nil && l.direct && !r.Form().Compressed() && chunks.most() > 0 {
		s.cold = newDirect(chunks, s.sink.(*gpu))
		s.train.matrix.landed = shares
	}
	ranked := hot{s.sink}
	s.held = ranked
	s.train.levels = []level{s.cold, sharedRows{&s.src, l.Through}, ranked}
	if isMin(r) {
		b := newBelady(&s.src, s.cold, ram)
		s.held = b
		s.train.levels = []level{b}
	}
	s.eval.levels = []level{evaluation{&s.src, l.CacheRows}, ranked}
	return s
}

// inputs returns the most input nodes of a batch.
func inputs(s graph.Sizes) int {
	if len(s.Src) == 0 {
		return 0
	}
	return s.Src[0]
}

// isMin reports whether a pack is one of policy min.
func isMin(r *packfile.Reader) bool { return r.Params().Policy == packfile.PolicyMin }

// mostRows returns the most rows of a training batch that come from disk, the most of these
// that are of the SSD level, and the most that memory holds.
func mostRows(r *packfile.Reader, through int) (disk, shared, taken int) {
	for i := range r.Index().Train {
		t := &r.Index().Train[i]
		n := t.ColdRows(through) + t.SSDRows(through)
		disk, shared, taken = max(disk, n), max(shared, t.SSDRows(through)), max(taken, t.Inputs-n)
	}
	return disk, shared, taken
}

// Open opens a pack's files through the stack, which must outlive the store.
// Memory for the cache is taken; it is empty until Preload.
func Open(fsys vfs.FS, r *packfile.Reader, stack iostack.Stack, l Layout) (*Store, error) {
	s := compose(r, &l)
	s.copies.start()
	if err := s.open(fsys, stack); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open(fsys vfs.FS, stack iostack.Stack) error {
	if err := s.src.open(fsys, stack); err != nil {
		return err
	}
	if err := s.sink.open(); err != nil {
		return err
	}
	if err := s.cold.open(); err != nil {
		return err
	}
	return s.held.open()
}

// NewSlot makes a slot for training batches.
func (s *Store) NewSlot() (*Slot, error) { return s.newSlot(&s.train) }

// NewEvalSlot makes a slot for validation and test batches.
func (s *Store) NewEvalSlot() (*Slot, error) { return s.newSlot(&s.eval) }

func (s *Store) newSlot(c *course) (*Slot, error) {
	sl := new(Slot)
	s.lay(sl, c)
	sl.Batch = c.sizes.NewBatch(s.src.facts.TargetBytes)
	if c.plans {
		sl.plan = s.src.pack.NewPlan()
	}
	err := sl.mem.err
	if err == nil {
		err = sl.matrix.open()
	}
	if err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	return sl, nil
}

// lay takes a slot's buffers, or counts them.
func (s *Store) lay(sl *Slot, c *course) {
	sl.src = &s.src
	sl.matrix = s.sink.matrix(&sl.batch, &sl.mem, c.matrix)
	for _, l := range c.levels {
		sl.parts = append(sl.parts, l.part(&sl.batch, &sl.mem))
	}
	sl.graph = newGraphReader(s.src.pack, c.graphs, &sl.mem)
}

// bytes returns the memory of a slot, and of the device's; 0 where there are no batches.
func (s *Store) slotBytes(c *course) (host, device int64) {
	if len(c.sizes.Src) == 0 {
		return 0, 0
	}
	sl := &Slot{mem: memory{dry: true}}
	s.lay(sl, c)
	host = sl.mem.bytes + c.sizes.Bytes(s.src.facts.TargetBytes)
	if c.plans {
		host += s.src.pack.PlanBytes()
	}
	return host, sl.mem.device
}

// Preload fills the caches for a training that begins with batch 0, and returns the
// bytes read.
func (s *Store) Preload(ctx context.Context, rep progress.Reporter) (int64, error) {
	return s.PreloadFor(ctx, 0, rep)
}

// PreloadFor fills the caches for a training that goes on with the given batch. No
// batch may be under way. After an error it must be called again.
func (s *Store) PreloadFor(ctx context.Context, batch int, rep progress.Reporter) (int64, error) {
	return s.held.fill(ctx, batch, rep)
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

// Close releases files and the caches. All slots must have been freed.
func (s *Store) Close() error {
	err := s.held.close()
	s.cold.close()
	s.copies.close()
	return errors.Join(err, s.sink.close(), s.src.close())
}
