package live

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/gpusampler"
	"diskgnn/presample/sampler/topology"
)

// Outgrown is the error of a training batch with a size above the maxima of the dry pass. Source.Grow raises
// the maxima. It is of kind fault.ErrBudget.
type Outgrown struct{ Ref featurestore.Ref }

func (o *Outgrown) Error() string {
	return fmt.Sprintf("training batch %d is larger than the batches of the dry pass", o.Ref.Index)
}

// Unwrap returns fault.ErrBudget.
func (o *Outgrown) Unwrap() error { return fault.ErrBudget }

// sizes returns the maxima and the fanout of the batches that a loader is for.
func (s *Source) sizes(eval bool) (*graph.Sizes, []int) {
	if eval {
		return &s.facts.EvalSizes, s.options.EvalFanout
	}
	return &s.facts.TrainSizes, s.options.Fanout
}

// none reports whether the source has no batches for a loader: without nodes to evaluate there are no sizes.
func (s *Source) none(eval bool) bool {
	sizes, _ := s.sizes(eval)
	return len(sizes.Src) == 0
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

// Open returns a maker of loaders. They read only the topology, which has a storage stack of its own.
func (s *Source) Open(iostack.Stack) (featurestore.Loaders, error) { return &loaders{source: s}, nil }

type loaders struct {
	source *Source
	train  int // loaders of training batches
}

func (l *loaders) Close() error { return nil }

// NewLoader returns a loader. Its memory grows up to LoaderBytes while it draws. NewLoader must not be called
// while loaders draw.
func (l *loaders) NewLoader(eval bool) (featurestore.Loader, error) {
	if l.source.none(eval) {
		return nil, errors.New("the source has no batches for this loader")
	}
	if !eval {
		l.train++
	}
	n := &loader{of: l, eval: eval}
	var err error
	if l.source.pinned == nil {
		n.drawer, err = l.newDrawer(eval)
	} else {
		n.gpu, err = l.newGPUSampler(eval)
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

// newDrawer returns a drawer of batches within the maxima.
func (l *loaders) newDrawer(eval bool) (drawer, error) {
	_, fanout := l.source.sizes(eval)
	bytes, hash := l.source.samplerBytes(eval)
	return l.source.newDrawer(fanout, hash, bytes)
}

// draw draws a batch. If it exceeds the maxima, the error is Outgrown.
func (l *loaders) draw(ctx context.Context, by drawer, r featurestore.Ref) (*graph.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := l.source
	b, err := s.draw(ctx, by, s.id(r))
	sizes, _ := s.sizes(r.Split != featurestore.Train)
	if errors.Is(err, errTooLarge) || err == nil && !covers(sizes, b) {
		return nil, &Outgrown{r}
	}
	return b, err
}

// loader implements featurestore.Loader.
type loader struct {
	of      *loaders
	eval    bool
	drawer  drawer              // on the host
	gpu     *gpusampler.Sampler // nil: drawer draws
	ref     featurestore.Ref
	started bool          // started, and not drawn yet
	batch   *graph.Batch  // drawn last; nil after an error
	reads   sampler.Reads // of the topology, for batch
}

func (l *loader) Start(r featurestore.Ref) error {
	l.ref, l.started, l.batch, l.reads = r, true, nil, sampler.Reads{}
	return nil
}

// Wait draws the batch of the last Start, in the calling goroutine.
func (l *loader) Wait(ctx context.Context) (err error) {
	if !l.started {
		return nil
	}
	l.started = false
	if !l.eval {
		s := l.of.source
		s.forget(s.id(l.ref).Epoch, l.of.train)
	}
	if l.gpu != nil {
		l.batch, err = l.of.drawOn(ctx, l.gpu, l.ref)
		return err
	}
	before := l.drawer.from.Reads()
	l.batch, err = l.of.draw(ctx, l.drawer, l.ref)
	l.reads = l.drawer.from.Reads().Sub(before)
	return err
}

func (l *loader) Decode() (*graph.Batch, error) {
	if l.batch == nil {
		return nil, fmt.Errorf("training batch %d was not drawn", l.ref.Index)
	}
	return l.batch, nil
}

// Counts returns the reads of the topology. A loader reads nothing else.
func (l *loader) Counts() featurestore.Counts {
	return featurestore.Counts{BytesRead: l.reads.Bytes, UsefulBytes: l.reads.Useful, GraphRead: l.reads.Bytes,
		TopologyRead: l.reads.Bytes, TopologyRequests: l.reads.Requests}
}

func (l *loader) Free() {
	if l.gpu != nil {
		l.gpu.Free()
	} else {
		l.drawer.from.Free()
	}
}
