package onthefly

import (
	"context"
	"fmt"

	"diskgnn/device"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
	"diskgnn/presample/sampler/gpusampler"
	"diskgnn/presample/sampler/topology"
)

// nearShare divides the room of the device: the topology may take this share of it. The rest is for rows.
//
// Rows and lists have no common benefit: without its place on the GPU, a row is read from the drive, a list over
// the bus. The rates of both belong to a machine, and the hits of rows to a store. With one drive as the bound,
// drawing over the bus takes less than a hundredth of the time of a batch's reads, and rows should have all of the
// room. Where all rows are in RAM, both only relieve the bus, and a list does so more, as the bus moves sectors
// larger than its entries. So the share is fixed, for every store: at worst, rows lose a quarter of the room.
const nearShare = 4

// Pin decides where a GPU reads the topology, so that loaders draw on it: in its own memory, of which the topology
// may take a quarter of the room beside the loaders' memory, or in pinned memory of the host, or in both: see
// gpusampler.Choose. Without Options.GPU, it chooses no single lists. room is the free memory of the device, in
// bytes. The topology must be mapped. Until Unpin, the source reports its memory as after Place. Call Place before
// Open. Pin returns the device memory that the topology and the loaders will take, in bytes. If the loaders do not
// fit, the error is of kind fault.ErrBudget.
func (s *Source) Pin(d device.GPU, room int64, loaders, evalLoaders int) (bytes int64, err error) {
	for i, n := range []int{loaders, evalLoaders} {
		each, err := s.deviceBytes(i == 1)
		if err != nil {
			return 0, err
		}
		bytes += int64(n) * each
	}
	if bytes > room {
		return 0, fault.New(fault.ErrBudget, "drawing %d batches at a time takes %s of the GPU's memory, but only %s is left", loaders+evalLoaders, budget.FormatBytes(bytes), budget.FormatBytes(room))
	}
	p := &pinned{device: d, room: room - bytes}
	err = s.topology.Guard(func() error {
		p.place = gpusampler.Choose(topology.CSC(s.topology), s.draws, s.options.widest(), p.room/nearShare)
		return nil
	})
	if err != nil {
		return 0, err
	}
	s.pinned = p
	return bytes + p.place.GPU, nil
}

// Place copies the topology to the memory that Pin has chosen.
func (s *Source) Place(ctx context.Context, rep progress.Reporter) (err error) {
	p := s.pinned
	if p.topology, err = gpusampler.Place(ctx, p.device, topology.CSC(s.topology), p.place, s.topology.Guard); err != nil {
		return err
	}
	if p.place.RAM == 0 {
		rep.Logf("topology: %s in the GPU's memory, where batches are drawn", budget.FormatBytes(p.place.GPU))
		return nil
	}
	also := ""
	if p.place.GPU > 0 {
		also = fmt.Sprintf(", and from %s of its own memory: the lists of %s of %s nodes, %.0f %% of the draws in the dry pass", budget.FormatBytes(p.place.GPU),
			units.Count(p.place.Lists), units.Count(s.facts.Nodes), 100*p.place.Share)
	}
	rep.Logf("topology: %s pinned in RAM, more than a quarter of the GPU's free %s; the GPU draws batches over the bus%s",
		budget.FormatBytes(p.place.RAM), budget.FormatBytes(p.room), also)
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
