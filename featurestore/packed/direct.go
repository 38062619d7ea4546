package packed

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
	ranges, sums cuda.Buffer
	host         *cuda.Pinned // ranges, then sums
}

// newChecks takes what the chunks of a pack need, of the device's memory from an arena.
// The calling goroutine is attached.
func newChecks(d *cuda.Device, a *cuda.Arena, r *packfile.Reader, through int) (*checks, error) {
	c := &checks{device: d}
	var errs [3]error
	errs[0] = c.take(a, r, through)
	c.host, errs[1] = d.NewPinned(20 * mostPieces(r, through))
	c.stream, errs[2] = d.NewStream()
	if err := errors.Join(errs[:]...); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// take takes what lies on the device.
func (c *checks) take(a *cuda.Arena, r *packfile.Reader, through int) error {
	n := mostPieces(r, through)
	var errs [2]error
	c.ranges, errs[0] = a.Take(16 * n)
	c.sums, errs[1] = a.Take(4 * n)
	return errors.Join(errs[:]...)
}

// mostPieces returns the most pieces of a chunk that are read.
func mostPieces(r *packfile.Reader, through int) int64 {
	most := 0
	for i := range r.Index().Train {
		most = max(most, r.Form().NumPieces(r.Index().Train[i].Bands[:through+1]))
	}
	return int64(most)
}

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
	// One after the other: over ranges that were not copied the kernel would read anywhere.
	if err := c.stream.CopyIn(c.ranges, binio.Bytes(ranges)); err != nil {
		return err
	}
	err = c.stream.Checksum(&cuda.Checksum{Sums: c.sums, Data: sl.gpu.chunk, Ranges: c.ranges, Rows: cuda.Rows(n)})
	if err == nil {
		err = c.stream.CopyOut(binio.Bytes(sums), c.sums.Slice(0, int64(4*n)))
	}
	if err = errors.Join(err, c.stream.Synchronize()); err != nil {
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
}
