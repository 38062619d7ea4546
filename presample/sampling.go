package presample

import (
	"context"
	"fmt"
	"time"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

// sampling is one run of the stage.
type sampling struct {
	o      Options
	out    string // the directory to make
	params mbfile.Params
	fs     vfs.FS
	data   *dataset.Dataset
	rep    progress.Reporter
	start  time.Time
	watch  *budget.Watch
	res    Result

	seeds    *sampler.Seeds
	layout   mbfile.Layout
	lo, hi   int   // the batches to sample: all, or the shard's
	free     int64 // bytes of memory for the workers
	topology *dataset.Topology
	writer   *mbfile.Writer
	task     progress.Task
}

// draw draws batch i of the samples, into the sampler's memory.
func (s *sampling) draw(ctx context.Context, by *sampler.Sampler, i int) (b *graph.Batch, err error) {
	err = s.topology.Guard(func() error {
		b, err = by.Draw(ctx, s.seeds, s.seeds.Nth(i))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("batch %d: %w", i, err)
	}
	return b, nil
}
