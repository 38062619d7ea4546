package featurestore

import (
	"errors"

	"diskgnn/device/cuda"
	"diskgnn/internal/binio"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// direct reports whether the slot's chunks are read into the GPU's memory.
func (sl *Slot) direct() bool { return sl.gpu.arena != nil }

// coldHere returns how many of the batch's cold rows the slot's matrix holds.
func (sl *Slot) coldHere() int {
	if sl.direct() {
		return 0
	}
	return sl.cold
}

// startDirect submits the read of a chunk into the GPU's memory.
func (s *Store) startDirect(sl *Slot, t *packfile.Train) error {
	n := t.Extent(s.pack.Form(), s.layout.Through)
	sl.req = append(sl.req[:0], iostack.Request{File: sl.chunk.File, Offset: t.ChunkOffset, Device: sl.gpu.chunk.Slice(0, n)})
	if err := s.stack.Submit(&sl.group, sl.req); err != nil {
		return err
	}
	sl.BytesRead += extent(sl.chunk.File, t.ChunkOffset, n)
	return nil
}

// checks is what chunks in the GPU's memory are checked with, one at a time.
type checks struct {
	device       *cuda.Device
	stream       *cuda.Stream
	arena        *cuda.Arena
	ranges, sums cuda.Buffer
	host         *cuda.Pinned // ranges, then sums
}

// newChecks takes what the chunks of a pack need. The calling goroutine is attached.
func newChecks(d *cuda.Device, r *packfile.Reader, through int) (*checks, error) {
	most := int64(0)
	for i := range r.Index().Train {
		most = max(most, int64(r.Form().NumPieces(r.Index().Train[i].Bands[:through+1])))
	}
	c := &checks{device: d}
	var errs [5]error
	if c.arena, errs[0] = d.NewArena(checksBytes(most)); errs[0] == nil {
		c.ranges, errs[1] = c.arena.Take(16 * most)
		c.sums, errs[2] = c.arena.Take(4 * most)
	}
	c.host, errs[3] = d.NewPinned(20 * most)
	c.stream, errs[4] = d.NewStream()
	if err := errors.Join(errs[:]...); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func checksBytes(pieces int64) int64 { return 20*pieces + 2*cuda.Align }

// verify checks the slot's chunk.
func (c *checks) verify(sl *Slot, t *packfile.Train) error {
	s := sl.store
	form, through := s.pack.Form(), s.layout.Through
	n := form.NumPieces(t.Bands[:through+1])
	host := c.host.Bytes()
	ranges, sums := binio.View[uint64](host[:16*n]), binio.View[uint32](host[16*n:20*n])
	i := 0
	err := t.Pieces(form, through, func(p packfile.Piece) error {
		ranges[2*i], ranges[2*i+1] = uint64(p.Offset), uint64(p.Len)
		i++
		return nil
	})
	if err != nil {
		return err
	}
	detach, err := c.device.Attach()
	if err != nil {
		return err
	}
	defer detach()
	err = errors.Join(c.stream.CopyIn(c.ranges, binio.Bytes(ranges)),
		c.stream.Checksum(&cuda.Checksum{Sums: c.sums, Data: sl.gpu.chunk, Ranges: c.ranges, Rows: cuda.Rows(n)}),
		c.stream.CopyOut(binio.Bytes(sums), c.sums.Slice(0, int64(4*n))), c.stream.Synchronize())
	if err != nil {
		return err
	}
	i = 0
	return t.Pieces(form, through, func(p packfile.Piece) error {
		i++
		if sums[i-1] != p.Sum {
			return binio.BadRange(s.pack.Path(packfile.ColdFile(s.pack.Group(sl.batch))), t.ChunkOffset+p.Offset, int64(p.Len))
		}
		return nil
	})
}

// close gives all of it back. The calling goroutine is attached.
func (c *checks) close() {
	if c == nil {
		return
	}
	if c.stream != nil {
		c.stream.Free()
	}
	if c.host != nil {
		c.host.Free()
	}
	if c.arena != nil {
		c.arena.Free()
	}
}
