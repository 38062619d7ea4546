package packfile

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Reader is an open pack: its metadata and index, in memory. It holds no open files: readers of chunks and
// rows open them by Path. Safe for concurrent use.
type Reader struct {
	dir     string
	meta    *stage.Meta
	version version
	files   map[string]stage.File // of meta, by name
	params  Params
	facts   Facts
	index   *Index
	part    Part // the part in the directory: all, but for shards
	whole   bool // it is no shard
	slice   *Slice
}

// Open reads a pack's metadata and index and checks that they fit together. A slice of a
// pack is refused: OpenSlice opens it.
func Open(fsys vfs.FS, dir string) (*Reader, error) {
	r, err := OpenSlice(fsys, dir)
	if err == nil && r.slice != nil {
		return nil, fault.New(fault.ErrInput, "%s is %s of a pack, and has the rows of that rank alone: the whole pack is needed here", dir, r.slice)
	}
	return r, err
}

// newReader reads the metadata and the index of a pack or of a shard, and checks them.
func newReader(fsys vfs.FS, dir string, m *stage.Meta, s shard.Shard) (*Reader, error) {
	version, err := versions.Of(dir, m.Format)
	if err != nil {
		return nil, err
	}
	r := &Reader{dir: dir, meta: m, version: version, files: make(map[string]stage.File, len(m.Files)), whole: s.Whole()}
	for _, f := range m.Files {
		r.files[f.Name] = f
	}
	if err := m.DecodeParams(&r.params); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := m.DecodeFacts(&r.facts); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := r.checkFacts(); err != nil {
		return nil, err
	}
	r.part = PartOf(s, &r.facts)
	b, err := r.small(fsys, IndexFile, maxIndex)
	if err != nil {
		return nil, err
	}
	if r.index, err = DecodeIndex(b, r.Form()); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Path(IndexFile), err)
	}
	if r.index.Bytewise != r.version.bytewise || r.index.EvalChunks != r.params.EvalChunks {
		return nil, r.damaged("the index does not fit the format %s and the parameters", m.Format)
	}
	return r, r.checkIndex()
}

// small reads a whole file of at most the given bytes, and checks it against meta.json.
func (r *Reader) small(fsys vfs.FS, name string, most int64) ([]byte, error) {
	f, ok := r.files[name]
	if !ok {
		return nil, fault.New(fault.ErrCorrupt, "%s does not list %s", r.Path(stage.MetaFile), name)
	}
	if f.Size > most {
		return nil, fault.New(fault.ErrCorrupt, "%s has %d bytes, more than the limit of %d", r.Path(name), f.Size, most)
	}
	b, err := readSized(fsys, r.Path(name), f.Size)
	if err != nil {
		return nil, err
	}
	if binio.Hash(b) != f.Checksum {
		return nil, binio.BadRange(r.Path(name), 0, f.Size)
	}
	return b, nil
}

// readSized reads a whole file. Another size than the given one is an error of kind fault.ErrCorrupt.
func readSized(fsys vfs.FS, name string, size int64) (_ []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if st.Size() != size {
		return nil, fault.New(fault.ErrCorrupt, "%s has %d bytes instead of %d", name, st.Size(), size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// summedFiles has the file of rows for each table of page checksums that is not numbered.
var summedFiles = map[string]string{HotSums: HotFile, EvalSums: EvalFile, EvalColdSums: EvalColdFile, RefillSums: RefillFile}

// Sums reads a table of page checksums, given its name: HotSums, EvalSums, EvalColdSums, RefillSums or a name
// of SSDSums.
// A table that does not match meta.json is an error of kind fault.ErrCorrupt.
func (r *Reader) Sums(fsys vfs.FS, name string) (binio.Sums, error) {
	covers, ok := summedFiles[name]
	if !ok {
		covers = strings.TrimSuffix(name, ".sums") + ".bin"
	}
	file := r.files[covers]
	b, err := r.small(fsys, name, binio.SumsBytes(file.Size, binio.Page))
	if err != nil {
		return binio.Sums{}, err
	}
	s, err := binio.DecodeSums(b)
	if err != nil {
		return s, fmt.Errorf("%s: %w", r.Path(name), err)
	}
	if s.Granule != binio.Page || s.Size != file.Size || s.Checksum() != file.Checksum {
		return s, fault.New(fault.ErrCorrupt, "%s is not the table of checksums of the %d bytes of %s", r.Path(name), file.Size, covers)
	}
	return s, nil
}

// File returns the entry of meta.json for one of the pack's files, and whether there is one.
func (r *Reader) File(name string) (stage.File, bool) {
	f, ok := r.files[name]
	return f, ok
}

// Dir returns the pack's directory.
func (r *Reader) Dir() string { return r.dir }

// Path returns the path of one of the pack's files, given its name.
func (r *Reader) Path(name string) string { return filepath.Join(r.dir, name) }

// Meta returns the pack's meta.json. It must not be modified.
func (r *Reader) Meta() *stage.Meta { return r.meta }

// Params returns the content parameters.
func (r *Reader) Params() Params { return r.params }

// Facts returns the pack's counts.
func (r *Reader) Facts() Facts { return r.facts }

// Part returns the part of a pack in the directory: all, unless it is a shard.
func (r *Reader) Part() Part { return r.part }

// Index returns the index; it must not be modified.
func (r *Reader) Index() *Index { return r.index }

// InBits reports whether the blocks of the pack's graphs can be left in bits. Blocks of typed graphs are decoded.
func (r *Reader) InBits() bool { return !r.index.Bytewise && r.facts.Types == nil }

// Form returns the form of the pack's chunks.
func (r *Reader) Form() Form { return Form{RowBytes: r.facts.RowBytes, Codec: r.params.Codec} }

// Group returns the group of training batch i: the number in the names of its files.
func (r *Reader) Group(i int) int { return i / GroupBatches(r.facts.Segment) }

// SegmentOf returns the number of the segment of training batch i.
func (r *Reader) SegmentOf(i int) int { return i / r.facts.Segment }

// checkBatch compares a valid batch with the index and the facts.
func (r *Reader) checkBatch(b *graph.Batch, inputs, seeds, edges int, most *graph.Sizes) error {
	if len(b.Input) != inputs || len(b.Labels) != seeds || b.NumEdges() != edges || len(b.Blocks) != len(most.Src) {
		return fault.New(fault.ErrCorrupt, "it has %d input nodes, %d seed nodes and %d edges in %d layers, but the index says %d, %d and %d in %d",
			len(b.Input), len(b.Labels), b.NumEdges(), len(b.Blocks), inputs, seeds, edges, len(most.Src))
	}
	for l := range b.Blocks {
		k := &b.Blocks[l]
		if k.NumSrc > most.Src[l] || k.NumDst > most.Dst[l] || k.NumEdges() > most.Edges[l] || l > 0 && k.Scattered() && b.Types == nil ||
			b.Types != nil && k.NumRows() > most.Rows[l] {
			return fault.New(fault.ErrCorrupt, "layer %d has %d sources, %d destinations and %d edges, but the facts allow %d, %d and %d", l, k.NumSrc, k.NumDst, k.NumEdges(), most.Src[l], most.Dst[l], most.Edges[l])
		}
	}
	if err := b.CheckTypes(); err != nil {
		return fault.New(fault.ErrCorrupt, "%w", err)
	}
	for i, y := range b.Labels {
		if y != graph.Unlabelled && uint32(y) >= uint32(r.facts.Classes) {
			return fault.New(fault.ErrCorrupt, "seed node %d has class %d, but the pack has %d classes", i, y, r.facts.Classes)
		}
	}
	if want := len(b.Labels) * r.facts.TargetBytes; len(b.Targets) != want {
		return fault.New(fault.ErrCorrupt, "its targets have %d bytes instead of %d", len(b.Targets), want)
	}
	return nil
}

func inRange(name string, graphOffset int64, ranks []uint32, lo, hi int64) error {
	for _, v := range ranks {
		if int64(v) < lo || int64(v) >= hi {
			return fault.New(fault.ErrCorrupt, "%s: the graph at byte %d has rank %d where ranks from %d to %d are expected", name, graphOffset, v, lo, hi-1)
		}
	}
	return nil
}

// BandRanks returns the nodes of a band under the static policy: those with ranks lo ≤ rank < hi, where rank
// 0 is the hottest node. Under the policy min, bands are not ranges of ranks.
func (r *Reader) BandRanks(band int) (lo, hi int64) {
	if band == 0 {
		return r.index.Edges[0], r.facts.Nodes
	}
	return r.index.Edges[band], r.index.Edges[band-1]
}
