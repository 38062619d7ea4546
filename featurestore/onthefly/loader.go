package onthefly

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
)

// Outgrown is the error of a training batch with a size above the maxima of the dry pass. Source.Grow raises
// the maxima. It is of kind fault.ErrBudget.
type Outgrown struct{ Ref featurestore.Ref }

func (o *Outgrown) Error() string {
	return fmt.Sprintf("training batch %d is larger than the batches of the dry pass", o.Ref.Index)
}

// Unwrap returns fault.ErrBudget.
func (o *Outgrown) Unwrap() error { return fault.ErrBudget }

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
