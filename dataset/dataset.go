package dataset

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Dataset is an open dataset directory. Its methods are safe for concurrent use.
type Dataset struct {
	fs    vfs.FS
	dir   string
	meta  *stage.Meta
	facts Facts
}

// OpenAny opens a dataset directory, also of a typed graph. It reads and checks meta.json, and checks that every file exists
// with the right size; contents are checked as they are read. Damage, here and in the methods, is an
// error of kind fault.ErrCorrupt with a hint how to make the dataset again.
func OpenAny(fsys vfs.FS, dir string) (*Dataset, error) {
	m, err := stage.Open(fsys, dir, kind, forms.Formats(formatName)...)
	if err != nil {
		return nil, err
	}
	d, err := newDataset(fsys, dir, m)
	return d, stage.Damaged(err, dir, m.Format)
}

// newDataset checks meta.json. After that, code can compute with the facts, and allocate memory by
// them: at most a few times the size of the files.
func newDataset(fsys vfs.FS, dir string, m *stage.Meta) (*Dataset, error) {
	d := &Dataset{fs: fsys, dir: dir, meta: m}
	if err := m.DecodeFacts(&d.facts); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := d.facts.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if _, err := forms.Of(dir, m.Format); err != nil {
		return nil, err
	}
	if form := d.facts.form(); form.Format() != m.Format {
		return nil, fault.New(fault.ErrCorrupt, "%s: compressed features: %t, original ids: %t, types: %t; its format %s says otherwise", dir, form.Compressed, form.OriginalIDs, form.Typed, m.Format)
	}
	for _, name := range d.facts.dataFiles() {
		f, ok := m.File(name)
		t, table := m.File(tableOf(name))
		if !ok || !table {
			return nil, fault.New(fault.ErrCorrupt, "%s: %s does not list %s, or does not list its checksums", dir, stage.MetaFile, name)
		}
		if want := d.facts.size(name); want >= 0 && f.Size != want {
			return nil, fault.New(fault.ErrCorrupt, "%s: %s has %d bytes instead of the %d that its facts call for", dir, name, f.Size, want)
		}
		if want := d.facts.tableSize(name); t.Size != want {
			return nil, fault.New(fault.ErrCorrupt, "%s: %s has %d bytes instead of the %d that its facts call for", dir, t.Name, t.Size, want)
		}
	}
	return d, nil
}

// damaged adds to an error how the dataset is made again.
func (d *Dataset) damaged(err error) error { return stage.Damaged(err, d.dir, d.meta.Format) }

// Dir returns the path that was given to Open.
func (d *Dataset) Dir() string { return d.dir }

// Meta returns the content of meta.json. The caller must not modify it.
func (d *Dataset) Meta() *stage.Meta { return d.meta }

// Fingerprint returns the fingerprint of meta.json, a hash over the dataset's content.
func (d *Dataset) Fingerprint() string { return d.meta.Fingerprint }

// Facts returns the counts and types that describe the arrays.
func (d *Dataset) Facts() Facts { return d.facts }

// RowBytes returns the size of one feature row.
func (d *Dataset) RowBytes() int { return d.facts.RowBytes() }

// TargetBytes returns the length in bytes of a node's row of bits in targets.bin, or 0 if the dataset
// is not multi-label.
func (d *Dataset) TargetBytes() int { return d.facts.TargetBytes() }

func (d *Dataset) path(name string) string { return filepath.Join(d.dir, name) }

// checksums returns the content of a data file's table.
func (d *Dataset) checksums(name string) (fileSums, error) {
	file, _ := d.meta.File(name)
	table, _ := d.meta.File(tableOf(name))
	c, err := readSums(d.fs, d.dir, file, table)
	if err != nil {
		return fileSums{}, err
	}
	if c.frames.crcs != nil && c.frames.size != d.facts.size(FeaturesFile) {
		return fileSums{}, otherTable(d.path(table.Name))
	}
	return c, nil
}

// OpenLabelled is OpenAny, but a dataset without labels and splits is an error of kind fault.ErrInput.
func OpenLabelled(fsys vfs.FS, dir string) (*Dataset, error) {
	d, err := OpenAny(fsys, dir)
	if err != nil {
		return nil, err
	}
	if err := d.CheckLabelled(); err != nil {
		return nil, err
	}
	return d, nil
}

// CheckLabelled returns an error of kind fault.ErrInput if the dataset has no labels and splits, since
// it was imported for prediction only.
func (d *Dataset) CheckLabelled() error {
	if d.facts.Labelled() {
		return nil
	}
	return fault.New(fault.ErrInput, "%s has no labels and splits: it was imported with --for predict, which only predict and feed --split all take; import it without that flag", d.dir)
}

// Labels reads and checks the label of every node: its class, or graph.Unlabelled. In a multi-label
// dataset the label of a labelled node is 0, and Targets has its classes. The result takes 4 bytes for
// each node and is the caller's. A dataset without labels is an error of kind fault.ErrInput.
func (d *Dataset) Labels() (_ []int32, err error) {
	defer func() { err = d.damaged(err) }()
	if err := d.CheckLabelled(); err != nil {
		return nil, err
	}
	labels := make([]int32, d.facts.Nodes)
	if err := d.readAll(LabelsFile, binio.Bytes(labels)); err != nil {
		return nil, err
	}
	return labels, d.checkLabels(0, labels)
}

// checkLabels checks the labels of some nodes, from the given one on.
func (d *Dataset) checkLabels(first int64, labels []int32) error {
	lo, hi := d.facts.labelledRange()
	for i, c := range labels {
		if v := first + int64(i); c != graph.Unlabelled && (v < lo || v >= hi) {
			return fault.New(fault.ErrCorrupt, "%s: node %d has the class %d, but nodes %d to %d have the labels", d.path(LabelsFile), v, c, lo, hi-1)
		}
		if c != graph.Unlabelled && uint32(c) >= uint32(d.facts.Classes) {
			return fault.New(fault.ErrCorrupt, "%s: node %d has the class %d, but there are only %d classes, counted from 0", d.path(LabelsFile), first+int64(i), c, d.facts.Classes)
		}
		if d.facts.MultiLabel() && c > 0 {
			return fault.New(fault.ErrCorrupt, "%s: node %d of a multi-label graph has label %d, neither 0 nor -1", d.path(LabelsFile), first+int64(i), c)
		}
	}
	return nil
}

// Split reads and checks the nodes of a split, Train, Valid or Test, in ascending order. The result is
// the caller's.
func (d *Dataset) Split(name string) (_ []uint32, err error) {
	defer func() { err = d.damaged(err) }()
	n, ok := d.facts.split(name)
	if !ok {
		return nil, fault.New(fault.ErrUsage, "split %q is not one of %s, %s, %s", name, Train, Valid, Test)
	}
	if err := d.CheckLabelled(); err != nil {
		return nil, err
	}
	ids := make([]uint32, n)
	if err := d.readAll(SplitFile(name), binio.Bytes(ids)); err != nil {
		return nil, err
	}
	for i, v := range ids {
		if int64(v) >= d.facts.Nodes || i > 0 && v <= ids[i-1] {
			return nil, fault.New(fault.ErrCorrupt, "%s: node %d at position %d is out of range or out of order", d.path(SplitFile(name)), v, i)
		}
	}
	return ids, nil
}

// readAll reads and checks the whole file into b, which has its length.
func (d *Dataset) readAll(name string, b []byte) (err error) {
	c, err := d.checksums(name)
	if err != nil {
		return err
	}
	f, err := d.fs.Open(d.path(name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := readAt(f, b, 0); err != nil {
		return err
	}
	return c.sums.Verify(d.path(name), 0, b)
}

// readAt fills b from off on. A file that ends earlier is corrupt: its size was right when it
// was opened.
func readAt(f vfs.File, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fault.New(fault.ErrCorrupt, "%s: bytes %d to %d are missing: the file shrank", f.Name(), off+int64(n), off+int64(len(b)))
	}
	return fmt.Errorf("read %s: bytes %d to %d: %w", f.Name(), off, off+int64(len(b)), err)
}
