package dataset

import (
	"fmt"
	"iter"
	"path/filepath"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// fileSums is the content of a data file's table: one of the two.
type fileSums struct {
	sums   binio.Sums
	frames frames // of compressed features
}

// readSums reads the table that covers a data file and makes sure that both are those
// that meta.json, or a journal, describes.
func readSums(fsys vfs.FS, dir string, file, table stage.File) (c fileSums, err error) {
	name := filepath.Join(dir, table.Name)
	b, err := vfs.ReadSmall(fsys, name, table.Size)
	if err != nil {
		return c, fmt.Errorf("read checksums: %w", err)
	}
	if binio.Hash(b) != table.Checksum {
		return c, binio.BadRange(name, 0, int64(len(b)))
	}
	if file.Name == CompressedFeaturesFile {
		c.frames, err = decodeFrames(b)
	} else {
		c.sums, err = binio.DecodeSums(b)
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	if t := &c.frames; file.Name == CompressedFeaturesFile {
		if t.stored() != file.Size || binio.HashSums(t.crcs) != file.Checksum {
			return c, otherTable(name)
		}
	} else if c.sums.Granule != Granule || c.sums.Size != file.Size || c.sums.Checksum() != file.Checksum {
		return c, otherTable(name)
	}
	return c, nil
}

func otherTable(name string) error {
	return fault.New(fault.ErrCorrupt, "%s is the table of checksums of another file", name)
}

// ranges returns the parts of the data file that are under one checksum.
func (c *fileSums) ranges() iter.Seq[binio.Range] {
	if c.frames.crcs == nil {
		return c.sums.Ranges()
	}
	return func(yield func(binio.Range) bool) {
		at := int64(0)
		for i, n := range c.frames.lengths {
			if !yield(binio.Range{Offset: at, Len: int64(n), CRC: c.frames.crcs[i]}) {
				return
			}
			at += int64(n)
		}
	}
}
