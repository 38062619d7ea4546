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
	open := Open
	if _, part := m.Format.Whole(); part {
		open = OpenShard
	}
	r, err := open(fsys, dir) // which checks the index
	if err != nil {
		return err
	}
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
