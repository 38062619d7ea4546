package presample

import (
	"context"

	"diskgnn/device"
	"diskgnn/internal/errgroup"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
)

// degreesAbove is the number of nodes up to which the positions of a mapped graph's edges are about as near to the processor
// as a table of degrees.
const degreesAbove = 2 << 20

// degreeBytes returns the bytes of memory of the table of degrees, or 0 if there is none.
func (s *sampling) degreeBytes() int64 {
	above := s.o.degreesAbove
	if above == 0 {
		above = degreesAbove
	}
	if f := s.data.Facts(); f.Types != nil {
		return 0 // batches have no degrees
	}
	if n := s.data.Facts().Nodes; n > above && s.o.Topology.Level == topology.Mapped {
		return n
	}
	return 0
}

// countDegrees fills the table of degrees, if there is one. close frees it.
func (s *sampling) countDegrees(ctx context.Context) (err error) {
	n := int(s.degreeBytes())
	if n == 0 {
		return nil
	}
	if s.degrees, err = device.NewHost(n); err != nil {
		return err
	}
	s.degrees.Huge()
	to, indptr := s.degrees.Bytes(), topology.CSC(s.topology).Indptr
	return errgroup.Ranges(ctx, s.o.Workers, n, 1<<20, func(_, lo, hi int) error {
		return s.topology.Guard(func() error {
			sampler.FillDegrees(to[lo:hi], indptr[lo:hi+1])
			return nil
		})
	})
}

// shortDegrees returns the table of degrees, or nil.
func (s *sampling) shortDegrees() []byte {
	if s.degrees == nil {
		return nil
	}
	return s.degrees.Bytes()
}

// close closes the topology and frees the table of degrees.
func (s *sampling) close() error {
	if s.degrees != nil {
		s.degrees.Free()
		s.degrees = nil
	}
	return s.topology.Close()
}
