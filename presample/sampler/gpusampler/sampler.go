package gpusampler

import (
	"context"
	"errors"
	"math"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

// ErrRoom is the error of a batch that is larger than the sizes of its Sampler.
var ErrRoom = errors.New("the batch is larger than the buffers on the GPU")

// Sampler samples batches up to given sizes on a GPU, one at a time, on its own stream. New takes all
// its memory. Only one goroutine may use it at a time; it need not be attached to the device.
type Sampler struct {
	topology *Topology
	sizes    graph.Sizes
	stream   *cuda.Stream
	arena    *cuda.Arena
	host     *cuda.Pinned
	buffers
	out    output
	picked sampler.Picked
	batch  graph.Batch // the last one
}

// buffers are a sampler's on the device.
type buffers struct {
	frontier kernels.Frontier
	counts   cuda.Buffer // uint32: an error code, the nodes before each hop and after the last, the edges of each hop
	hops     []kernels.SampleHop
}

// output is the host's memory that a batch is copied to, layer by layer.
type output struct {
	counts, seeds, input, degree []uint32
	indptr, indices              [][]uint32
}

func words(hops int) int { return 2 + 2*hops }

// lay takes the buffers of batches within sizes, which are not empty.
func (b *buffers) lay(a *cuda.Arena, sizes *graph.Sizes, fanout []int) error {
	var errs []error
	take := func(bytes int64) cuda.Buffer {
		m, err := a.Take(bytes)
		errs = append(errs, err)
		return m
	}
	layers := len(sizes.Src)
	nodes, wide, sums := 0, 0, 0
	for l := range layers {
		nodes = max(nodes, sizes.Src[l], sizes.Dst[l])
		wide = max(wide, sizes.Dst[l]+sizes.Edges[l])
		sums = max(sums, sizes.Dst[l], sizes.Edges[l])
	}
	if wide > kernels.SampleMost {
		return fault.New(fault.ErrBudget, "one layer of a batch has %d edges and destinations, more than %d, the limit on a GPU: sample fewer neighbours, or make batches smaller", wide, kernels.SampleMost)
	}
	f := &b.frontier
	f.Most = nodes
	f.Nodes, f.Degree, f.Start = take(4*int64(nodes)), take(4*int64(nodes)), take(8*int64(nodes))
	f.Table = take(kernels.SampleTableBytes(wide))
	b.counts = take(4 * int64(words(layers)))
	scratch := take(kernels.SampleSumBytes(sums))
	b.hops = make([]kernels.SampleHop, layers)
	for h := range b.hops {
		l := layers - 1 - h
		k := &b.hops[h]
		k.Fanout, k.Sums = kernels.SampleAll, scratch
		if fanout[l] != mbfile.AllNeighbours {
			k.Fanout = uint32(fanout[l])
		}
		k.Destinations.Most, k.Edges.Most, k.Sources.Most = sizes.Dst[l], sizes.Edges[l], sizes.Src[l]
		if l > 0 {
			k.Sources.Most = sizes.Dst[l-1]
		}
		k.Indptr, k.Indices = take(4*int64(sizes.Dst[l]+1)), take(4*int64(sizes.Edges[l]))
	}
	return errors.Join(errs...)
}

// aim sets the addresses of a graph in the buffers, after lay.
func (b *buffers) aim(t *Topology) {
	word := func(i int) cuda.Buffer { return b.counts.Slice(int64(4*i), 4) }
	b.frontier.Graph, b.frontier.Wrong = t.records, word(0)
	for h := range b.hops {
		k := &b.hops[h]
		k.Frontier, k.Far, k.Near = b.frontier, t.far, t.near
		k.Destinations.At, k.Sources.At, k.Edges.At = word(1+h), word(2+h), word(2+len(b.hops)+h)
	}
}

// DeviceBytes returns the bytes of device memory of a Sampler.
func DeviceBytes(sizes graph.Sizes, fanout []int) (int64, error) {
	var a cuda.Arena
	var b buffers
	err := b.lay(&a, &sizes, fanout)
	return a.Used(), err
}

// HostBytes returns the bytes of pinned host memory of a Sampler.
func HostBytes(sizes graph.Sizes) int64 {
	n, layers := words(len(sizes.Src)), len(sizes.Src)
	n += sizes.Dst[layers-1] + 2*sizes.Src[0]
	for l := range layers {
		n += sizes.Dst[l] + 1 + sizes.Edges[l]
	}
	return 4 * int64(n)
}

func (o *output) cut(memory []uint32, sizes *graph.Sizes) {
	take := func(n int) []uint32 {
		part := memory[:n:n]
		memory = memory[n:]
		return part
	}
	layers := len(sizes.Src)
	o.counts, o.seeds, o.input, o.degree = take(words(layers)), take(sizes.Dst[layers-1]), take(sizes.Src[0]), take(sizes.Src[0])
	for l := range layers {
		o.indptr, o.indices = append(o.indptr, take(sizes.Dst[l]+1)), append(o.indices, take(sizes.Edges[l]))
	}
}

// New returns a sampler of batches within sizes. fanout is in the order of sampler.New, input side
// first. The caller frees the sampler before t.
func New(t *Topology, sizes graph.Sizes, fanout []int) (*Sampler, error) {
	s := &Sampler{topology: t, sizes: sizes}
	device, err := DeviceBytes(sizes, fanout)
	if err != nil {
		return nil, err
	}
	err = t.device.Attached(func() (err error) {
		if s.stream, err = t.device.NewStream(); err != nil {
			return err
		}
		if s.arena, err = t.device.NewArena(device); err != nil {
			return err
		}
		if err = s.lay(s.arena, &sizes, fanout); err != nil {
			return err
		}
		s.host, err = t.device.NewPinned(HostBytes(sizes))
		return err
	})
	if err != nil {
		s.Free()
		return nil, err
	}
	s.aim(t)
	s.out.cut(binio.View[uint32](s.host.Bytes()), &sizes)
	s.batch.Blocks = make([]graph.Block, len(fanout))
	return s, nil
}

// Draw samples the batch that sampler.Sampler.Draw samples for the same id. The result is in the
// sampler's memory and valid until the next call. A batch that is larger than the sizes is ErrRoom.
// Draw waits for the device, for milliseconds; cancelling ctx does not end the wait.
func (s *Sampler) Draw(ctx context.Context, from *sampler.Seeds, id sampler.ID) (*graph.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	key := from.Pick(id, &s.picked)
	if err := s.sample(s.picked.Nodes, key); err != nil {
		return nil, err
	}
	s.batch.Labels, s.batch.Targets = s.picked.Labels, s.picked.Targets
	return &s.batch, nil
}

// sample draws the blocks of a batch. Labels are left to the caller.
func (s *Sampler) sample(seeds []uint32, key uint64) error {
	if len(seeds) > len(s.out.seeds) {
		return ErrRoom
	}
	return s.topology.device.Attached(func() error {
		if err := s.launch(seeds, key); err != nil {
			return errors.Join(err, s.stream.Synchronize())
		}
		if err := s.stream.Synchronize(); err != nil {
			return err
		}
		switch wrong := s.out.counts[0]; {
		case wrong&kernels.SampleTwice != 0:
			return fault.New(fault.ErrInput, "a seed node is listed twice")
		case wrong != 0:
			return ErrRoom
		}
		return errors.Join(s.fetch(), s.stream.Synchronize())
	})
}

// launch gives the stream the work of a batch, and the copy of its counts.
func (s *Sampler) launch(seeds []uint32, key uint64) error {
	n := copy(s.out.seeds, seeds)
	if err := s.stream.CopyIn(s.frontier.Nodes, binio.Bytes(s.out.seeds[:n])); err != nil {
		return err
	}
	if err := s.stream.Fill(s.frontier.Table, math.MaxUint8); err != nil {
		return err
	}
	if err := s.stream.Fill(s.counts, 0); err != nil {
		return err
	}
	first := kernels.SampleSeeds{Frontier: s.frontier, Seeds: n, Count: s.hops[0].Destinations.At}
	if err := first.Launch(s.stream); err != nil {
		return err
	}
	for h := range s.hops {
		s.hops[h].Key = rng.Join(key, uint64(h))
		if err := s.hops[h].Launch(s.stream); err != nil {
			return err
		}
	}
	return s.stream.CopyOut(binio.Bytes(s.out.counts), s.counts)
}

// fetch enqueues copies of the blocks to the host. Their counts are on the host already.
func (s *Sampler) fetch() error {
	hops := len(s.hops)
	nodes, edges := s.out.counts[1:2+hops], s.out.counts[2+hops:]
	copyOut := func(to []uint32, from cuda.Buffer) error { return s.stream.CopyOut(binio.Bytes(to), from) }
	for h := range s.hops {
		l := hops - 1 - h
		k := &s.batch.Blocks[l]
		*k = graph.Block{NumDst: int(nodes[h]), NumSrc: int(nodes[h+1]), Indptr: s.out.indptr[l][:nodes[h]+1], Indices: s.out.indices[l][:edges[h]]}
		if err := errors.Join(copyOut(k.Indptr, s.hops[h].Indptr), copyOut(k.Indices, s.hops[h].Indices)); err != nil {
			return err
		}
	}
	b := &s.batch
	b.Input, b.Degree = s.out.input[:nodes[hops]], s.out.degree[:nodes[hops]]
	return errors.Join(copyOut(b.Input, s.frontier.Nodes), copyOut(b.Degree, s.frontier.Degree))
}

// Free frees the memory.
func (s *Sampler) Free() {
	_ = s.topology.device.Attached(func() error { // fails only after a fault, which was reported
		if s.host != nil {
			s.host.Free()
		}
		if s.arena != nil {
			s.arena.Free()
		}
		if s.stream != nil {
			s.stream.Free()
		}
		return nil
	})
}
