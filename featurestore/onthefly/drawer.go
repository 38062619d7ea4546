package onthefly

import (
	"context"
	"errors"
	"fmt"
	"math"

	"diskgnn/featurestore"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
)

// errTooLarge is the error of a batch that needs more than its worker's share of memory.
var errTooLarge = errors.New("a batch is too large")

// drawer is a sampler with its reader. Free it after use.
type drawer struct {
	*sampler.Sampler
	from topology.Reader
}

// newDrawer returns a drawer with errTooLarge for batches that need more than limit bytes.
func (s *Source) newDrawer(fanout []int, hash bool, limit int64) (drawer, error) {
	from, err := s.topology.NewReader()
	if err != nil {
		return drawer{}, err
	}
	return drawer{sampler.NewFrom(from, fanout, sampler.Options{Hash: hash, Check: func(x sampler.Extent, table int64) error {
		if s.drawBytes(x, fanout)+table > limit {
			return errTooLarge
		}
		return nil
	}}), from}, nil
}

// draw draws a batch, into the drawer's memory.
func (s *Source) draw(ctx context.Context, by drawer, id sampler.ID) (b *graph.Batch, err error) {
	err = s.topology.Guard(func() error {
		b, err = by.Draw(ctx, s.seeds, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("draw %s: %w", label(id), err)
	}
	return b, nil
}

// Inputs draws a batch for its input nodes, on a sampler that lives as long as the call.
func (s *Source) Inputs(ctx context.Context, r featurestore.Ref, buf []byte) ([]uint32, []byte, error) {
	_, fanout := s.sizes(r.Split != featurestore.Train)
	by, err := s.newDrawer(fanout, true, math.MaxInt64)
	if err != nil {
		return nil, buf, err
	}
	defer by.from.Free()
	b, err := s.draw(ctx, by, s.id(r))
	if err != nil {
		return nil, buf, err
	}
	buf = binio.Grow(buf, 4*len(b.Input))
	copy(buf, binio.Bytes(b.Input))
	return binio.View[uint32](buf), buf, nil
}
