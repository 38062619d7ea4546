package gpurows

import (
	"errors"
	"fmt"

	"diskgnn/device/cuda"
	"diskgnn/internal/binio"
)

// training is the number of training batches that land on the GPU at the same time: one
// is gathered while the next one is copied. Evaluation batches have a turn of their own.
const training = 2

// TurnBytes is the device's memory that a batch lands in.
type TurnBytes struct {
	IDs  int64 // entries of a table
	Rows int64 // as the table has them
}

// Turns are the memory that batches land in, one after the other, and the stream on which
// they take rows from a table, and change it, in the order in which they are computed: every
// batch finds the table as those before it left it. They have the arena that the table's rows
// on the device lie in, too. Methods are for one goroutine at a time, which is attached, where
// they submit work; Training and Evaluation may be called beside them, by one other.
type Turns struct {
	arena   *cuda.Arena
	list    [training + 1]Turn
	gathers *cuda.Stream
	next    int // the turn of the next training batch
}

// Turn is the memory of one batch, and when it has landed.
type Turn struct {
	IDs, Rows cuda.Buffer
	number    int64
	landed    *cuda.Event
	span      *cuda.Span // of the gathers
}

// LandingRows returns the rows of the table that batches under way land in, where the turns keep their
// rows there. train and eval are the rows of the largest training batch and of the largest evaluation
// batch.
func LandingRows(train, eval int64) int64 { return training*train + eval }

// Landing returns which of LandingRows is the first of the turn's.
func (n *Turn) Landing(train int64) int64 { return n.number * train }

// Lay takes the memory of training batches, and then of the others.
func (t *Turns) Lay(a *cuda.Arena, train, eval TurnBytes) error {
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

// OpenBytes returns the device memory that an arena needs for a table's rows and for the takings of
// lay, in bytes.
func OpenBytes(table *Table, lay func(*cuda.Arena) error) int64 {
	dry := new(cuda.Arena)
	_ = lay(dry) // which has room for all
	return binio.AlignUp(table.Bytes(), cuda.Align) + dry.Used()
}

// Open takes bytes of the table's device as an arena, from which lay takes the memory of batches and
// open takes the memory of the table. It makes the stream.
func (t *Turns) Open(table *Table, bytes int64, lay, open func(*cuda.Arena) error) error {
	d := table.Device
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

// Close waits for work under way, closes the table and frees all that Open took, also after an error.
// It fails only after a fault, which was reported.
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

// Stream returns the stream of the table.
func (t *Turns) Stream() *cuda.Stream { return t.gathers }

// Training returns the turn of the next training batch: the batch before the last must have
// been computed.
func (t *Turns) Training() *Turn {
	n := &t.list[t.next]
	t.next = (t.next + 1) % training
	return n
}

// Evaluation returns the turn of every other batch: the last one must have been computed.
func (t *Turns) Evaluation() *Turn { return &t.list[training] }

// Begin makes the table's stream wait for a batch's copies, all of which were submitted on the given
// stream. Work submitted on the table's stream until End belongs to the batch.
func (t *Turns) Begin(n *Turn, copies *cuda.Stream) error {
	return errors.Join(n.landed.Record(copies), t.gathers.Wait(n.landed), n.span.Begin(t.gathers))
}

// Gather copies a batch's entries to the device, calls Begin, and submits on the table's stream the
// gather of the first rows entries' rows into x.
func (t *Turns) Gather(n *Turn, from *Table, copies *cuda.Stream, x cuda.Buffer, entries []uint32, rows int) error {
	if err := copies.CopyIn(n.IDs, binio.Bytes(entries)); err != nil {
		return err
	}
	if err := t.Begin(n, copies); err != nil {
		return err
	}
	return from.Gather(t.gathers, x, n.IDs, rows)
}

// End returns the time span of the work submitted since Begin. The batch's matrix is complete at its
// end.
func (t *Turns) End(n *Turn) (*cuda.Span, error) { return n.span, n.span.End(t.gathers) }
