package packfile

import (
	"fmt"
	"slices"

	"diskgnn/internal/fault"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Part is what of a pack one directory has: a run of groups and, in one of all parts,
// what the pack has once.
type Part struct {
	Lo, Hi int  // groups Lo ≤ g < Hi
	Common bool // and the hot rows, the refill records, all of evaluation
}

// PartOf returns what a shard, or the whole, has of a pack with the given batches and
// segments.
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

// OpenShard opens one shard of a pack. It counts the batches and segments of the whole,
// and knows those of its part.
func OpenShard(fsys vfs.FS, dir string) (*Reader, error) {
	m, err := stage.Open(fsys, dir, "shard of a pack", Format.Shard(), MultiLabelFormat.Shard())
	if err != nil {
		return nil, err
	}
	return newShardReader(fsys, dir, m)
}

func newShardReader(fsys vfs.FS, dir string, m *stage.Meta) (*Reader, error) {
	r, err := newReader(fsys, dir, m)
	if err != nil {
		return nil, err
	}
	var params struct {
		Shard string `json:"shard"`
	}
	if err := m.DecodeParams(&params); err != nil {
		return nil, err
	}
	s, err := shard.Parse(params.Shard)
	if err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s does not say which shard it is (%v)", r.Path(stage.MetaFile), err)
	}
	r.part = PartOf(s, &r.facts)
	return r, r.checkPart()
}

// checkPart makes sure that the shard has what its number says, and nothing else.
func (r *Reader) checkPart() error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.ErrCorrupt, "%s: %s", r.dir, fmt.Sprintf(format, args...))
	}
	lo, hi := r.part.Batches(&r.facts)
	for i := range r.index.Train {
		if own := i >= lo && i < hi; own != (r.index.Train[i].GraphBytes > 0) {
			return bad("the shard's training batches are %d to %d, but of batch %d that is not so", lo, hi-1, i)
		}
	}
	for _, list := range [][]Eval{r.index.Valid, r.index.Test} {
		for i := range list {
			if r.part.Common != (list[i].GraphBytes > 0) {
				return bad("evaluation belongs to the first shard")
			}
		}
	}
	names := r.partFiles()
	for _, name := range names {
		if _, ok := r.meta.File(name); !ok {
			return bad("%s lists no %s", stage.MetaFile, name)
		}
	}
	for _, f := range r.meta.Files {
		if f.Name != IndexFile && !slices.Contains(names, f.Name) {
			return bad("%s is not the shard's", f.Name)
		}
	}
	return nil
}

// partFiles names the files that the part must have beside the index.
func (r *Reader) partFiles() []string {
	var names []string
	if r.part.Common {
		names = append(names, HotFile, HotSums, EvalFile, EvalSums, EvalGraphFile)
		if r.params.Policy == PolicyMin {
			names = append(names, RefillFile, RefillSums)
		}
	}
	for g := r.part.Lo; g < r.part.Hi; g++ {
		names = append(names, GraphFile(g))
		lo, hi := r.facts.GroupSpan(g)
		if slices.ContainsFunc(r.index.Train[lo:hi], func(t Train) bool { return t.ChunkBytes > 0 }) {
			names = append(names, ColdFile(g))
		}
		lo, hi = r.index.segments(Part{Lo: g, Hi: g + 1}, &r.facts)
		if slices.ContainsFunc(r.index.Segments[lo:hi], func(s Segment) bool { return s.Rows > 0 }) {
			names = append(names, SSDFile(g), SSDSums(g))
		}
	}
	return names
}
