package live

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device/cuda"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/gpusampler"
	"diskgnn/presample/sampler/topology"
)

// pinned is the topology as a GPU reads it, which then draws the batches of all loaders.
// Windows, Inputs and the dry pass draw on the host, of the mapped topology.
type pinned struct {
	device   *cuda.Device
	near     bool  // in the device's memory; otherwise in the host's
	bytes    int64 // of the topology
	room     int64 // of the device's memory, for the topology and all else but drawing
	topology *gpusampler.Topology
}

// nearShare is how many times a topology in the device's memory must fit in what is left of
// it: the rest is for rows.
const nearShare = 4

// Pin decides where a GPU reads the topology, so that loaders draw on it: in its own memory if the
// topology takes at most a quarter of room, otherwise in pinned memory of the host. room is the free
// memory of the device, in bytes. The topology must be mapped. From now on until Unpin the source
// counts as after Place, which must come before Open. Pin returns the device memory that the topology
// and the loaders will take, in bytes.
func (s *Source) Pin(d *cuda.Device, room int64, loaders, evalLoaders int) (bytes int64, err error) {
	for _, eval := range []bool{false, true} {
		if _, err := s.deviceBytes(eval); err != nil {
			return 0, err
		}
	}
	f := s.data.Facts()
	p := &pinned{device: d, bytes: gpusampler.Bytes(f.Nodes, f.Edges)}
	s.pinned = p
	bytes = s.GPUBytes(loaders, evalLoaders)
	if bytes > room {
		s.pinned = nil
		return 0, fault.New(fault.ErrBudget, "drawing %d batches at a time takes %s of the GPU's memory, but only %s is left", loaders+evalLoaders, budget.FormatBytes(bytes), budget.FormatBytes(room))
	}
	p.room = room - bytes
	if p.near = p.bytes <= p.room/nearShare; p.near {
		bytes += p.bytes
	}
	return bytes, nil
}

// GPUBytes returns the memory of the loaders on the GPU that draws, in bytes; 0 if no GPU draws.
func (s *Source) GPUBytes(loaders, evalLoaders int) int64 {
	if s.pinned == nil {
		return 0
	}
	train, _ := s.deviceBytes(false) // Pin has returned the error
	eval, _ := s.deviceBytes(true)
	return int64(loaders)*train + int64(evalLoaders)*eval
}

// Place copies the topology to where Pin has decided.
func (s *Source) Place(ctx context.Context, rep progress.Reporter) (err error) {
	p := s.pinned
	if p.topology, err = gpusampler.Place(ctx, p.device, topology.CSC(s.topology), p.near, s.topology.Guard); err != nil {
		return err
	}
	if p.near {
		rep.Logf("topology: %s in the GPU's memory, where batches are drawn", budget.FormatBytes(p.bytes))
	} else {
		rep.Logf("topology: %s pinned in RAM, more than a quarter of the GPU's free %s; the GPU draws batches over the bus", budget.FormatBytes(p.bytes), budget.FormatBytes(p.room))
	}
	return nil
}

// Unpin frees the memory that Place took; loaders draw on the host again. Loaders that drew on the
// device must have been freed.
func (s *Source) Unpin() {
	if s.pinned != nil && s.pinned.topology != nil {
		s.pinned.topology.Free()
	}
	s.pinned = nil
}

// deviceBytes returns a loader's device memory, in bytes.
func (s *Source) deviceBytes(eval bool) (int64, error) {
	if s.none(eval) {
		return 0, nil
	}
	sizes, fanout := s.sizes(eval)
	return gpusampler.DeviceBytes(*sizes, fanout)
}

// pinnedBytes returns a loader's pinned memory, in bytes.
func (s *Source) pinnedBytes(eval bool) int64 {
	if s.pinned == nil || s.none(eval) {
		return 0
	}
	sizes, _ := s.sizes(eval)
	return gpusampler.HostBytes(*sizes)
}

// tableBytes returns what TableBytes counts of it: the topology, if it is in the host's memory,
// and what Inputs takes on the host beyond a loader's memory.
func (p *pinned) tableBytes(s *Source) int64 {
	if p == nil {
		return 0
	}
	return p.hostBytes() + max(0, s.hostLoaderBytes(false)-s.LoaderBytes(false))
}

func (p *pinned) hostBytes() int64 {
	if p == nil || p.near {
		return 0
	}
	return p.bytes
}

func (l *loaders) newGPUSampler(eval bool) (*gpusampler.Sampler, error) {
	sizes, fanout := l.source.sizes(eval)
	return gpusampler.New(l.source.pinned.topology, *sizes, fanout)
}

// drawOn draws a batch on the device, unless it is beyond the maxima.
func (l *loaders) drawOn(ctx context.Context, by *gpusampler.Sampler, r featurestore.Ref) (*graph.Batch, error) {
	id := l.source.id(r)
	b, err := by.Draw(ctx, l.source.seeds, id)
	switch {
	case errors.Is(err, gpusampler.ErrRoom) && id.Split == sampler.Train:
		return nil, &Outgrown{r}
	case err != nil:
		return nil, fmt.Errorf("draw %s: %w", label(id), err)
	}
	return b, nil
}
