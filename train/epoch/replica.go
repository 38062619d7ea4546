package epoch

import (
	"context"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/pipeline"
	"diskgnn/train/collective"
	"diskgnn/train/engine"
)

// Names of the links in tables, traces and errors.
const (
	LinkLoad     = "load graph"
	LinkRead     = "read features"
	LinkAssemble = "assemble"
	LinkCompute  = "compute"
	linkHand     = "hand out"
	linkConsume  = "consume" // in compute's place when there is no engine
	LinkLaunch   = "launch"  // likewise when the GPU computes: it launches steps
)

// Replica trains on one device: it has the store's view of the device, the engine, and the
// reduction with the other ranks.
type Replica struct {
	Device device.GPU // opened by the run, which closes it last; nil: the host computes
	View   featurestore.View
	Engine engine.Engine // nil: batches are loaded and thrown away

	Group     *collective.Group // of the ranks
	Reduction collective.Reduction
	Comm      collective.Communicator // of the ranks' devices; nil: they sum on the host
	Devices   *collective.Devices     // that sums by it
}

// Root reports whether the replica evaluates, decides and writes.
func (r *Replica) Root() bool { return r.Group.Rank() == 0 }

// Alone reports whether the run has no other rank.
func (r *Replica) Alone() bool { return r.Group.World() == 1 }

// Slot is the memory of a batch under way: the feature store's part and the engine's.
type Slot struct {
	featurestore.Slot
	Watcher Watcher     // nil: nobody follows the batch
	work    engine.Work // nil without an engine
}

// Watcher follows the batches of a slot through the links of a loading pipeline. A slot is in one link
// at a time.
type Watcher interface {
	Enter(link string)
	Leave(link string)
	// Context returns the context for the batch's waiting for reads.
	Context(ctx context.Context) context.Context
}

// loadingLinks returns the links that fill n slots with the batches of at, for any purpose. The
// first link submits all reads that need no graph at once, so that the drive has the reads of n
// batches to do. It has a worker for every slot: a graph's read queues behind the features of
// earlier batches, and with fewer workers the next graphs would queue only when the drive is idle.
func loadingLinks(at func(item int) featurestore.Ref, n int) []pipeline.Link[*Slot] {
	link := func(name string, workers int, do func(ctx context.Context, sl *Slot, item int) error) pipeline.Link[*Slot] {
		return pipeline.Link[*Slot]{Name: name, Workers: workers, Do: func(ctx context.Context, sl *Slot, item int) error {
			if w := sl.Watcher; w != nil {
				w.Enter(name)
				defer w.Leave(name)
				ctx = w.Context(ctx)
			}
			return do(ctx, sl, item)
		}}
	}
	return []pipeline.Link[*Slot]{
		link(LinkLoad, n, func(ctx context.Context, sl *Slot, item int) error {
			if err := sl.Start(at(item)); err != nil {
				return OfPack(err)
			}
			if err := sl.LoadGraph(ctx); err != nil {
				return OfPack(err)
			}
			if sl.work == nil {
				return nil
			}
			return sl.work.Prepare(sl.Batch())
		}),
		link(LinkRead, 0, func(ctx context.Context, sl *Slot, _ int) error { return OfPack(sl.Wait(ctx)) }),
		link(LinkAssemble, 0, func(ctx context.Context, sl *Slot, _ int) error { return OfPack(sl.Assemble(ctx)) }),
	}
}

// drain waits for the reads that a slot has in flight.
func drain(sl *Slot) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = sl.Wait(ended) // the pipeline's error says why
}

func free(sl *Slot) {
	if sl.work != nil {
		sl.work.Close()
	}
	sl.Free()
}

func freeAll(slots []*Slot) {
	for _, sl := range slots {
		free(sl)
	}
}

// newSlots makes n slots, each with a work if the replica or the caller, with work, makes works.
func (r *Replica) newSlots(n int, eval bool, work func(sl featurestore.Slot) (engine.Work, error)) ([]*Slot, error) {
	if work == nil && r.Engine != nil {
		work = func(sl featurestore.Slot) (engine.Work, error) { return r.Engine.NewWork(eval, sl.Matrix()) }
	}
	slots := make([]*Slot, 0, n)
	for range n {
		sl, err := r.View.NewSlot(eval)
		if err != nil {
			freeAll(slots)
			return nil, err
		}
		s := &Slot{Slot: sl}
		slots = append(slots, s)
		if work == nil {
			continue
		}
		if s.work, err = work(sl); err != nil {
			s.work = nil
			freeAll(slots)
			return nil, err
		}
	}
	return slots, nil
}
