package train

import (
	"context"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/pipeline"
	"diskgnn/train/collective"
	"diskgnn/train/engine"
)

// slot is what a batch travels in: the feature store's part and the engine's.
type slot struct {
	featurestore.Slot
	work engine.Work // nil without an engine
	kept *kept       // nil: the batch's reads are not kept
}

// Names of the links, as tables, traces and errors have them.
const (
	linkLoad     = "load graph"
	linkRead     = "read features"
	linkAssemble = "assemble"
	linkCompute  = "compute"
	linkConsume  = "consume" // in compute's place when there is no engine
	linkLaunch   = "launch"  // likewise when the GPU computes: it launches steps
)

// replica is what trains on one device: the store as that sees it, its pipeline and its
// engine, and what brings its steps together with those of the other ranks. A process has a list
// of them, of which there is one today.
type replica struct {
	device  *cuda.Device // opened by the run, which closes it last; nil: the host computes
	view    featurestore.View
	engine  engine.Engine // nil: batches are loaded and thrown away
	batches *pipeline.Pipeline[*slot]

	group     *collective.Group // of the ranks
	reduction collective.Reduction
	comm      collective.Communicator // of the ranks' devices; nil: they sum on the host
	devices   *collective.Devices     // that sums by it
}

// root tells whether the replica is the one that evaluates, decides and writes.
func (r *replica) root() bool { return r.rank() == 0 }

// rank returns which of the ranks the replica is.
func (r *replica) rank() int { return r.group.Rank() }

// alone tells whether the run has no other rank.
func (r *replica) alone() bool { return r.group.World() == 1 }

// loadingLinks returns the links that fill n slots with the batches that at names,
// whatever they are for. All reads that are known without a
// graph are submitted by the first of them at once, so that the drive has work for as
// many batches as there are slots. It has a worker for every slot: a graph's read waits
// its turn behind the features of the batches before it, and with fewer workers the next
// ones would only queue when the drive runs idle.
func loadingLinks(at func(item int) featurestore.Ref, n int) []pipeline.Link[*slot] {
	return []pipeline.Link[*slot]{
		{Name: linkLoad, Workers: n, Do: func(ctx context.Context, sl *slot, item int) error {
			sl.kept.load()
			defer sl.kept.done()
			if err := sl.Start(at(item)); err != nil {
				return ofPack(err)
			}
			if err := sl.LoadGraph(sl.under(ctx)); err != nil {
				return ofPack(err)
			}
			return sl.prepare()
		}},
		{Name: linkRead, Do: func(ctx context.Context, sl *slot, _ int) error {
			defer sl.kept.since(sl.kept.mark())
			return ofPack(sl.Wait(sl.under(ctx)))
		}},
		{Name: linkAssemble, Do: func(ctx context.Context, sl *slot, _ int) error {
			defer sl.kept.since(sl.kept.mark())
			return ofPack(sl.Assemble(sl.under(ctx)))
		}},
	}
}

// under returns the context of what the batch waits for.
func (sl *slot) under(ctx context.Context) context.Context {
	if sl.kept == nil {
		return ctx
	}
	return sl.kept.Context(ctx)
}

func (sl *slot) prepare() error {
	if sl.work == nil {
		return nil
	}
	return sl.work.Prepare(sl.Batch())
}

// drain ends the reads that a slot has in flight.
func drain(sl *slot) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = sl.Wait(ended) // the pipeline's error says why
}

func free(sl *slot) {
	if sl.work != nil {
		sl.work.Close()
	}
	sl.Free()
}

func freeAll(slots []*slot) {
	for _, sl := range slots {
		free(sl)
	}
}

// newSlots makes n slots, and with them the engine's works.
func (r *replica) newSlots(n int, eval bool) ([]*slot, error) {
	slots := make([]*slot, 0, n)
	for range n {
		sl, err := r.view.NewSlot(eval)
		if err != nil {
			freeAll(slots)
			return nil, err
		}
		s := &slot{Slot: sl}
		slots = append(slots, s)
		if r.engine == nil {
			continue
		}
		if s.work, err = r.engine.NewWork(eval, sl.Matrix()); err != nil {
			s.work = nil
			freeAll(slots)
			return nil, err
		}
	}
	return slots, nil
}
