package packfile

import (
	"fmt"
	"path/filepath"

	"diskgnn/internal/fault"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Part is the part of a pack in one directory: the groups Lo to Hi-1 and, in the first part, the files that
// the pack has once.
type Part struct {
	Lo, Hi int  // groups Lo ≤ g < Hi
	Common bool // with the hot rows, the refill records and evaluation
}

// PartOf returns the part of a shard, or of the whole, of a pack with the given facts.
func PartOf(s shard.Shard, f *Facts) Part {
	lo, hi := s.Of(f.Groups())
	return Part{lo, hi, s.Index == 0}
}

// Batches returns the training batches lo ≤ i < hi of the part's groups.
func (p Part) Batches(f *Facts) (lo, hi int) {
	n := GroupBatches(f.Segment)
	return min(p.Lo*n, f.Train), min(p.Hi*n, f.Train)
}

// Groups returns the number of groups of training batches.
func (f *Facts) Groups() int {
	n := GroupBatches(f.Segment)
	return (f.Train + n - 1) / n
}

// GroupSpan returns the training batches lo ≤ i < hi of a group.
func (f *Facts) GroupSpan(group int) (lo, hi int) {
	return Part{Lo: group, Hi: group + 1}.Batches(f)
}

// segments returns the segments lo ≤ i < hi of a part's groups.
func (x *Index) segments(p Part, f *Facts) (lo, hi int) {
	if len(x.Segments) == 0 {
		return 0, 0
	}
	lo, hi = p.Batches(f)
	return (lo + f.Segment - 1) / f.Segment, (hi + f.Segment - 1) / f.Segment
}

// OpenShard opens one shard of a pack. Its counts of batches and segments are the whole pack's; it has
// the entries of its own part.
func OpenShard(fsys vfs.FS, dir string) (*Reader, error) {
	m, err := stage.Open(fsys, dir, "shard of a pack", versions.Formats(Format.Shard().Name)...)
	if err != nil {
		return nil, err
	}
	return newShardReader(fsys, dir, m)
}

func newShardReader(fsys vfs.FS, dir string, m *stage.Meta) (*Reader, error) {
	var params struct {
		Shard string `json:"shard"`
	}
	if err := m.DecodeParams(&params); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	s, err := shard.Parse(params.Shard)
	if err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s does not say which shard it is (%v)", filepath.Join(dir, stage.MetaFile), err)
	}
	return newReader(fsys, dir, m, s)
}
