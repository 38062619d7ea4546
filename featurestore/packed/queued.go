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

// queued are reads in queues of the GPU. It submits them when a batch begins, and completes them
// when the matrix is made. A kernel computes the checksums; the host compares them after the copies.
type queued struct {
	*chunk
	reads  *queuedReads
	gpu    *gpu
	reader iostack.DeviceReader
}

func (l *queued) lay(device.Memory) error { return nil } // slots have all memory

func (l *queued) open() error {
	stack, err := iostack.DeviceStackOf(l.src.stack)
	if err == nil {
		l.reader, err = stack.NewDeviceReader(l.gpu.device, l.reads.need)
	}
	return err
}

func (l *queued) close() {
	if l.reader != nil {
		_ = l.reader.Close() // slots were freed: no read is in flight
	}
}

func (l *queued) part(m *gpuMatrix, mem *memory) deviceChunk {
	n := mostPieces(l.chunk)
	p := &queuedPart{queued: l, b: m.b, matrix: m, host: mem.take(20 * n)}
	m.own(mem, l.most())
	if m.chunkBytes > 0 {
		_ = p.lay(new(cuda.Arena), n, &mem.device)
	}
	return p
}

// queuedPart has a slot's chunk in the GPU's memory.
type queuedPart struct {
	*queued
	b            *batch
	matrix       *gpuMatrix
	batch        iostack.DeviceBatch
	host         *device.Host // ranges, then sums
	pinned       *cuda.Pinned
	arena        *cuda.Arena
	ranges, sums device.Buffer
	rows         stretch
	file         string // of the chunk
	under, check bool   // reads may be in flight; checksums are to be compared
}

// lay takes the device memory for n pieces out of the arena, and adds its size to sum.
func (p *queuedPart) lay(a *cuda.Arena, n int64, sum *int64) (err error) {
	if p.ranges, err = a.Take(16 * n); err == nil {
		p.sums, err = a.Take(4 * n)
	}
	*sum += a.Used()
	return err
}

func (p *queuedPart) open() error {
	n, bytes := mostPieces(p.chunk), int64(0)
	err := p.gpu.device.Attached(func() (err error) {
		if p.pinned, err = p.gpu.device.Register(p.host.Bytes()); err != nil {
			return err
		}
		_ = p.lay(new(cuda.Arena), n, &bytes)
		if p.arena, err = p.gpu.device.NewArena(bytes); err != nil {
			return err
		}
		return p.lay(p.arena, n, &bytes)
	})
	if err == nil {
		p.batch, err = p.reader.NewBatch(p.matrix.chunkMem)
	}
	return err
}

func (p *queuedPart) free() {
	if p.batch != nil {
		_ = p.batch.End()
		p.batch.Free()
		p.batch = nil
	}
	_ = p.gpu.device.Attached(func() error { // fails only after a fault, which was reported
		if p.pinned != nil {
			p.pinned.Free()
		}
		if p.arena != nil {
			p.arena.Free()
		}
		return nil
	})
	p.pinned, p.arena = nil, nil
}

// start claims the first rows of the matrix and submits their reads.
func (p *queuedPart) start() error {
	t := p.b.train()
	p.rows = p.b.claim(0, t.ColdRows(p.through))
	p.check = false
	if p.rows.rows == 0 {
		return nil
	}
	p.matrix.landDirect(p.rows)
	if err := p.submit(t, t.Extent(p.src.pack.Form(), p.through)); err != nil {
		return fmt.Errorf("chunk of %v: %w", p.b, err)
	}
	return nil
}

func (p *queuedPart) submit(t *packfile.Train, bytes int64) (err error) {
	file, err := p.src.files.Take(p.chunk.file(p.b))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.src.files.Give(file)) }() // the device has its own access to the bytes
	p.file = file.Name()
	p.under = true
	if err := p.batch.Add(file.File, t.ChunkOffset, bytes, 0); err != nil {
		return err
	}
	p.b.BytesRead += iostack.Extent(file.File, t.ChunkOffset, bytes)
	p.b.Requests++
	return p.batch.Submit()
}

func (p *queuedPart) follow() error { return nil }

// wait does not wait for the reads. If the batch was given up, it ends them.
func (p *queuedPart) wait(ctx context.Context, err error) error {
	if err == nil {
		err = ctx.Err()
	}
	if err != nil && p.under {
		p.under, p.check = false, false
		_ = p.batch.End() // err says why
	}
	return err
}

func (p *queuedPart) packed(int) []byte { return nil }

func (p *queuedPart) place() error {
	if p.rows.rows > 0 {
		p.b.UsefulBytes += p.b.train().Stored(p.src.pack.Form(), p.through)
	}
	return nil
}

// pieces calls do for every piece of the chunk that is read, with the piece's number.
func (p *queuedPart) pieces(do func(i int, at packfile.Piece) error) error {
	i := 0
	return p.b.train().Pieces(p.src.pack.Form(), p.through, func(at packfile.Piece) error {
		i++
		return do(i-1, at)
	})
}

// words returns the ranges and the sums of n pieces in host memory.
func (p *queuedPart) words(n int) (ranges []uint64, sums []uint32) {
	b := p.host.Bytes()
	return binio.View[uint64](b[:16*n]), binio.View[uint32](b[16*n : 20*n])
}

func (p *queuedPart) count() int { return p.src.pack.Form().NumPieces(p.b.train().Bands[:p.through+1]) }

// complete submits to the stream the completion of the chunk's reads, and the computation of its checksums.
func (p *queuedPart) complete(copies device.Stream) error {
	if p.rows.rows == 0 {
		return nil
	}
	n := p.count()
	ranges, sums := p.words(n)
	err := p.pieces(func(i int, at packfile.Piece) error {
		ranges[2*i], ranges[2*i+1] = uint64(at.Offset), uint64(at.Len)
		return nil
	})
	if err != nil {
		return err
	}
	p.check = true
	if err := p.batch.Complete(copies); err != nil {
		return err
	}
	if err := copies.CopyIn(p.ranges, binio.Bytes(ranges)); err != nil {
		return err
	}
	if err := (kernels.Checksum{Sums: p.sums, Data: p.matrix.chunkMem, Ranges: p.ranges, Rows: kernels.Rows(n)}).Launch(cuda.StreamOf(copies)); err != nil {
		return err
	}
	return copies.CopyOut(binio.Bytes(sums), p.sums.Slice(0, int64(4*n)))
}

// landed compares the checksums.
func (p *queuedPart) landed() error {
	if !p.under {
		return nil
	}
	err, check := p.batch.End(), p.check
	p.under, p.check = false, false
	if err == nil && check {
		_, sums := p.words(p.count())
		err = p.pieces(func(i int, at packfile.Piece) error {
			if sums[i] != at.Sum {
				return binio.BadRange(p.file, p.b.train().ChunkOffset+at.Offset, int64(at.Len))
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("chunk of %v: %w", p.b, err)
	}
	return nil
}
