package packfile

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Merge assembles a PACK directory from its shards: their files of rows and graphs as
// they are, and an index of all. It is a shard.Assemble. Rows and graphs are checked
// against the shards' checksums on the way.
func Merge(ctx context.Context, dir *stage.Dir, set *shard.Set, rep progress.Reporter) (shard.Assembled, error) {
	var made shard.Assembled
	var w *merging
	for _, m := range set.Members { // one in memory at a time
		r, err := newShardReader(dir.FS(), m.Dir, m.Meta)
		if err != nil {
			return made, stage.Damaged(err, m.Dir, m.Meta.Format)
		}
		if w == nil {
			w = &merging{first: r.dir, facts: r.facts, index: r.index, codec: r.params.Codec}
		} else if err := w.add(r); err != nil {
			return made, err
		}
		files := newShardFiles(dir.FS(), m, r, w)
		for _, f := range m.Meta.Files {
			if f.Name != IndexFile {
				w.sources = append(w.sources, files.source(f))
				made.Files = append(made.Files, f)
			}
		}
	}
	var err error
	if made.Adopted, err = shard.Adopt(ctx, dir, w.sources, rep); err != nil {
		return made, err
	}
	b, err := w.index.Encode()
	if err != nil {
		return made, err
	}
	if err := vfs.WriteFile(dir.FS(), dir.File(IndexFile), b); err != nil {
		return made, fmt.Errorf("write %s: %w", IndexFile, err)
	}
	made.Files = append(made.Files, stage.File{Name: IndexFile, Size: int64(len(b)), Checksum: binio.Hash(b)})
	made.Facts = w.facts
	return made, nil
}

// merging is what shards came to so far.
type merging struct {
	first   string // directory of the first one
	facts   Facts
	index   *Index
	codec   string
	sources []shard.Source
}

// form returns the form of the pack's chunks.
func (w *merging) form() Form { return Form{RowBytes: w.facts.RowBytes, Codec: w.codec} }

// add takes over what a further shard has.
func (w *merging) add(r *Reader) error {
	f, x := &r.facts, r.index
	if !reflect.DeepEqual(shared(w.facts), shared(*f)) || x.Bands != w.index.Bands || !slices.Equal(x.Edges, w.index.Edges) || len(x.Segments) != len(w.index.Segments) {
		return fault.New(fault.ErrCorrupt, "%s and %s are no parts of one pack: they count differently", w.first, r.dir)
	}
	lo, hi := r.part.Batches(f)
	copy(w.index.Train[lo:hi], x.Train[lo:hi])
	lo, hi = x.segments(r.part, f)
	copy(w.index.Segments[lo:hi], x.Segments[lo:hi])
	w.facts.ColdRows += f.ColdRows
	w.facts.SSDRows += f.SSDRows
	w.facts.ChunkBytes = max(w.facts.ChunkBytes, f.ChunkBytes)
	w.facts.GraphBytes = max(w.facts.GraphBytes, f.GraphBytes)
	return nil
}

// shared leaves of a shard's facts those of the whole.
func shared(f Facts) Facts {
	f.ColdRows, f.SSDRows, f.ChunkBytes, f.GraphBytes = 0, 0, 0, 0
	return f
}

var _ shard.Assemble = Merge
