package packed

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
)

// gpuLevel is the part of the store that lies on the GPU: the hottest rows, and what
// batches land in on their way to a matrix. Rows travel as they are packed; one kernel
// brings them to their places and widens them, those of the RAM cache straight from
// there, over the bus: that is as fast as copying what the CPU has gathered, and the CPU
// has other work.
type gpuLevel struct {
	device  *cuda.Device
	arena   *cuda.Arena
	table   cuda.Buffer  // rows of the ranks below layout.GPURows
	ram     *cuda.Pinned // the RAM cache
	far     cuda.Buffer  // its rows, from layout.GPURows on, as the device sees them
	gathers *cuda.Stream
	turns   [turns + 1]turn
	next    int     // the turn of the next training batch
	checks  *checks // of chunks that are read into the device's memory; nil: none are
}

// turn is what a batch lands in.
type turn struct {
	rows   cuda.Buffer // as packed, in the order of the slot; none where they need no widening
	ids    cuda.Buffer // ranks of the rows that the levels hold
	landed *cuda.Event
	span   *cuda.Span // of the gathers
}

// openGPU takes the GPU's share of the store.
func (s *Store) openGPU() error {
	g := &gpuLevel{device: s.layout.GPU}
	s.gpu = g
	detach, err := g.device.Attach()
	if err != nil {
		return err
	}
	defer detach()
	if g.arena, err = g.device.NewArena(s.layout.GPUBytes); err != nil {
		return fmt.Errorf("rows on the GPU: %w", err)
	}
	if g.turns, err = newTurns(g.arena, s.pack, s.layout.Through); err != nil {
		return err
	}
	if s.layout.GPUSlotBytes > 0 {
		if g.checks, err = newChecks(g.device, g.arena, s.pack, s.layout.Through); err != nil {
			return err
		}
	}
	if g.table, err = g.arena.Take(s.layout.GPURows * int64(s.facts.RowBytes)); err != nil {
		return err
	}
	for i := range g.turns {
		t := &g.turns[i]
		if t.landed, err = g.device.NewEvent(); err != nil {
			return err
		}
		if t.span, err = g.device.NewSpan(); err != nil {
			return err
		}
	}
	if g.gathers, err = g.device.NewStream(); err != nil {
		return err
	}
	if g.ram, err = g.device.Register(s.cache.Bytes()); err != nil {
		return fmt.Errorf("RAM cache: %w", err)
	}
	pages, err := g.ram.Buffer()
	if err != nil || pages.Bytes() == 0 {
		return err
	}
	first := s.layout.GPURows*int64(s.facts.RowBytes) - s.layout.hotBegin(s.facts.RowBytes)
	g.far = pages.Slice(first, pages.Bytes()-first)
	return nil
}

// close gives all of it back.
func (g *gpuLevel) close() error {
	if g == nil {
		return nil
	}
	detach, err := g.device.Attach()
	if err != nil {
		return err
	}
	defer detach()
	if g.gathers != nil {
		_ = g.gathers.Synchronize() // what went wrong has been told
		g.gathers.Free()
	}
	g.checks.close()
	for i := range g.turns {
		if e := g.turns[i].landed; e != nil {
			e.Free()
		}
		if p := g.turns[i].span; p != nil {
			p.Free()
		}
	}
	if g.ram != nil {
		g.ram.Free()
	}
	if g.arena != nil {
		g.arena.Free()
	}
	return nil
}

// preloadGPU fills the table from the front of hot.bin, checked, and returns the bytes
// read.
func (s *Store) preloadGPU(ctx context.Context, rep progress.Reporter) (int64, error) {
	g := s.gpu
	if g == nil || s.layout.GPURows == 0 {
		return 0, nil
	}
	detach, err := g.device.Attach()
	if err != nil {
		return 0, err
	}
	defer detach()
	h, err := device.NewHost(preloadDepth * preloadPiece)
	if err != nil {
		return 0, err
	}
	defer h.Free()
	staging, err := g.device.Register(h.Bytes())
	if err != nil {
		return 0, err
	}
	defer staging.Free()
	var free [preloadDepth]*cuda.Event // when a part of it was copied
	for i := range free {
		if free[i], err = g.device.NewEvent(); err != nil {
			return 0, err
		}
		defer free[i].Free()
	}
	rows := g.table.Bytes()
	n, err := s.readHot(ctx, rep, "fill the GPU cache", hotRange{
		end: min(binio.AlignUp(rows, binio.Page), s.hotSums.Size),
		room: func(k int, _ int64) ([]byte, error) {
			return h.Bytes()[k*preloadPiece : (k+1)*preloadPiece], free[k].Synchronize()
		},
		take: func(k int, lo int64, b []byte) error {
			b = b[:min(int64(len(b)), rows-lo)]
			return errors.Join(g.gathers.CopyIn(g.table.Slice(lo, int64(len(b))), b), free[k].Record(g.gathers))
		},
	})
	return n, errors.Join(err, g.gathers.Synchronize())
}
