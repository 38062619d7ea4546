package dataset

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

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

// Open opens a dataset directory: it reads meta.json and checks that every file
// is there with its size. The files' contents are checked as they are read.
func Open(fsys vfs.FS, dir string) (*Dataset, error) {
	m, err := stage.Open(fsys, dir, kind, Format, CompressedFormat)
	if err != nil {
		return nil, err
	}
	d := &Dataset{fs: fsys, dir: dir, meta: m}
	if err := m.DecodeFacts(&d.facts); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := d.facts.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if compressed := d.facts.Compression != ""; compressed != (m.Format == CompressedFormat) {
		return nil, fault.New(fault.ErrCorrupt, "%s: compressed features: %t, in a %s", dir, compressed, m.Format)
	}
	for _, name := range d.facts.dataFiles() {
		f, ok := m.File(name)
		if _, table := m.File(tableOf(name)); !ok || !table {
			return nil, fault.New(fault.ErrCorrupt, "%s: %s lists no %s or no checksums of it", dir, stage.MetaFile, name)
		}
		if want := d.facts.size(name); want >= 0 && f.Size != want {
			return nil, fault.New(fault.ErrCorrupt, "%s: %s has %d bytes, its facts call for %d", dir, name, f.Size, want)
		}
	}
	return d, nil
}

// Dir returns the directory as it was given.
func (d *Dataset) Dir() string { return d.dir }

// Meta returns the content of meta.json. The caller must not modify it.
func (d *Dataset) Meta() *stage.Meta { return d.meta }

// Fingerprint identifies the dataset's content.
func (d *Dataset) Fingerprint() string { return d.meta.Fingerprint }

// Facts returns the counts and types that describe the arrays.
func (d *Dataset) Facts() Facts { return d.facts }

// RowBytes returns the size of one feature row.
func (d *Dataset) RowBytes() int { return d.facts.RowBytes() }

// TargetBytes returns the bytes of a node's classes in a multi-label dataset, and 0 of
// others.
func (d *Dataset) TargetBytes() int { return d.facts.TargetBytes() }

func (d *Dataset) path(name string) string { return filepath.Join(d.dir, name) }

// table reads the table that covers a data file and checks it against meta.json.
func (d *Dataset) table(name string) ([]byte, error) {
	b, err := vfs.ReadFile(d.fs, d.path(name))
	if err != nil {
		return nil, fmt.Errorf("read checksums: %w", err)
	}
	if entry, _ := d.meta.File(name); binio.Hash(b) != entry.Checksum {
		return nil, fault.New(fault.ErrCorrupt, "%s does not match its checksum in %s", d.path(name), stage.MetaFile)
	}
	return b, nil
}

// sums returns the table of checksums of a data file.
func (d *Dataset) sums(name string) (binio.Sums, error) {
	table := tableOf(name)
	b, err := d.table(table)
	if err != nil {
		return binio.Sums{}, err
	}
	s, err := binio.DecodeSums(b)
	if err != nil {
		return binio.Sums{}, fmt.Errorf("%s: %w", d.path(table), err)
	}
	file, _ := d.meta.File(name)
	if s.Granule != Granule || s.Size != file.Size || s.Checksum() != file.Checksum {
		return binio.Sums{}, d.otherTable(table)
	}
	return s, nil
}

// frames returns the table of the compressed features' frames.
func (d *Dataset) frames() (frames, error) {
	table := tableOf(CompressedFeaturesFile)
	b, err := d.table(table)
	if err != nil {
		return frames{}, err
	}
	t, err := decodeFrames(b)
	if err != nil {
		return frames{}, fmt.Errorf("%s: %w", d.path(table), err)
	}
	file, _ := d.meta.File(CompressedFeaturesFile)
	if t.size != d.facts.size(FeaturesFile) || t.stored() != file.Size || binio.HashSums(t.crcs) != file.Checksum {
		return frames{}, d.otherTable(table)
	}
	return t, nil
}

func (d *Dataset) otherTable(table string) error {
	return fault.New(fault.ErrCorrupt, "%s describes another file than %s does", d.path(table), stage.MetaFile)
}

// Labels returns the class of every node, verified; graph.Unlabelled where there
// is none. Of a multi-label dataset it tells only which nodes have a label: 0 stands
// for that. It holds 4 bytes a node.
func (d *Dataset) Labels() ([]int32, error) {
	labels := make([]int32, d.facts.Nodes)
	if err := d.readAll(LabelsFile, binio.Bytes(labels)); err != nil {
		return nil, err
	}
	for v, c := range labels {
		if c != graph.Unlabelled && uint32(c) >= uint32(d.facts.Classes) {
			return nil, fault.New(fault.ErrCorrupt, "%s: node %d has class %d of %d", d.path(LabelsFile), v, c, d.facts.Classes)
		}
	}
	return labels, nil
}

// Split returns the node ids of a split — Train, Valid or Test — ascending,
// verified.
func (d *Dataset) Split(name string) ([]uint32, error) {
	n, ok := d.facts.split(name)
	if !ok {
		return nil, fault.New(fault.ErrUsage, "unknown split %q (%s, %s, %s)", name, Train, Valid, Test)
	}
	ids := make([]uint32, n)
	if err := d.readAll(splitFile(name), binio.Bytes(ids)); err != nil {
		return nil, err
	}
	for i, v := range ids {
		if int64(v) >= d.facts.Nodes || i > 0 && v <= ids[i-1] {
			return nil, fault.New(fault.ErrCorrupt, "%s: id %d at position %d is out of range or out of order", d.path(splitFile(name)), v, i)
		}
	}
	return ids, nil
}

// readAll fills b, as long as the file, with the file's verified content.
func (d *Dataset) readAll(name string, b []byte) (err error) {
	sums, err := d.sums(name)
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
	return sums.Verify(d.path(name), 0, b)
}

// readAt fills b from off on. That the file ends before is corruption: its size
// was right when it was opened.
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

// checkSplits checks what the splits promise together: no node is in two of
// them, and every node in one has a label.
func (d *Dataset) checkSplits(labels []int32) error {
	var all []uint32
	for _, name := range []string{Train, Valid, Test} {
		ids, err := d.Split(name)
		if err != nil {
			return err
		}
		for _, v := range ids {
			if labels[v] == graph.Unlabelled {
				return fault.New(fault.ErrCorrupt, "%s: node %d has no label", d.path(splitFile(name)), v)
			}
		}
		all = append(all, ids...)
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			return fault.New(fault.ErrCorrupt, "%s: node %d is in two splits", d.dir, all[i])
		}
	}
	return nil
}
