package packed

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/binio"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// direct are reads that the host submits and that land in the GPU's memory. The GPU computes their checksums, of
// one chunk at a time.
type direct struct {
	*chunk
	gpu    *gpu
	stream *cuda.Stream
	host   *cuda.Pinned // ranges, then sums
	// The copies of both on the GPU.
	ranges, sums device.Buffer
}

func (d *direct) lay(a device.Memory) (err error) {
	n := mostPieces(d.chunk)
	if d.ranges, err = a.Take(16 * n); err == nil {
		d.sums, err = a.Take(4 * n)
	}
	return err
}

func mostPieces(d *chunk) int64 {
	most := 0
	for i := range d.src.pack.Index().Train {
		most = max(most, d.src.pack.Form().NumPieces(d.src.pack.Index().Train[i].Bands[:d.through+1]))
	}
	return int64(most)
}

func (d *direct) open() error {
	return d.gpu.device.Attached(func() (err error) {
		if d.host, err = d.gpu.device.NewPinned(20 * mostPieces(d.chunk)); err == nil {
			d.stream, err = d.gpu.device.NewStream()
		}
		return err
	})
}

func (d *direct) close() {
	_ = d.gpu.device.Attached(func() error { // fails only after a fault, which was reported
		if d.stream != nil {
			d.stream.Free()
		}
		if d.host != nil {
			d.host.Free()
		}
		return nil
	})
}

func (d *direct) part(m *gpuMatrix, mem *memory) deviceChunk {
	m.own(mem, d.most())
	return &directPart{direct: d, b: m.b, matrix: m}
}

type directPart struct {
	*direct
	b      *batch
	matrix *gpuMatrix
	read   chunkRead
	rows   stretch
}

func (p *directPart) open() error {
	return p.gpu.device.Attached(func() error { return iostack.RegisterDevice(p.src.stack, p.matrix.chunkMem) })
}

func (p *directPart) free() {
	if p.matrix.arena == nil {
		return
	}
	_ = p.gpu.device.Attached(func() error {
		return iostack.UnregisterDevice(p.src.stack, p.matrix.chunkMem) // RegisterDevice was a hint
	})
}

// complete does nothing: place has checked the chunk.
func (p *directPart) complete(device.Stream) error { return nil }
func (p *directPart) landed() error                { return nil }

func (p *directPart) start() error {
	t := p.b.train()
	p.rows = p.b.claim(0, t.ColdRows(p.through))
	if p.rows.rows == 0 {
		return nil
	}
	to := p.matrix.landDirect(p.rows).Slice(0, t.Extent(p.src.pack.Form(), p.through))
	if err := p.read.start(p.chunk, p.b, iostack.Request{Device: to}); err != nil {
		return fmt.Errorf("chunk of %v: %w", p.b, err)
	}
	return nil
}

func (p *directPart) follow() error { return nil }

func (p *directPart) wait(ctx context.Context, err error) error { return p.read.wait(ctx, p.b, err) }

func (p *directPart) packed(int) []byte { return nil }

func (p *directPart) place() error {
	if p.rows.rows == 0 {
		return nil
	}
	p.b.UsefulBytes += p.b.train().Stored(p.src.pack.Form(), p.through)
	if err := p.verify(); err != nil {
		return fmt.Errorf("chunk of %v: %w", p.b, err)
	}
	return nil
}

// verify checks the slot's chunk.
func (p *directPart) verify() error {
	t, form := p.b.train(), p.src.pack.Form()
	n := form.NumPieces(t.Bands[:p.through+1])
	host := p.host.Bytes()
	ranges, sums := binio.View[uint64](host[:16*n]), binio.View[uint32](host[16*n:20*n])
	i := 0
	err := t.Pieces(form, p.through, func(at packfile.Piece) error {
		ranges[2*i], ranges[2*i+1] = uint64(at.Offset), uint64(at.Len)
		i++
		return nil
	})
	if err != nil {
		return err
	}
	err = p.gpu.device.Attached(func() error {
		// If the ranges were not copied, the kernel would read arbitrary addresses.
		err := p.stream.CopyIn(p.ranges, binio.Bytes(ranges))
		if err == nil {
			err = kernels.Checksum{Sums: p.sums, Data: p.matrix.chunkMem, Ranges: p.ranges, Rows: kernels.Rows(n)}.Launch(p.stream)
		}
		if err == nil {
			err = p.stream.CopyOut(binio.Bytes(sums), p.sums.Slice(0, int64(4*n)))
		}
		return errors.Join(err, p.stream.Synchronize())
	})
	if err != nil {
		return err
	}
	i = 0
	return t.Pieces(form, p.through, func(at packfile.Piece) error {
		i++
		if sums[i-1] != at.Sum {
			return binio.BadRange(p.src.pack.Path(p.file(p.b)), t.ChunkOffset+at.Offset, int64(at.Len))
		}
		return nil
	})
}
