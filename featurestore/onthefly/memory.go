package onthefly

import (
	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/gpusampler"
	"diskgnn/presample/sampler/topology"
)

// TableBytes returns the memory of the source, in bytes, without loaders and without lists that a store
// has chosen.
func (s *Source) TableBytes() int64 {
	return s.seeds.Memory(s.options.Workers) + s.countBytes() + s.topology.Bytes() - s.chosen + s.pinned.tableBytes(s)
}

// countBytes returns the memory of the counts of every node: its hotness, and its draws.
func (s *Source) countBytes() int64 {
	if s.options.counts() {
		return 2 * 4 * s.facts.Nodes
	}
	return 4 * s.facts.Nodes
}

// free returns the memory left for drawing, in bytes.
func (s *Source) free() int64 {
	return s.options.Memory - budget.Reserve - s.TableBytes() - s.chosen
}

// samplerBytes returns the memory of a sampler for the largest batch of a loader, in bytes, and whether it
// numbers nodes by a hash table, because that is smaller than an array.
func (s *Source) samplerBytes(eval bool) (bytes int64, hash bool) {
	sizes, fanout := s.sizes(eval)
	x := sampler.Extent{Nodes: int64(sizes.Src[0]), Widest: sampler.Widest(fanout)}
	for l := range sizes.Dst {
		x.Dst, x.Edges = x.Dst+int64(sizes.Dst[l]), x.Edges+int64(sizes.Edges[l])
	}
	table, array := sampler.HashMemory(x.Nodes), sampler.ArrayMemory(s.facts.Nodes)
	if hash = array > table || s.facts.Nodes > sampler.MaxArrayNodes; !hash {
		table = array
	}
	return s.drawBytes(x, fanout) + table, hash
}

// LoaderBytes returns the memory of a loader, in bytes: a sampler, the seed nodes of a batch, and a share of
// the visiting orders.
func (s *Source) LoaderBytes(eval bool) int64 {
	if s.none(eval) {
		return 0
	}
	if s.pinned != nil {
		return s.pinnedBytes(eval) + s.seedBytes(eval)
	}
	return s.hostLoaderBytes(eval)
}

// hostLoaderBytes is LoaderBytes for loaders that draw on the host.
func (s *Source) hostLoaderBytes(eval bool) int64 {
	n, _ := s.samplerBytes(eval)
	return n + s.seedBytes(eval)
}

// seedBytes returns the memory of a loader's seed nodes and of its share of the visiting orders, in bytes.
func (s *Source) seedBytes(eval bool) int64 {
	sizes, _ := s.sizes(eval)
	seeds := int64(sizes.Dst[len(sizes.Dst)-1])
	n := 2 * int64(8+s.facts.TargetBytes) * seeds // slices that grow may be twice as long
	if !eval {
		n += 4 * seeds
	}
	return n
}

// HeapBytes returns the part of LoaderBytes on Go's heap, in bytes.
func (s *Source) HeapBytes(eval bool) int64 {
	if s.none(eval) {
		return 0
	}
	if s.pinned != nil {
		return s.seedBytes(eval)
	}
	return s.LoaderBytes(eval) - s.topology.ReaderBytes()
}

// HostBytes returns the memory of the source outside Go's heap, in bytes, without lists that a store
// has chosen.
func (s *Source) HostBytes() int64 {
	if s.chosen > 0 {
		return topology.StackBytes + s.pinned.hostBytes()
	}
	return s.topology.HostBytes() + s.pinned.hostBytes()
}

// drawBytes returns the memory of a drawer for a batch, without its table, in bytes.
func (s *Source) drawBytes(x sampler.Extent, fanout []int) int64 {
	n := x.Memory() + s.topology.ReaderBytes()
	if s.options.Method == mbfile.Labor {
		n += sampler.LaborMemory(fanout)
	}
	return n
}

// windowNodes returns the number of batches in a window (at most all training batches), the most input nodes
// of one, and the memory of the input nodes of all, in bytes.
func (s *Source) windowNodes(ahead int) (places, most int, bytes int64) {
	places, most = min(ahead+1, s.facts.Train), s.facts.TrainSizes.Src[0]
	return places, most, binio.AlignUp(4*int64(places)*int64(most), device.PageSize)
}

// WindowBytes returns the memory of a window, in bytes: the input nodes, a loader's memory, and the visiting
// orders of the epochs between the loaders and the last batch of the window.
func (s *Source) WindowBytes(ahead int) int64 {
	places, _, bytes := s.windowNodes(ahead)
	perPlace := 8 + 4*int64(s.options.BatchSize)
	return bytes + perPlace*int64(places) + s.hostLoaderBytes(false)
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
	if p == nil {
		return 0
	}
	return p.place.RAM
}

// Topology returns the level of the topology: topology.Mapped, Cached or Pinned.
func (s *Source) Topology() string {
	if s.pinned != nil {
		return topology.Pinned
	}
	return s.topology.Level()
}

// TopologyBytes returns the memory of the in-neighbours that the topology holds, with their index, in
// bytes. For a pinned topology it is the size of the copy, in the GPU's and in the host's memory.
func (s *Source) TopologyBytes() int64 {
	if s.pinned != nil {
		return s.pinned.place.GPU + s.pinned.place.RAM
	}
	held, _ := topology.Needs(s.data, s.topology.Level())
	return s.topology.Bytes() - held
}
