package live

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/gpusampler"
	"diskgnn/presample/sampler/topology"
)

// pinned is a copy of the topology for a GPU, which draws the batches of all loaders from it. Windows, Inputs
// and the dry pass draw on the host, from the mapped topology.
type pinned struct {
	device   device.GPU
	near     bool  // in the device's memory; false: in the host's
	bytes    int64 // of the topology
	room     int64 // bytes of device memory left without the loaders
	topology *gpusampler.Topology
}

// nearShare divides the room of the device: a topology of at most this share lies in the device's memory. The
// rest is for rows.
const nearShare = 4

// Pin decides where a GPU reads the topology, so that loaders draw on it: in its own memory if the
// topology takes at most a quarter of the room beside the loaders' memory, otherwise in pinned memory of the
// host. room is the free memory of the device, in bytes. The topology must be mapped. Until Unpin, the source reports its memory as
// after Place. Call Place before Open. Pin returns the device memory that the topology and the loaders will
// take, in bytes. If the loaders do not fit, the error is of kind fault.ErrBudget.
func (s *Source) Pin(d device.GPU, room int64, loaders, evalLoaders int) (bytes int64, err error) {
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

// GPUBytes returns the device memory of the given numbers of loaders, in bytes; 0 if no GPU draws.
func (s *Source) GPUBytes(loaders, evalLoaders int) int64 {
	if s.pinned == nil {
		return 0
	}
	train, _ := s.deviceBytes(false) // Pin has returned the error
	eval, _ := s.deviceBytes(true)
	return int64(loaders)*train + int64(evalLoaders)*eval
}

// Place copies the topology to the memory that Pin has chosen.
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

// Unpin frees the memory of Place. Later loaders draw on the host. Free the loaders that draw on the device
// first.
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

// tableBytes returns its part of TableBytes, in bytes: the topology, if it is in the host's memory, and the
// memory of Inputs on the host beyond a loader's.
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

// drawOn draws a batch on the device. If it exceeds the maxima, the error is Outgrown.
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
