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
)

// Outgrown is the error of a training batch beyond the maxima. Grow raises them. It is of
// kind fault.ErrBudget.
type Outgrown struct{ Ref featurestore.Ref }

func (o *Outgrown) Error() string {
	return fmt.Sprintf("training batch %d is larger than what the dry pass drew", o.Ref.Index)
}

// Unwrap returns the kind.
func (o *Outgrown) Unwrap() error { return fault.ErrBudget }

// sizes returns the maxima and the fanout of the batches that a loader is for.
func (s *Source) sizes(eval bool) (*graph.Sizes, []int) {
	if eval {
		return &s.facts.EvalSizes, s.options.EvalFanout
	}
	return &s.facts.TrainSizes, s.options.Fanout
}

// samplerBytes returns what a sampler holds for the largest batch that a loader is for, and
// whether it numbers nodes by a hash table, where that is smaller than an array.
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

// LoaderBytes returns the memory of a sampler, of the seed nodes that it draws for, and of
// a loader's part of the visiting orders.
func (s *Source) LoaderBytes(eval bool) int64 {
	sizes, _ := s.sizes(eval)
	seeds := int64(sizes.Dst[len(sizes.Dst)-1])
	n, _ := s.samplerBytes(eval)
	n += 2 * int64(8+s.facts.TargetBytes) * seeds // grown to double
	if !eval {
		n += 4 * seeds
	}
	return n
}

// Open returns a maker of loaders. They read nothing.
func (s *Source) Open(iostack.Stack) (featurestore.Loaders, error) { return &loaders{source: s}, nil }

type loaders struct {
	source *Source
	train  int // loaders of training batches
}

func (l *loaders) Close() error { return nil }

// NewLoader returns a loader whose memory is that of the largest batch, once it has drawn
// some. It must not be called while loaders draw.
func (l *loaders) NewLoader(eval bool) (featurestore.Loader, error) {
	if !eval {
		l.train++
	}
	return &loader{of: l, eval: eval, sampler: l.newSampler(eval)}, nil
}

// newSampler returns a sampler of batches within the maxima.
func (l *loaders) newSampler(eval bool) *sampler.Sampler {
	_, fanout := l.source.sizes(eval)
	bytes, hash := l.source.samplerBytes(eval)
	return l.source.newSampler(fanout, hash, bytes)
}

// draw draws a batch, unless it is beyond the maxima.
func (l *loaders) draw(ctx context.Context, by *sampler.Sampler, r featurestore.Ref) (*graph.Batch, error) {
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
	sampler *sampler.Sampler
	ref     featurestore.Ref
	started bool         // and not drawn yet
	batch   *graph.Batch // drawn last; nil after an error
}

func (l *loader) Start(r featurestore.Ref) error {
	l.ref, l.started, l.batch = r, true, nil
	return nil
}

// Wait draws the batch.
func (l *loader) Wait(ctx context.Context) (err error) {
	if !l.started {
		return nil
	}
	l.started = false
	if !l.eval {
		s := l.of.source
		s.forget(s.id(l.ref).Epoch, l.of.train)
	}
	l.batch, err = l.of.draw(ctx, l.sampler, l.ref)
	return err
}

func (l *loader) Decode() (*graph.Batch, error) {
	if l.batch == nil {
		return nil, fmt.Errorf("training batch %d was not drawn", l.ref.Index)
	}
	return l.batch, nil
}

// Counts are zero: nothing is read.
func (l *loader) Counts() featurestore.Counts { return featurestore.Counts{} }

func (l *loader) Free() {}
