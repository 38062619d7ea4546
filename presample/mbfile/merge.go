package mbfile

import (
	"context"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
)

// Merge makes a SAMPLES directory of its shards: the same files of batches, an index of all batches,
// and the sum of the hotness. It is a shard.Assemble. It checks the checksum of every byte; the
// contents of batches are checked when they are read.
func Merge(ctx context.Context, dir *stage.Dir, set *shard.Set, rep progress.Reporter) (shard.Assembled, error) {
	var made shard.Assembled
	readers := make([]*Reader, len(set.Members))
	for i, m := range set.Members {
		r, err := openReader(dir.FS(), m.Dir, m.Meta)
		if err != nil {
			return made, err
		}
		defer r.Close()
		readers[i] = r
	}
	layout, ix, err := join(readers)
	if err != nil {
		return made, err
	}
	var batches []shard.Source
	for _, r := range readers {
		for f := range r.index.files() {
			batches = append(batches, shard.Source{Dir: r.dir, File: r.index.file(f), Check: func(name string) (binio.Checker, error) {
				return r.index.checker(name, f), nil
			}})
		}
	}
	if made.Adopted, err = shard.Adopt(ctx, dir, batches, rep); err != nil {
		return made, err
	}
	hotness, inputs, err := mergeHotness(ctx, dir, readers)
	if err != nil {
		return made, err
	}
	files, err := writeIndex(dir, ix)
	made.Files, made.Facts = append(files, hotness...), layout.facts(ix, readers[0].facts.Epochs, inputs)
	return made, err
}

// join returns the layout and the index of the whole, and makes sure that every
// shard is the part of it that its number says.
func join(readers []*Reader) (*Layout, *index, error) {
	first := readers[0]
	l := &Layout{Nodes: first.facts.Nodes, Types: first.facts.Types, SeedType: first.facts.SeedType, Layers: first.index.layers, BatchesPerFile: first.index.perFile, TargetBytes: first.facts.TargetBytes}
	ix := &index{layers: l.Layers, perFile: l.BatchesPerFile, typed: l.Types != nil}
	for _, r := range readers {
		l.Train += r.facts.TrainBatches
		l.Valid += r.facts.ValidBatches
		l.Test += r.facts.TestBatches
	}
	for i, r := range readers {
		l.Shard = shard.Shard{Index: i, Count: len(readers)}
		if r.facts.part() != l.part() || r.facts.Nodes != l.Nodes || !r.facts.Types.Equal(l.Types) || r.facts.SeedType != l.SeedType || r.index.layers != l.Layers || r.index.perFile != l.BatchesPerFile || r.facts.TargetBytes != l.TargetBytes ||
			r.facts.Epochs < 1 || r.facts.Epochs != first.facts.Epochs {
			return nil, nil, fault.New(fault.ErrCorrupt, "%s and %s are not shards of the same samples: their types, or their numbers of nodes, layers, epochs or batches do not fit together", first.dir, r.dir)
		}
		ix.records = append(ix.records, r.index.records...)
	}
	l.Shard = shard.Shard{}
	if l.Batches() > MaxBatches || l.Train%first.facts.Epochs != 0 || l.Train/first.facts.Epochs != first.facts.BatchesPerEpoch {
		return nil, nil, fault.New(fault.ErrCorrupt, "%s and the other shards have %d training batches, and %d batches in all, which does not fit %d epochs of %d batches", first.dir, l.Train, l.Batches(), first.facts.Epochs, first.facts.BatchesPerEpoch)
	}
	return l, ix, nil
}

// mergeHotness writes the sum of the shards' hotness, a piece at a time.
func mergeHotness(ctx context.Context, dir *stage.Dir, readers []*Reader) (files []stage.File, inputs []int64, err error) {
	parts := make([]*hotness, len(readers))
	for i, r := range readers {
		if parts[i], err = r.openHotness(); err != nil {
			return nil, nil, r.damaged(err)
		}
	}
	nodes := readers[0].facts.Nodes
	sum, part := make([]uint32, hotnessPiece/4), make([]uint32, hotnessPiece/4)
	return writeHotness(dir, readers[0].facts.Types, func(yield func([]uint32, error) bool) {
		for at := int64(0); at < nodes; at += int64(len(sum)) {
			n := min(int64(len(sum)), nodes-at)
			sum, part := sum[:n], part[:n]
			clear(sum)
			for k, p := range parts {
				err := ctx.Err()
				if err == nil {
					err = p.read(part, at)
				}
				if err == nil {
					err = p.add(part)
				}
				if err != nil {
					yield(nil, readers[k].damaged(err))
					return
				}
				for i, x := range part {
					sum[i] += x
				}
			}
			if !yield(sum, nil) {
				return
			}
		}
	})
}

var _ shard.Assemble = Merge
