package machine

import (
	"context"
	"errors"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/gpureads"
	"diskgnn/internal/binio"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// Files are the open files of a store: the rows, and the batches. With them are the ranks of the nodes.
type Files struct {
	of      *Table
	Stack   iostack.Stack
	Rows    iostack.File
	Sums    *binio.Sums // of the pages of Rows; nil before Prepare
	Loaders featurestore.Loaders
	Devices *gpureads.Reader // reads rows on a GPU; nil: the host does
	ranks   *device.Host
}

// OpenBatches opens the batches, and takes the memory of the ranks. Call Close also after an error.
func (f *Files) OpenBatches(of *Table, stack iostack.Stack) (err error) {
	f.of, f.Stack = of, stack
	if f.ranks, err = device.NewHost(int(of.RanksBytes())); err != nil {
		return err
	}
	f.Loaders, err = of.Source.Open(stack)
	return err
}

// Open opens the rows and the batches, and for a plan of reads by a GPU its queues. Call Close also after an
// error.
func (f *Files) Open(of *Table, stack iostack.Stack, reads *gpureads.Plan, gpu device.GPU) (err error) {
	if err = f.OpenBatches(of, stack); err != nil {
		return err
	}
	if f.Rows, err = stack.Open(of.Data.FeaturesPath()); err != nil {
		return err
	}
	if err = of.Whole(f.Rows.Name(), f.Rows.Size()); err != nil || reads == nil {
		return err
	}
	if f.Devices, err = reads.Open(stack, gpu); err != nil {
		return err
	}
	return f.Devices.Check(f.Rows)
}

// Opened returns the files, for another store that shares them.
func (f *Files) Opened() *Files { return f }

// Ranks returns the rank of every node. They are read by ReadRanks.
func (f *Files) Ranks() []uint32 { return f.ranks.Uint32s()[:f.of.Facts.Nodes] }

// ReadRanks reads the ranks.
func (f *Files) ReadRanks() error { return f.of.Source.Ranks(f.Ranks()) }

// ReadSums reads the checksums of the pages of the rows at its first call, and makes their file if it is
// missing. It returns the bytes read.
func (f *Files) ReadSums(ctx context.Context, rep progress.Reporter) (read int64, err error) {
	if f.Sums == nil {
		f.Sums, read, err = f.of.Data.PageSums(ctx, rep)
	}
	return read, err
}

// Close closes the files and the queues, and releases the memory.
func (f *Files) Close() error {
	var errs []error
	if f.Loaders != nil {
		errs = append(errs, f.Loaders.Close())
	}
	errs = append(errs, f.Devices.Close())
	if f.Rows != nil {
		errs = append(errs, f.Rows.Close())
	}
	if f.ranks != nil {
		f.ranks.Free()
	}
	return errors.Join(errs...)
}

// Stateless is the part of a store without a state of its own: the rows that it holds follow from the position
// of the run.
type Stateless struct{}

// State returns nil.
func (Stateless) State() ([]byte, error) { return nil, nil }

// LoadState does nothing.
func (Stateless) LoadState([]byte) error { return nil }
