package packed

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/copier"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// Store is the featurestore.Store of one pack. If several devices compute, it is the view of the first
// device, and peers are the views of the others. Views share the rows in RAM and the files; each has its
// own levels.
type Store struct {
	src    *source
	peers  []*Store
	copies *copier.Copier
	sink   sink
	device *gpu  // the sink, if a GPU computes; nil: the host does
	remote int64 // rows that a consumer holds
	cold   *chunk
	held   held
	train  course
	eval   course
}

// compose chooses the levels and the sink of a store with the given layout, without opening them or
// allocating memory.
func compose(r *packfile.Reader, l *Layout) *Store {
	s := composeView(&source{pack: r, facts: r.Facts()}, l, 0)
	for i := range l.Peers {
		p := composeView(s.src, l, 1+i)
		p.device.table.first = &s.device.table
		s.peers = append(s.peers, p)
	}
	return s
}

// composeView is compose for the view-th device.
func composeView(src *source, l *Layout, view int) *Store {
	s, r := &Store{src: src}, src.pack
	f := &s.src.facts
	disk, shares, taken := mostRows(r, l.Through)
	evaluated := f.EvalSizes.Inputs()
	s.train = course{sizes: f.TrainSizes, graphs: trainGraphs{r, l.needs}, plans: true, inBits: l.needs.InBits,
		matrix: matrixSize{rows: f.TrainSizes.Inputs(), disk: disk, landed: disk, taken: taken}}
	s.eval = course{sizes: f.EvalSizes, graphs: evalGraphs{r, l.needs}, inBits: l.needs.InBits,
		matrix: matrixSize{rows: evaluated, disk: evaluated, taken: evaluated, eval: true}}

	min := isMin(r)
	if min {
		s.train.matrix.admitted = mostAdmitted(r)
	}
	codec := newCodec(r.Form())
	s.copies = copier.New(codec.workers())
	held := evaluation{src: s.src, copies: s.copies, hot: l.heldHot(), eval: l.HeldEval}
	s.eval.matrix.landed = held.most(evaluated)

	if l.GPU == nil {
		s.remote = l.GPURows
		s.sink = newHost(ramRows{src: s.src, first: l.GPURows, end: l.heldHot(), eval: l.HeldEval}, s.copies, l.Stored)
	} else {
		s.device = newGPU(s.src, l, view, s.train.matrix, s.eval.matrix)
		s.sink = s.device
	}
	s.cold = newChunk(s.src, l.Through, s.sink.packed(), s.train.matrix.admitted, codec, s.copies)
	if s.device != nil {
		if s.device.reads = s.chunkReads(l); s.device.reads != nil {
			s.train.matrix.landed = shares
		}
	}
	ranked := hot{s.sink}
	s.held = ranked
	s.train.levels = []level{s.cold, sharedRows{s.src, l.Through}, ranked}
	if min {
		b := &belady{refills: refills{src: s.src, cold: s.cold, cache: s.sink.cache()}, next: noBatch}
		s.held = b
		s.train.levels = []level{b}
	}
	held.packed = s.sink.packed()
	s.eval.levels = []level{held, ranked}
	return s
}

// chunkReads returns the reads of chunks that land on the GPU, nil if they land in host memory.
func (s *Store) chunkReads(l *Layout) deviceReads {
	switch {
	case l.queued != nil:
		return &queued{chunk: s.cold, reads: l.queued, gpu: s.device}
	case l.direct && !s.src.pack.Form().Compressed():
		return &direct{chunk: s.cold, gpu: s.device}
	}
	return nil
}

// mostAdmitted returns the most rows that a batch admits to the cache of policy min.
func mostAdmitted(r *packfile.Reader) int {
	most := 0
	for i := range r.Index().Train {
		most = max(most, r.Index().Train[i].Bands[1])
	}
	return most
}

// mostRows returns, for a training batch, the most rows from disk, the most rows of the SSD level, and the
// most rows from memory.
func mostRows(r *packfile.Reader, through int) (disk, shared, taken int) {
	for i := range r.Index().Train {
		t := &r.Index().Train[i]
		n := t.ColdRows(through) + t.SSDRows(through)
		disk, shared, taken = max(disk, n), max(shared, t.SSDRows(through)), max(taken, t.Inputs-n)
	}
	return disk, shared, taken
}

// Open opens a pack's files through the stack, which must outlive the store, and allocates the cache,
// which is empty until Fill.
func Open(fsys vfs.FS, r *packfile.Reader, stack iostack.Stack, l Layout) (*Store, error) {
	s := compose(r, &l)
	err := s.src.open(fsys, stack)
	for _, v := range s.views() {
		v.copies.Start()
		if err == nil {
			err = v.open()
		}
	}
	if err == nil && len(s.peers) > 0 {
		err = s.join()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// views returns the views of all devices, the first device's first.
func (s *Store) views() []*Store { return append([]*Store{s}, s.peers...) }

// join gives every device the addresses of the rows on the others.
func (s *Store) join() error {
	var tables []*gpurows.Table
	for _, v := range s.views() {
		tables = append(tables, &v.device.table.Table)
	}
	for _, v := range s.views() {
		g := v.device
		if err := g.device.Attached(func() error { return g.table.Join(g.turns.Stream(), tables) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) open() error {
	if err := s.sink.open(); err != nil {
		return err
	}
	if err := s.cold.open(); err != nil {
		return err
	}
	return s.held.open()
}

func (s *Store) newSlot(c *course) (*Slot, error) {
	sl := new(Slot)
	s.lay(sl, c)
	sl.decoded = c.newBatch(s.src.facts.TargetBytes)
	if c.plans {
		sl.plan = s.src.pack.NewPlan()
	}
	err := sl.mem.err
	if err == nil {
		err = sl.matrix.open()
	}
	if err == nil && c.inBits && s.device != nil {
		sl.pins, err = gpurows.Pin(s.device.device, sl.graph.raw)
	}
	if err != nil {
		sl.Free()
		return nil, fmt.Errorf("slot: %w", err)
	}
	return sl, nil
}

// lay allocates a slot's buffers, or counts them.
func (s *Store) lay(sl *Slot, c *course) {
	sl.src = s.src
	sl.matrix = s.sink.matrix(&sl.batch, &sl.mem, c.matrix)
	for _, l := range c.levels {
		sl.parts = append(sl.parts, l.part(&sl.batch, &sl.mem))
	}
	sl.graph = newGraphReader(s.src.pack, c.graphs, &sl.mem)
}

// slotBytes returns the host memory and the device memory of a slot, in bytes; 0 if no batches need it.
func (s *Store) slotBytes(c *course) (host, device int64) {
	if len(c.sizes.Src) == 0 {
		return 0, 0
	}
	sl := &Slot{mem: memory{dry: true}}
	s.lay(sl, c)
	host = sl.mem.bytes + c.batchBytes(s.src.facts.TargetBytes)
	if c.plans {
		host += s.src.pack.PlanBytes()
	}
	return host, sl.mem.device
}

// Fill implements featurestore.Store.
func (s *Store) Fill(ctx context.Context, next int, rep progress.Reporter) (int64, error) {
	if len(s.peers) == 0 {
		return s.held.fill(ctx, next, rep)
	}
	sinks := make([]*gpu, 0, 1+len(s.peers))
	for _, v := range s.views() {
		sinks = append(sinks, v.device)
	}
	return fillAll(ctx, sinks, rep)
}

// State returns nil: the rows in memory follow from the position of the run.
func (s *Store) State() ([]byte, error) { return nil, nil }

// LoadState does nothing.
func (s *Store) LoadState([]byte) error { return nil }

// View returns the view of device i.
func (s *Store) View(i int) featurestore.View { return view{s.views()[i]} }

type view struct{ store *Store }

func (v view) NewSlot(eval bool) (featurestore.Slot, error) {
	c := &v.store.train
	if eval {
		c = &v.store.eval
	}
	sl, err := v.store.newSlot(c)
	if err != nil {
		return nil, err
	}
	return sl, nil
}

// Close releases the files and the caches. Free all slots first.
func (s *Store) Close() error {
	var errs []error
	for _, v := range slices.Backward(s.views()) { // the first view owns the RAM
		errs = append(errs, v.held.close())
		v.cold.close()
		v.copies.Close()
		errs = append(errs, v.sink.close())
	}
	return errors.Join(append(errs, s.src.close())...)
}
