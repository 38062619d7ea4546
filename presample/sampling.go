package presample

import (
	"context"
	"fmt"
	"time"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
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

	seeds  *sampler.Seeds
	layout mbfile.Layout
	lo, hi int   // the batches to sample: all, or the shard's
	room   int64 // bytes of memory for the workers
	least  int64 // of --memory, as far as checked
	// beforeDrawing is the memory in bytes that is held before sampling begins, without optional
	// neighbours.
	beforeDrawing int64
	topology      topology.Topology
	degrees       *device.Host  // nil: there is no table of degrees
	reads         sampler.Reads // of readers that are freed
	writer        *mbfile.Writer
	task          progress.Task
	heap          heapLimit
}

// drawer is a sampler with its reader.
type drawer struct {
	*sampler.Sampler
	from topology.Reader
}

// newDrawer returns a drawer that keeps to a worker's share. free gives it back.
func (s *sampling) newDrawer(a allotment, p *phase) (drawer, error) {
	from, err := s.topology.NewReader()
	if err != nil {
		return drawer{}, err
	}
	return drawer{sampler.NewFrom(from, p.fanout, sampler.Options{Hash: a.hash, Outside: true, Degrees: s.shortDegrees(),
		Types: s.layout.Types, Relations: p.relations, Merged: s.params.Merged, Check: a.check}), from}, nil
}

// release frees the memory of both.
func (d drawer) release() {
	d.Sampler.Free()
	d.from.Free()
}

func (s *sampling) free(d drawer) {
	s.reads.Add(d.from.Reads())
	d.release()
}

// draw draws batch i of the samples, into the drawer's memory.
func (s *sampling) draw(ctx context.Context, by drawer, i int) (b *graph.Batch, err error) {
	err = s.topology.Guard(func() error {
		b, err = by.Draw(ctx, s.seeds, s.seeds.Nth(i))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("batch %d: %w", i, err)
	}
	return b, nil
}
