package gpurows

import (
	"errors"
	"fmt"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/internal/binio"
)

// training is the number of turns for training batches: one batch is gathered while the next one is copied.
// Evaluation batches have a turn of their own.
const training = 2

// TurnBytes is the device memory of a turn, in bytes.
type TurnBytes struct {
	IDs  int64 // for entries of the table
	Rows int64 // for rows in the table's type
}

// Turns have the memory that batches land in, in turn, and the stream on which batches read a table and
// change it. Batches do so in the order in which they are computed, so a batch sees the changes of all
// earlier batches. Turns also have the arena of the table's rows on the device. Methods that submit work
// are for one goroutine at a time, attached to the device. One other goroutine may call Training and
// Evaluation meanwhile.
type Turns struct {
	arena   *cuda.Arena
	list    [training + 1]Turn
	gathers *cuda.Stream
	next    int // number of the turn of the next training batch
}

// Turn is the memory and the events of one batch.
type Turn struct {
	IDs, Rows device.Buffer
	number    int64
	landed    *cuda.Event
	span      *cuda.Span // of the gathers
}

// LandingRows returns the number of entries of a table for landing rows of all turns, for tables with rows
// that land in entries. train and eval are the rows of the largest training and evaluation batch.
func LandingRows(train, eval int64) int64 { return training*train + eval }

// Landing returns the first of the LandingRows entries that belongs to the turn. train is as in LandingRows.
func (n *Turn) Landing(train int64) int64 { return n.number * train }

// Lay takes the memory of the turns out of an arena: train bytes for each turn of training batches, eval
// bytes for the turn of evaluation batches.
func (t *Turns) Lay(a device.Memory, train, eval TurnBytes) error {
	for i := range t.list {
		most := train
		if i == training {
			most = eval
		}
		t.list[i].number = int64(i)
		var errs [2]error
		t.list[i].IDs, errs[0] = a.Take(most.IDs)
		t.list[i].Rows, errs[1] = a.Take(most.Rows)
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
	}
	return nil
}

// OpenBytes returns the size of an arena for a table's rows and for the memory that lay takes, in bytes.
func OpenBytes(table *Table, lay func(device.Memory) error) int64 {
	dry := new(cuda.Arena)
	_ = lay(dry) // never fails: a dry arena only counts
	return binio.AlignUp(table.Bytes(), cuda.Align) + dry.Used()
}

// Open makes an arena of the given bytes on the table's device, and calls lay and open, which take the memory
// of batches and of the table out of it. Then it makes the events and the stream.
func (t *Turns) Open(table *Table, bytes int64, lay, open func(device.Memory) error) error {
	d := cuda.DeviceOf(table.Device)
	return d.Attached(func() (err error) {
		if t.arena, err = d.NewArena(bytes); err != nil {
			return fmt.Errorf("rows on the GPU: %w", err)
		}
		if err = lay(t.arena); err != nil {
			return err
		}
		if err = open(t.arena); err != nil {
			return err
		}
		return t.start(d)
	})
}

func (t *Turns) start(d *cuda.Device) (err error) {
	for i := range t.list {
		n := &t.list[i]
		if n.landed, err = d.NewEvent(); err != nil {
			return err
		}
		if n.span, err = d.NewSpan(); err != nil {
			return err
		}
	}
	t.gathers, err = d.NewStream()
	return err
}

// Close waits for submitted work, closes the table and frees the memory, the events and the stream of Open.
// Call it also after an error of Open. It fails only after a fault of the device, which was returned before.
func (t *Turns) Close(table *Table) error {
	return table.Device.Attached(func() error {
		if t.gathers != nil {
			_ = t.gathers.Synchronize() // fails only after a fault, which was reported
			t.gathers.Free()
		}
		for i := range t.list {
			if e := t.list[i].landed; e != nil {
				e.Free()
			}
			if p := t.list[i].span; p != nil {
				p.Free()
			}
		}
		table.Close()
		if t.arena != nil {
			t.arena.Free()
		}
		return nil
	})
}

// Stream returns the stream on which batches read and change the table.
func (t *Turns) Stream() *cuda.Stream { return t.gathers }

// Put copies bytes from the host to a buffer, to byte at and the ones after it, on the table's stream, and
// waits for the copy. No batch may be under way.
func (t *Turns) Put(on device.GPU, to device.Buffer, at int64, b []byte) error {
	return put(on, t.gathers, to, at, b)
}

func put(on device.GPU, s *cuda.Stream, to device.Buffer, at int64, b []byte) error {
	return on.Attached(func() error {
		return errors.Join(s.CopyIn(to.Slice(at, int64(len(b))), b), s.Synchronize())
	})
}

// Training returns the turn of the next training batch. The last but one training batch, which used this
// turn, must have been computed.
func (t *Turns) Training() *Turn {
	n := &t.list[t.next]
	t.next = (t.next + 1) % training
	return n
}

// Evaluation returns the turn of evaluation batches. The last evaluation batch must have been computed.
func (t *Turns) Evaluation() *Turn { return &t.list[training] }

// Begin makes the table's stream wait for the work submitted on copies so far: the batch's copies. Work
// submitted on the table's stream between Begin and End belongs to the batch.
func (t *Turns) Begin(n *Turn, copies device.Stream) error {
	return errors.Join(n.landed.Record(cuda.StreamOf(copies)), t.gathers.Wait(n.landed), n.span.Begin(t.gathers))
}

// Gather submits the copy of a batch's entries to the device, calls Begin, and submits on the table's stream
// the gather of the first rows entries into x: see Table.Gather.
func (t *Turns) Gather(n *Turn, from *Table, copies device.Stream, x device.Buffer, entries []uint32, rows int) error {
	if err := copies.CopyIn(n.IDs, binio.Bytes(entries)); err != nil {
		return err
	}
	if err := t.Begin(n, copies); err != nil {
		return err
	}
	return from.Gather(t.gathers, x, n.IDs, rows)
}

// End ends the work of a batch, and returns its time span. The batch's matrix is complete at the end of the
// span.
func (t *Turns) End(n *Turn) (device.Span, error) { return n.span, n.span.End(t.gathers) }
