package packfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// SliceFile is the name of the file in a slice, beside the pack's files, that describes the slice.
const SliceFile = "slice.json"

// Slice names the part of a pack that one rank of a training needs: the batches that it
// computes, with their rows, and all that every rank holds or reads.
type Slice struct {
	Rank  int `json:"rank"`
	World int `json:"world"`
	// Accumulate is the number of batches of a step, over all ranks: a multiple of World.
	Accumulate int `json:"accumulate"`
}

// maxWorld bounds the number of ranks.
const maxWorld = 1 << 16

// Validate returns an error of kind fault.ErrUsage if there is no such slice.
func (s Slice) Validate() error {
	switch {
	case s.World < 1 || s.World > maxWorld:
		return fault.New(fault.ErrUsage, "rank %d/%d: the number of ranks must be from 1 to %d", s.Rank, s.World, maxWorld)
	case s.Rank < 0 || s.Rank >= s.World:
		return fault.New(fault.ErrUsage, "rank %d/%d: ranks are counted from 0, here to %d", s.Rank, s.World, s.World-1)
	case s.Accumulate < 1 || s.Accumulate%s.World != 0 || s.Accumulate > MaxBatches:
		return fault.New(fault.ErrUsage, "steps of %d batches cannot be divided among %d ranks: give a multiple of %d", s.Accumulate, s.World, s.World)
	}
	return nil
}

// String returns the slice as text for messages, such as "the slice of rank 0 of 2".
func (s Slice) String() string {
	text := fmt.Sprintf("the slice of rank %d of %d", s.Rank, s.World)
	if s.Accumulate != s.World {
		text += fmt.Sprintf(", for steps of %d batches", s.Accumulate)
	}
	return text
}

// Has reports whether the rank computes a training batch, when an epoch's batches come as they
// were sampled: each step divides its batches among the ranks in runs of equal length.
func (s Slice) Has(f *Facts, batch int) bool {
	return batch%f.BatchesPerEpoch%s.Accumulate/(s.Accumulate/s.World) == s.Rank
}

// sliceRecord is the content of SliceFile.
type sliceRecord struct {
	Pack string `json:"pack"` // fingerprint of the pack
	Slice
	// Checksum is the Hash of the JSON of the record without its checksum.
	Checksum string `json:"checksum"`
}

func (r sliceRecord) encode() ([]byte, error) {
	r.Checksum = ""
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	r.Checksum = binio.Hash(b)
	b, err = json.MarshalIndent(r, "", "  ")
	return append(b, '\n'), err
}

// WriteSlice writes SliceFile into a directory that is being made: it is then the slice s of the pack with
// the given meta.json.
func WriteSlice(d *stage.Dir, pack *stage.Meta, s Slice) error {
	b, err := sliceRecord{Pack: pack.Fingerprint, Slice: s}.encode()
	if err == nil {
		err = vfs.WriteFile(d.FS(), d.File(SliceFile), b)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", SliceFile, err)
	}
	return nil
}

// maxSlice bounds the bytes read from SliceFile.
const maxSlice = 4 << 10

// ReadSlice returns the slice that a directory is, from its SliceFile. It returns nil for a whole pack,
// which has no such file. m is the directory's meta.json; a SliceFile of another pack is an error of kind
// fault.ErrCorrupt.
func ReadSlice(fsys vfs.FS, dir string, m *stage.Meta) (*Slice, error) {
	name := filepath.Join(dir, SliceFile)
	b, err := vfs.ReadSmall(fsys, name, maxSlice)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r sliceRecord
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s: %v", name, err)
	}
	if want, err := r.encode(); err != nil || !bytes.Equal(b, want) {
		return nil, binio.BadRange(name, 0, int64(len(b)))
	}
	if err := r.Slice.Validate(); err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s: %v", name, err)
	}
	if r.Pack != m.Fingerprint {
		return nil, fault.New(fault.ErrCorrupt, "%s belongs to the pack %.12s…, but %s beside it is of the pack %.12s…", name, r.Pack, stage.MetaFile, m.Fingerprint)
	}
	return &r.Slice, nil
}

// OpenSlice opens a pack, or a slice of one; Reader.Slice tells them apart. The index and the facts are the
// whole pack's.
func OpenSlice(fsys vfs.FS, dir string) (*Reader, error) {
	m, err := stage.Open(fsys, dir, "pack", versions.Formats(Format.Name)...)
	if err != nil {
		return nil, err
	}
	return newSliceReader(fsys, dir, m)
}

func newSliceReader(fsys vfs.FS, dir string, m *stage.Meta) (*Reader, error) {
	r, err := newReader(fsys, dir, m, shard.Shard{})
	if err != nil {
		return nil, err
	}
	if r.slice, err = ReadSlice(fsys, dir, m); err != nil {
		return nil, stage.Damaged(err, dir, m.Format)
	}
	return r, nil
}

// Slice returns the slice that the directory is, nil if it is the whole pack.
func (r *Reader) Slice() *Slice { return r.slice }

// has reports whether the directory has the rows and the graph of a training batch of its part.
func (r *Reader) has(batch int) bool { return r.slice == nil || r.slice.Has(&r.facts, batch) }
