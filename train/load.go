package train

import (
	"context"

	"diskgnn/featurestore/packed"
	"diskgnn/pipeline"
)

// slot is what a batch travels in: the feature store's part and the engine's.
type slot struct {
	*packed.Slot
	work work // nil without an engine
}

// Names of the stages, as tables, traces and errors have them.
const (
	stageLoad     = "load graph"
	stageRead     = "read features"
	stageAssemble = "assemble"
	stageCompute  = "compute"
	stageConsume  = "consume" // in compute's place when there is no engine
	stageLaunch   = "launch"  // likewise when the GPU computes: it asks for steps
	stageEvalLoad = "load"
)

// loadingStages returns the stages that fill n slots. All reads that are known without a
// graph are submitted by the first of them at once, so that the drive has work for as
// many batches as there are slots. It has a worker for every slot: a graph's read waits
// its turn behind the features of the batches before it, and with fewer workers the next
// ones would only queue when the drive runs idle.
func loadingStages(s *packed.Store, sch *schedule, n int) []pipeline.Stage[*slot] {
	return []pipeline.Stage[*slot]{
		{Name: stageLoad, Workers: n, Do: func(ctx context.Context, sl *slot, step int) error {
			_, batch := sch.at(step)
			if err := s.Start(sl.Slot, batch); err != nil {
				return ofPack(err)
			}
			if err := s.LoadGraph(ctx, sl.Slot); err != nil {
				return ofPack(err)
			}
			return sl.prepare()
		}},
		{Name: stageRead, Do: func(ctx context.Context, sl *slot, _ int) error { return ofPack(s.Wait(ctx, sl.Slot)) }},
		{Name: stageAssemble, Do: func(ctx context.Context, sl *slot, _ int) error { return ofPack(s.Assemble(ctx, sl.Slot)) }},
	}
}

func (sl *slot) prepare() error {
	if sl.work == nil {
		return nil
	}
	return sl.work.Prepare(&sl.Batch)
}

// drain returns a function that ends the reads which a slot has in flight.
func drain(s *packed.Store) func(*slot) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return func(sl *slot) { _ = s.Wait(ended, sl.Slot) } // the pipeline's error says why
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

// newSlots makes n slots with take, and with them the engine's works.
func newSlots(n int, take func() (*packed.Slot, error), e engine, eval bool) ([]*slot, error) {
	slots := make([]*slot, 0, n)
	for range n {
		sl, err := take()
		if err != nil {
			freeAll(slots)
			return nil, err
		}
		s := &slot{Slot: sl}
		slots = append(slots, s)
		if e == nil {
			continue
		}
		if s.work, err = e.NewWork(eval, sl.Matrix()); err != nil {
			s.work = nil
			freeAll(slots)
			return nil, err
		}
	}
	return slots, nil
}
