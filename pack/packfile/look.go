package packfile

import (
	"context"
	"fmt"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// sumsSuffix ends the names of tables of page checksums, dataSuffix those of the files
// that they are of.
const (
	sumsSuffix = ".sums"
	dataSuffix = ".bin"
)

// Check looks at a directory that has its meta.json, a pack or a shard; see stage.Spec.
func Check(ctx context.Context, fsys vfs.FS, dir string, m *stage.Meta, look stage.Look) error {
	open := OpenSlice
	if _, part := m.Format.Whole(); part {
		open = OpenShard
	}
	r, err := open(fsys, dir) // which checks the index
	if err == nil && r.slice != nil {
		err = fault.New(fault.ErrCorrupt, "%s is %s of this pack alone", dir, r.slice)
	}
	if err != nil {
		return err
	}
	return r.check(ctx, fsys, look)
}

// CheckSlice looks at a directory that is to be a slice of a pack; see stage.Spec.
func CheckSlice(ctx context.Context, fsys vfs.FS, dir string, want Slice, look stage.Look) error {
	r, err := OpenSlice(fsys, dir)
	switch {
	case err != nil:
		return err
	case r.slice == nil:
		return fault.New(fault.ErrCorrupt, "%s lacks its %s", dir, SliceFile)
	case *r.slice != want:
		return fault.New(fault.ErrCorrupt, "%s is %s", dir, r.slice)
	}
	return r.check(ctx, fsys, look)
}

// check compares the tables of checksums with meta.json, and with stage.Bytes everything with
// its checksums.
func (r *Reader) check(ctx context.Context, fsys vfs.FS, look stage.Look) error {
	m := r.meta
	for _, table := range m.Files {
		name, ok := strings.CutSuffix(table.Name, sumsSuffix)
		if !ok {
			continue
		}
		sums, err := r.Sums(fsys, table.Name)
		if err != nil {
			return err
		}
		f, ok := m.File(name + dataSuffix)
		if !ok || f.Size != sums.Size || f.Checksum != sums.Checksum() {
			return fault.New(fault.ErrCorrupt, "%s describes another file than %s does", r.Path(table.Name), stage.MetaFile)
		}
	}
	if look == stage.Tables {
		return nil
	}
	if err := r.Verify(ctx, fsys, progress.Discard); err != nil {
		return fmt.Errorf("check the pack: %w", err)
	}
	return nil
}
