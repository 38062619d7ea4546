package mbfile

import (
	"diskgnn/graph"
	"diskgnn/internal/shard"
)

// Layout has the sizes of a SAMPLES directory, which a Writer needs before the first batch.
type Layout struct {
	Nodes              int64        // as Facts.Nodes
	Types              *graph.Types // of a typed graph, else nil
	SeedType           int
	Layers             int
	Train, Valid, Test int // numbers of batches of the whole directory
	BatchesPerFile     int // batches of each file but the last, at least 1
	TargetBytes        int // bytes of Targets for each seed node, 0 if the graph is not multi-label
	// Shard is the part of the files that is written; the zero value is all.
	Shard shard.Shard
}

// Batches returns the number of all batches of the whole directory.
func (l *Layout) Batches() int { return l.Train + l.Valid + l.Test }

// numTypes returns the number of types of a typed graph, else 0.
func (l *Layout) numTypes() int { return (&Facts{Types: l.Types}).numTypes() }

func (l *Layout) files() int { return filesOf(l.Batches(), l.BatchesPerFile) }

// Span returns the range [lo, hi) of the batches that are written, numbered in the whole directory.
func (l *Layout) Span() (lo, hi int) {
	lo, hi = l.Shard.Of(l.files())
	return min(lo*l.BatchesPerFile, l.Batches()), min(hi*l.BatchesPerFile, l.Batches())
}

// Memory returns the bytes of memory of a Writer.
func (l *Layout) Memory() int64 { return 4*l.Nodes + 2*l.IndexBytes() + writeBuffer }

// IndexBytes returns the approximate size of the index in bytes.
func (l *Layout) IndexBytes() int64 {
	lo, hi := l.Span()
	return int64(hi-lo) * int64(recordBytes(l.Layers, l.Types != nil))
}

// IndexBytes returns the bytes of memory of the index, which a Reader holds.
func (f *Facts) IndexBytes() int64 {
	return int64(f.Batches()) * int64(recordBytes(f.Layers, f.Types != nil))
}

// facts adds up the written batches, all of which ix describes. inputs are Facts.TypeInputs.
func (l *Layout) facts(ix *index, epochs int, inputs []int64) Facts {
	p := l.part()
	return Facts{
		Nodes: l.Nodes, Types: l.Types, SeedType: l.SeedType, Layers: l.Layers, Epochs: epochs, BatchesPerEpoch: l.Train / epochs,
		FirstFile: p.firstFile, TrainBatches: p.train, ValidBatches: p.valid, TestBatches: p.test, TargetBytes: l.TargetBytes,
		TypeInputs: inputs, Train: summarize(ix, 0, p.train), Eval: summarize(ix, p.train, ix.batches()),
	}
}

// part is the written part of the whole.
type part struct {
	firstFile          int
	train, valid, test int // batches
}

func (l *Layout) part() part {
	lo, hi := l.Span()
	within := func(from, to int) int { return max(min(hi, to)-max(lo, from), 0) }
	first, _ := l.Shard.Of(l.files())
	return part{first, within(0, l.Train), within(l.Train, l.Train+l.Valid), within(l.Train+l.Valid, l.Batches())}
}

func (f *Facts) part() part {
	return part{f.FirstFile, f.TrainBatches, f.ValidBatches, f.TestBatches}
}
