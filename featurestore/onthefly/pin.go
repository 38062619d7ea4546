package onthefly

import (
	"context"

	"diskgnn/device"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample/sampler/gpusampler"
	"diskgnn/presample/sampler/topology"
)

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
