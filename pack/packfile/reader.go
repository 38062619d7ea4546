package packfile

import (
	"fmt"
	"path/filepath"

	"diskgnn/graph"
	"diskgnn/graph/batchcodec"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Reader is an open pack: its metadata and index, in memory. It holds no open
// files; whoever reads features opens them with the I/O of its choice. Safe for
// concurrent use.
type Reader struct {
	dir    string
	meta   *stage.Meta
	params Params
	facts  Facts
	index  *Index
	part   Part // what of it is here: all, but for shards
}

// Open reads a pack's metadata and index and checks that they fit together.
func Open(fsys vfs.FS, dir string) (*Reader, error) {
	m, err := stage.Open(fsys, dir, "pack", Format, MultiLabelFormat)
	if err != nil {
		return nil, err
	}
	return newReader(fsys, dir, m)
}

// newReader reads the index. It takes the directory for a whole pack.
func newReader(fsys vfs.FS, dir string, m *stage.Meta) (*Reader, error) {
	r := &Reader{dir: dir, meta: m}
	if err := m.DecodeParams(&r.params); err != nil {
		return nil, err
	}
	if err := m.DecodeFacts(&r.facts); err != nil {
		return nil, err
	}
	f := &r.facts
	if multi := m.Format.Version == MultiLabelFormat.Version; multi != f.MultiLabel() || multi && f.TargetBytes != graph.TargetBytes(f.Classes) {
		return nil, fault.New(fault.ErrCorrupt, "%s: %d bytes for %d classes of a seed node, in a %s", dir, f.TargetBytes, f.Classes, m.Format)
	}
	b, err := r.small(fsys, IndexFile)
	if err != nil {
		return nil, err
	}
	if r.index, err = DecodeIndex(b, r.Form()); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Path(IndexFile), err)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	r.part = PartOf(shard.Shard{}, &r.facts)
	return r, nil
}

// check compares the index with the facts and the files' sizes, so that later
// reads need no bounds of their own.
func (r *Reader) check() error {
	f, x := &r.facts, r.index
	bad := func(format string, args ...any) error {
		return fault.New(fault.ErrCorrupt, "%s: %s", r.dir, fmt.Sprintf(format, args...))
	}
	if len(x.Train) != f.Train || len(x.Valid) != f.Valid || len(x.Test) != f.Test || f.RowBytes != f.DType.RowBytes(f.Dim) || f.Segment < 1 || f.Segment > max(f.Train, 1) {
		return bad("index and facts disagree")
	}
	switch r.params.Policy {
	case PolicyStatic:
		if len(x.Edges) != x.Bands || x.Edges[0] != f.HotRows {
			return bad("%d edges for %d bands, %d hot rows", len(x.Edges), x.Bands, f.HotRows)
		}
	case PolicyMin:
		if len(x.Edges) != 1 || x.Bands != 2 || x.Edges[0] != f.HotRows || len(x.Segments) > 0 {
			return bad("%d edges, %d bands, %d segments under policy min", len(x.Edges), x.Bands, len(x.Segments))
		}
	default:
		return fault.New(fault.ErrVersion, "%s: policy %q is unknown to this program", r.dir, r.params.Policy)
	}
	if n := (f.Train + f.Segment - 1) / f.Segment; len(x.Segments) > 0 && len(x.Segments) != n || f.Segment == 1 && len(x.Segments) > 0 {
		return bad("%d segments of %d batches for %d batches", len(x.Segments), f.Segment, f.Train)
	}
	for i, s := range x.Segments {
		if file, _ := r.meta.File(SSDFile(r.Group(i * f.Segment))); s.Rows > 0 && s.Offset+int64(s.Rows)*int64(f.RowBytes) > file.Size {
			return bad("segment %d lies beyond its file", i)
		}
	}
	for i := range x.Train {
		t := &x.Train[i]
		g, _ := r.meta.File(GraphFile(r.Group(i)))
		c, _ := r.meta.File(ColdFile(r.Group(i)))
		rows := int64(t.ColdRows(x.Bands-1)) * int64(f.RowBytes)
		if t.GraphOffset+int64(t.GraphBytes) > g.Size || t.ChunkBytes > 0 && t.ChunkOffset+t.ChunkBytes > c.Size {
			return bad("training batch %d lies beyond its files", i)
		}
		if rows > f.ChunkBytes || int64(t.GraphBytes) > f.GraphBytes || t.Inputs > f.TrainSizes.Src[0] {
			return bad("training batch %d exceeds the recorded maxima", i)
		}
		if t.SSDRows(x.Bands-1) > 0 && len(x.Segments) == 0 {
			return bad("training batch %d has ssd rows and no segment", i)
		}
	}
	g, _ := r.meta.File(EvalGraphFile)
	for _, list := range [][]Eval{x.Valid, x.Test} {
		for i := range list {
			if e := &list[i]; e.GraphOffset+int64(e.GraphBytes) > g.Size || int64(e.GraphBytes) > f.GraphBytes || e.Inputs > f.EvalSizes.Src[0] {
				return bad("evaluation batch %d lies beyond its file", i)
			}
		}
	}
	return nil
}

// small reads a whole small file and checks it against meta.json.
func (r *Reader) small(fsys vfs.FS, name string) ([]byte, error) {
	f, ok := r.meta.File(name)
	if !ok {
		return nil, fault.New(fault.ErrCorrupt, "%s lists no %s", r.Path(stage.MetaFile), name)
	}
	b, err := vfs.ReadFile(fsys, r.Path(name))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.Path(name), err)
	}
	if binio.Hash(b) != f.Checksum {
		return nil, fault.New(fault.ErrCorrupt, "%s: its bytes do not match its checksum", r.Path(name))
	}
	return b, nil
}

// Sums reads the table of page checksums of hot.bin or eval.bin.
func (r *Reader) Sums(fsys vfs.FS, name string) (binio.Sums, error) {
	b, err := r.small(fsys, name)
	if err != nil {
		return binio.Sums{}, err
	}
	s, err := binio.DecodeSums(b)
	if err != nil {
		return s, fmt.Errorf("%s: %w", r.Path(name), err)
	}
	return s, nil
}

// Dir returns the pack's directory.
func (r *Reader) Dir() string { return r.dir }

// Path returns the path of one of the pack's files.
func (r *Reader) Path(name string) string { return filepath.Join(r.dir, name) }

// Meta returns the pack's meta.json.
func (r *Reader) Meta() *stage.Meta { return r.meta }

// Params returns the content parameters.
func (r *Reader) Params() Params { return r.params }

// Facts returns the pack's counts.
func (r *Reader) Facts() Facts { return r.facts }

// Part returns what of a pack the directory has: all, unless it is a shard.
func (r *Reader) Part() Part { return r.part }

// Index returns the index; it must not be modified.
func (r *Reader) Index() *Index { return r.index }

// Form returns the form of the pack's chunks.
func (r *Reader) Form() Form { return Form{RowBytes: r.facts.RowBytes, Codec: r.params.Codec} }

// Group returns the number of the files that hold training batch i.
func (r *Reader) Group(i int) int { return i / GroupBatches(r.facts.Segment) }

// SegmentOf returns the number of the segment of training batch i.
func (r *Reader) SegmentOf(i int) int { return i / r.facts.Segment }

// DecodeTrainGraph checks and decodes the graph and the plan of training batch i
// from their bytes, reusing the memory of b and p.
func (r *Reader) DecodeTrainGraph(i int, raw []byte, b *graph.Batch, p *Plan) error {
	t := &r.index.Train[i]
	name := r.Path(GraphFile(r.Group(i)))
	ssd, hits, admit := t.planLengths(r.params.Policy)
	whole := len(raw) - 4*(ssd+hits+admit)
	if whole < 0 {
		return fault.New(fault.ErrCorrupt, "%s: the graph of batch %d has no room for its plan", name, i)
	}
	if binio.CRC(raw) != t.GraphCRC {
		return binio.BadRange(name, t.GraphOffset, int64(len(raw)))
	}
	if err := batchcodec.Decode(raw[:whole], b); err != nil {
		return fmt.Errorf("%s: graph at byte %d: %w", name, t.GraphOffset, err)
	}
	if len(b.Input) != t.Inputs || len(b.Labels) != t.Seeds {
		return fault.New(fault.ErrCorrupt, "%s: the graph of batch %d has %d input nodes, the index %d", name, i, len(b.Input), t.Inputs)
	}
	if err := r.checkTargets(name, b); err != nil {
		return err
	}
	p.decode(raw[whole:], ssd, hits, admit)
	// Rows are fetched by rank and slot: each must lie where its place in the
	// matrix says, or a wrong row would be read.
	if ssd > 0 && !ascendsBelow(p.SSD, int64(r.index.Segments[r.SegmentOf(i)].Rows)) {
		return fault.New(fault.ErrCorrupt, "%s: batch %d names slots beyond its segment", name, i)
	}
	if r.params.Policy == PolicyMin {
		if !ascendsBelow(p.Hits, r.facts.HotRows) || !allBelow(p.Admit, r.facts.HotRows) {
			return fault.New(fault.ErrCorrupt, "%s: batch %d names slots beyond the cache", name, i)
		}
		return inRange(name, i, b.Input, 0, r.facts.Nodes)
	}
	row := 0
	for _, bands := range [][]int{t.Bands, t.SSD} {
		for band, n := range bands {
			lo, hi := r.BandRanks(band)
			if err := inRange(name, i, b.Input[row:row+n], lo, hi); err != nil {
				return err
			}
			row += n
		}
	}
	return inRange(name, i, b.Input[row:], 0, r.index.Edges[len(r.index.Edges)-1])
}

func (r *Reader) checkTargets(name string, b *graph.Batch) error {
	if want := len(b.Labels) * r.facts.TargetBytes; len(b.Targets) != want {
		return fault.New(fault.ErrCorrupt, "%s: a batch has %d bytes of classes, %d are wanted", name, len(b.Targets), want)
	}
	return nil
}

func inRange(name string, batch int, ranks []uint32, lo, hi int64) error {
	for _, v := range ranks {
		if int64(v) < lo || int64(v) >= hi {
			return fault.New(fault.ErrCorrupt, "%s: batch %d has rank %d where ranks are %d to %d", name, batch, v, lo, hi)
		}
	}
	return nil
}

// BandRanks returns the ranks lo ≤ rank < hi of a band under the static policy.
func (r *Reader) BandRanks(band int) (lo, hi int64) {
	if band == 0 {
		return r.index.Edges[0], r.facts.Nodes
	}
	return r.index.Edges[band], r.index.Edges[band-1]
}

// DecodeEvalGraph checks and decodes the graph of an evaluation batch.
func (r *Reader) DecodeEvalGraph(e *Eval, raw []byte, b *graph.Batch) error {
	name := r.Path(EvalGraphFile)
	if binio.CRC(raw) != e.GraphCRC {
		return binio.BadRange(name, e.GraphOffset, int64(len(raw)))
	}
	if err := batchcodec.Decode(raw, b); err != nil {
		return fmt.Errorf("%s: graph at byte %d: %w", name, e.GraphOffset, err)
	}
	if len(b.Input) != e.Inputs || len(b.Labels) != e.Seeds {
		return fault.New(fault.ErrCorrupt, "%s: a graph has %d input nodes, the index %d", name, len(b.Input), e.Inputs)
	}
	if err := r.checkTargets(name, b); err != nil {
		return err
	}
	if err := inRange(name, 0, b.Input[:e.Rows], r.facts.HotRows, r.facts.HotRows+r.facts.EvalRows); err != nil {
		return err
	}
	if r.params.Policy == PolicyMin && e.Rows < e.Inputs {
		return fault.New(fault.ErrCorrupt, "%s: an evaluation batch reads the cache of a pack of policy min", name)
	}
	// Those of eval.bin ascend; the others descend, so that those of the caches come last.
	if !ascendsBelow(b.Input[:e.Rows], r.facts.HotRows+r.facts.EvalRows) || !descends(b.Input[e.Rows:]) {
		return fault.New(fault.ErrCorrupt, "%s: the input nodes of an evaluation batch are out of order", name)
	}
	return inRange(name, 0, b.Input[e.Rows:], 0, r.facts.HotRows)
}
