package memory

import (
	"context"
	"errors"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpurows"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
)

// gpuTable has all rows for a GPU, by rank: the hottest in its memory, the others in RAM. The GPU gathers. In
// fill, the GPU also moves the rows from the dataset's order to the order of ranks.
type gpuTable struct {
	gpurows.Frames
	facts *featurestore.Facts
	bytes int64 // of the device's memory

	// Rows to be moved to their places, and their ranks.
	landed, entries device.Buffer
}

func newGPUTable(f *featurestore.Facts, l *featurestore.Layout) *gpuTable {
	return &gpuTable{facts: f, bytes: l.GPUBytes,
		Frames: gpurows.Frames{Table: gpurows.Table{Device: l.GPU, Near: l.GPURows, DType: f.DType, Dim: f.Dim}}}
}

// carriedRows returns the most rows that one piece completes. The first of them may begin in earlier pieces.
func (t *gpuTable) carriedRows() int64 { return dataset.Granule/t.RowBytes() + 1 }

// lay takes the device memory, without the rows, out of the arena.
func (t *gpuTable) lay(a device.Memory) error {
	turn := func(eval bool) gpurows.TurnBytes { return gpurows.TurnBytes{IDs: 4 * int64(t.facts.Inputs(eval))} }
	var errs [3]error
	errs[0] = t.Turns.Lay(a, turn(false), turn(true))
	t.landed, errs[1] = a.Take(t.carriedRows() * t.RowBytes())
	t.entries, errs[2] = a.Take(4 * t.carriedRows())
	return errors.Join(errs[:]...)
}

func (t *gpuTable) farBytes() int64 { return (t.facts.Nodes - t.Near) * t.RowBytes() }

func (t *gpuTable) count(l *featurestore.Layout) {
	l.GPURowsBytes, l.GPUBytes = t.Bytes(), gpurows.OpenBytes(&t.Table, t.lay)
	l.RAMBytes, l.KeepBytes = machine.Pages(t.farBytes()), machine.Pages(depth*t.partBytes())
}

func (t *gpuTable) open() error { return t.OpenFrames(t.farBytes(), t.bytes, t.lay) }

func (t *gpuTable) close() { t.CloseFrames() }

// headBytes returns the bytes before the content of a piece in its part of the staging memory: room for the
// beginning of a row that the piece completes. The ranks of the completed rows follow the content.
func (t *gpuTable) headBytes() int64 { return binio.AlignUp(t.RowBytes(), 8) }

func (t *gpuTable) partBytes() int64 {
	return t.headBytes() + dataset.Granule + binio.AlignUp(4*t.carriedRows(), 8)
}

// fill reads the rows by node. The GPU copies each row to the place of its rank.
func (t *gpuTable) fill(ctx context.Context, r *tableReader, ranks []uint32, rep progress.Reporter) (read int64, err error) {
	h, err := device.NewHost(int(depth * t.partBytes()))
	if err != nil {
		return 0, err
	}
	defer h.Free()
	err = t.Device.Attached(func() error {
		p := &placing{gpuTable: t, staging: h, ranks: ranks}
		defer p.close()
		if err := p.open(); err != nil {
			return err
		}
		read, err = r.read(ctx, rep, pieces{room: p.room, take: p.take})
		return errors.Join(err, t.Turns.Stream().Synchronize())
	})
	return read, err
}

// placing implements pieces: it fills the table, on the table's stream.
type placing struct {
	*gpuTable
	staging *device.Host
	pins    *gpurows.Pins
	sent    *gpurows.Marks // by part: after its copy
	ranks   []uint32       // of the nodes from the first incomplete row on
	carried int64          // bytes of the first incomplete row in earlier pieces
}

func (p *placing) open() (err error) {
	if p.pins, err = gpurows.Pin(p.Device, p.staging); err != nil {
		return err
	}
	p.sent, err = gpurows.NewMarks(p.Device, depth)
	return err
}

func (p *placing) close() {
	p.sent.Free()
	p.pins.Free()
}

// part returns the part of the staging memory for piece i: headBytes bytes and the content, and the ranks.
func (p *placing) part(i int) (rows []byte, entries []uint32) {
	b := p.staging.Bytes()[int64(i%depth)*p.partBytes():][:p.partBytes()]
	end := p.headBytes() + dataset.Granule
	return b[:end], binio.View[uint32](b[end:])
}

// room returns the memory for piece i, after the earlier piece in this memory has been copied.
func (p *placing) room(i int, _, n int64) ([]byte, error) {
	rows, _ := p.part(i)
	return rows[p.headBytes() : p.headBytes()+n], p.sent.Wait(i % depth)
}

// take submits the copies of the rows that piece i completes, and keeps the rest for the next piece.
func (p *placing) take(i int, content []byte) error {
	rows, entries := p.part(i)
	rows = rows[p.headBytes()-p.carried : p.headBytes()+int64(len(content))]
	n := int64(len(rows)) / p.RowBytes()
	if n > 0 {
		copy(entries, p.ranks[:n])
		p.ranks = p.ranks[n:]
		s := p.Turns.Stream()
		if err := s.CopyIn(p.landed, rows[:n*p.RowBytes()]); err != nil {
			return err
		}
		if err := s.CopyIn(p.entries, binio.Bytes(entries[:n])); err != nil {
			return err
		}
		if err := p.Place(s, p.landed, p.entries, int(n)); err != nil {
			return err
		}
		if err := p.sent.Set(i%depth, s); err != nil {
			return err
		}
	}
	rest := rows[n*p.RowBytes():]
	p.carried = int64(len(rest))
	next, _ := p.part(i + 1)
	copy(next[p.headBytes()-p.carried:], rest)
	return nil
}

func (t *gpuTable) matrix(eval bool) (machine.Entries, error) {
	return machine.NewGPUEntries(&t.Frames, t.facts, eval)
}

func (t *gpuTable) name(list, input, ranks []uint32) int {
	for i, v := range input {
		list[i], input[i] = ranks[v], ranks[v]
	}
	return t.NearOf(input)
}
