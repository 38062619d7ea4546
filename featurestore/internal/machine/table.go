package machine

import (
	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
)

// Table is the feature table of a dataset, with the batches of a source that was drawn from it.
type Table struct {
	Source featurestore.Source
	Data   *dataset.Dataset
	Facts  featurestore.Facts
}

// Size returns the size of all rows, in bytes.
func (t *Table) Size() int64 { return t.Facts.Nodes * int64(t.Facts.RowBytes) }

// RanksBytes returns the memory of all ranks, in bytes.
func (t *Table) RanksBytes() int64 { return Pages(4 * t.Facts.Nodes) }

// Damaged adds to an error about the features the advice to make them again.
func (t *Table) Damaged(err error) error {
	return stage.Damaged(err, t.Data.Dir(), t.Data.Meta().Format)
}

// Whole returns an error of kind fault.ErrCorrupt if the file of the given name and size lacks rows.
func (t *Table) Whole(name string, size int64) error {
	if want := t.Size(); size < want {
		return t.Damaged(fault.New(fault.ErrCorrupt, "%s has %d bytes instead of %d: it was truncated", name, size, want))
	}
	return nil
}

// Pages rounds the bytes of a buffer up to whole pages.
func Pages(bytes int64) int64 { return binio.AlignUp(bytes, device.PageSize) }
