package packfile

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
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

// merging is the sum of the shards so far.
type merging struct {
	first   string // directory of the first one
	facts   Facts
	index   *Index
	codec   string
	sources []shard.Source
}

func (w *merging) form() Form { return Form{RowBytes: w.facts.RowBytes, Codec: w.codec} }

// add takes over the counts and entries of a further shard.
func (w *merging) add(r *Reader) error {
	f, x := &r.facts, r.index
	if !reflect.DeepEqual(shared(w.facts), shared(*f)) || x.Bands != w.index.Bands || !slices.Equal(x.Edges, w.index.Edges) || len(x.Segments) != len(w.index.Segments) {
		return fault.New(fault.ErrCorrupt, "%s and %s are not shards of one pack: their counts differ", w.first, r.dir)
	}
	lo, hi := r.part.Batches(f)
	copy(w.index.Train[lo:hi], x.Train[lo:hi])
	lo, hi = x.segments(r.part, f)
	copy(w.index.Segments[lo:hi], x.Segments[lo:hi])
	w.facts.ColdRows += f.ColdRows
	w.facts.SSDRows += f.SSDRows // EvalColdRows are of the first shard
	w.facts.ChunkBytes = max(w.facts.ChunkBytes, f.ChunkBytes)
	w.facts.GraphBytes = max(w.facts.GraphBytes, f.GraphBytes)
	return nil
}

// shared returns the facts that all shards of a pack have in common.
func shared(f Facts) Facts {
	f.ColdRows, f.SSDRows, f.EvalColdRows, f.ChunkBytes, f.GraphBytes = 0, 0, 0, 0, 0
	return f
}

var _ shard.Assemble = Merge

// shardFiles makes the checkers for the files of a shard, which is being merged.
type shardFiles struct {
	fs    vfs.FS
	dir   string
	meta  *stage.Meta
	whole *merging       // with the shard's part of the index
	group map[string]int // of the numbered files
}

func newShardFiles(fsys vfs.FS, m shard.Member, r *Reader, whole *merging) *shardFiles {
	s := &shardFiles{fsys, m.Dir, m.Meta, whole, map[string]int{}}
	for g := r.part.Lo; g < r.part.Hi; g++ {
		s.group[ColdFile(g)], s.group[GraphFile(g)], s.group[SSDFile(g)] = g, g, g
	}
	return s
}

// source returns a file of the shard, to be taken over.
func (s *shardFiles) source(f stage.File) shard.Source {
	return shard.Source{Dir: s.dir, File: f, Check: func(name string) (binio.Checker, error) { return s.checker(name, f) }}
}

// checker returns the checker of a file: by its table of page checksums, by the checksums of its chunks or
// graphs in the index, or by the checksum of the whole file in meta.json.
func (s *shardFiles) checker(name string, f stage.File) (binio.Checker, error) {
	facts, x := &s.whole.facts, s.whole.index
	tables := map[string]string{HotFile: HotSums, EvalFile: EvalSums, EvalColdFile: EvalColdSums, RefillFile: RefillSums}
	var ranges iter.Seq[binio.Range]
	switch group, ok := s.group[f.Name]; {
	case tables[f.Name] != "":
		return s.byTable(name, tables[f.Name])
	case f.Name == EvalGraphFile:
		ranges = x.EvalGraphs()
	case !ok:
		return binio.CheckHash(name, f.Checksum), nil
	case f.Name == SSDFile(group):
		return s.byTable(name, SSDSums(group))
	default:
		lo, hi := facts.GroupSpan(group)
		if batches := x.Train[lo:hi]; f.Name == ColdFile(group) {
			ranges = chunks(batches, s.whole.form(), x.Bands)
		} else {
			ranges = TrainGraphs(batches)
		}
	}
	return binio.CheckRanges(name, ranges), nil
}

func (s *shardFiles) byTable(name, table string) (binio.Checker, error) {
	b, err := vfs.ReadFile(s.fs, filepath.Join(s.dir, table))
	if err != nil {
		return nil, err
	}
	if f, ok := s.meta.File(table); !ok || binio.Hash(b) != f.Checksum {
		return nil, binio.BadRange(filepath.Join(s.dir, table), 0, int64(len(b)))
	}
	sums, err := binio.DecodeSums(b)
	if err != nil {
		return nil, err
	}
	return binio.CheckRanges(name, sums.Ranges()), nil
}

// chunks returns the pieces of the batches' chunks, as they lie in their file.
func chunks(batches []Train, form Form, bands int) iter.Seq[binio.Range] {
	return func(yield func(binio.Range) bool) {
		for i := range batches {
			t, more := &batches[i], true
			_ = t.Pieces(form, bands-1, func(p Piece) error {
				more = more && yield(binio.Range{Offset: t.ChunkOffset + p.Offset, Len: int64(p.Len), CRC: p.Sum})
				return nil
			})
			if !more {
				return
			}
		}
	}
}
