package packfile

import (
	"fmt"
	"math"
	"slices"

	"diskgnn/graph"
	"diskgnn/graph/batchcodec"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
)

// Limits that a reader accepts: far above any use, and low enough that no product of these counts
// overflows.
const (
	// MaxBatches bounds the batches of a pack, evaluation's included.
	MaxBatches = 1 << 26
	// maxDim bounds the elements of a row, as in a dataset.
	maxDim = 1 << 24
	// maxRowBytes is the size of the largest row of float32.
	maxRowBytes = 4 * maxDim
	// maxIndex bounds the bytes of index.bin, which is read whole.
	maxIndex = 1 << 34
)

// damaged returns the error for metadata that do not fit together.
func (r *Reader) damaged(format string, args ...any) error {
	return fault.New(fault.ErrCorrupt, "%s: %s", r.dir, fmt.Sprintf(format, args...))
}

// checkFacts checks parameters and facts: each by itself, so that later arithmetic cannot overflow, and
// then against each other. It comes before anything else of the pack is read.
func (r *Reader) checkFacts() error {
	p, f := &r.params, &r.facts
	within := func(v int64, lo, hi int64) bool { return v >= lo && v <= hi }
	batches := []int{f.Train, f.Valid, f.Test, f.Epochs, f.BatchesPerEpoch, f.Segment, f.Segments}
	switch {
	case p.Policy != PolicyStatic && p.Policy != PolicyMin:
		return r.damaged("unknown policy %q", p.Policy)
	case p.Codec != CodecNone && p.Codec != CodecS2 && p.Codec != CodecZstd:
		return r.damaged("chunks compressed by the unknown codec %q", p.Codec)
	case !f.DType.Valid() || p.DType != f.DType:
		return r.damaged("the facts have the element type %q, the parameters %q", f.DType, p.DType)
	case !within(f.Nodes, 1, graph.MaxNodes):
		return r.damaged("%d nodes are outside the limits of 1 to %d", f.Nodes, int64(graph.MaxNodes))
	case f.Dim < 1 || f.Dim > maxDim || f.RowBytes != f.DType.RowBytes(f.Dim):
		return r.damaged("rows of %d bytes are not rows of %d elements of type %s", f.RowBytes, f.Dim, f.DType)
	case f.Classes < 1 || f.Classes > math.MaxInt32:
		return r.damaged("%d classes are outside the limits of 1 to %d", f.Classes, math.MaxInt32)
	case (f.Types != nil) != r.version.typed || f.Types != nil && f.Nodes != f.Types.NumFeatureRows():
		return r.damaged("%d rows of features do not fit the node types and the format %s", f.Nodes, r.meta.Format)
	case f.TypeInputs != nil && (f.Types == nil || len(f.TypeInputs) != len(f.Types.Nodes) || slices.Min(f.TypeInputs) < 0):
		return r.damaged("the node types have the input nodes %v", f.TypeInputs)
	case f.SeedType < 0 || f.SeedType > 0 && (f.Types == nil || f.SeedType >= len(f.Types.Nodes)):
		return r.damaged("its seed nodes have the type %d", f.SeedType)
	case f.MultiLabel() != r.version.targets && !r.version.typed || f.MultiLabel() && f.TargetBytes != graph.TargetBytes(f.Classes) || f.TargetBytes < 0:
		return r.damaged("targets of %d bytes per seed node do not fit %d classes in the format %s", f.TargetBytes, f.Classes, r.meta.Format)
	case r.version.bytewise && p.EvalChunks != r.version.evalChunks:
		return r.damaged("the parameters and the format %s disagree about chunks of validation batches", r.meta.Format)
	case !within(f.HotRows, 0, f.Nodes) || !within(f.EvalRows, 0, f.Nodes) || f.HotRows+f.EvalRows > graph.MaxNodes:
		return r.damaged("%d hot rows and %d evaluation rows are not possible with %d nodes", f.HotRows, f.EvalRows, f.Nodes)
	case slices.Min(batches) < 0 || slices.Max(batches) > MaxBatches || f.Train+f.Valid+f.Test > MaxBatches:
		return r.damaged("counts outside 0 to %d: %d training, %d validation and %d test batches, %d epochs of %d, %d segments of %d", MaxBatches, f.Train, f.Valid, f.Test, f.Epochs, f.BatchesPerEpoch, f.Segments, f.Segment)
	case f.Epochs*f.BatchesPerEpoch != f.Train:
		return r.damaged("%d training batches are not %d epochs of %d batches", f.Train, f.Epochs, f.BatchesPerEpoch)
	case f.Segment < 1 || f.Segment > max(f.Train, 1) || f.Segments != (f.Train+f.Segment-1)/f.Segment:
		return r.damaged("%d segments of up to %d batches do not fit %d training batches", f.Segments, f.Segment, f.Train)
	case min(p.CacheRows, p.MaxDisk, f.TableBytes, f.ColdRows, f.SSDRows, f.EvalColdRows, f.ChunkBytes, f.GraphBytes) < 0:
		return r.damaged("a count of rows or bytes is negative")
	case len(f.Fanout) < 1 || len(f.Fanout) > batchcodec.MaxLayers || len(f.EvalFanout) != len(f.Fanout):
		return r.damaged("fanouts for %d layers in training and %d in evaluation: both must be the same number from 1 to %d", len(f.Fanout), len(f.EvalFanout), batchcodec.MaxLayers)
	}
	return r.checkSizes()
}

// checkSizes checks the counts from which readers size their buffers.
func (r *Reader) checkSizes() error {
	f := &r.facts
	for _, c := range []struct {
		what    string
		s, most graph.Sizes
		batches int
	}{
		{"the largest training batch", f.TrainSizes, f.TrainSizes, f.Train},
		{"the mean training batch", f.TrainMeans, f.TrainSizes, f.Train},
		{"the largest evaluation batch", f.EvalSizes, f.EvalSizes, f.Valid + f.Test},
	} {
		layers := len(f.Fanout)
		if c.batches == 0 {
			layers = 0
		}
		rows := layers
		if f.Types == nil {
			rows = 0
		}
		if len(c.s.Rows) != rows || slices.ContainsFunc(c.s.Rows, func(n int) bool { return n < 0 || n > math.MaxUint32 }) {
			return r.damaged("sizes of %s: rows %v of %d layers, not of %d", c.what, c.s.Rows, len(c.s.Rows), rows)
		}
		if len(c.s.Src) != layers || len(c.s.Dst) != layers || len(c.s.Edges) != layers {
			return r.damaged("sizes of %s: sources of %d layers, destinations of %d and edges of %d, not of %d", c.what, len(c.s.Src), len(c.s.Dst), len(c.s.Edges), layers)
		}
		above := int(f.Nodes) // blocks follow each other
		for l := range layers {
			src, dst, edges := c.s.Src[l], c.s.Dst[l], c.s.Edges[l]
			most := src // destinations
			if l == 0 && f.Types != nil {
				most = int(f.Types.NumNodes()) // they share input nodes
			}
			if dst < 0 || dst > most || src > above || l > 0 && src != above || edges < 0 || edges > math.MaxUint32 ||
				src > c.most.Src[l] || dst > c.most.Dst[l] || edges > c.most.Edges[l] {
				return r.damaged("sizes of %s: layer %d cannot have %d sources, %d destinations and %d edges", c.what, l, src, dst, edges)
			}
			above = dst
		}
	}
	return nil
}

// checkIndex compares the index with the facts and with the sizes of all files in meta.json, so that later
// reads need no bounds of their own. Parts lie one after another, a file ends with its last part, and
// memory sized by a count is at most a few times the size of the files.
func (r *Reader) checkIndex() error {
	f, x := &r.facts, r.index
	if len(x.Train) != f.Train || len(x.Valid) != f.Valid || len(x.Test) != f.Test {
		return r.damaged("the index has %d training, %d validation and %d test batches, but the facts say %d, %d and %d", len(x.Train), len(x.Valid), len(x.Test), f.Train, f.Valid, f.Test)
	}
	if x.EvalChunks != r.params.EvalChunks {
		return r.damaged("the index and the parameters disagree about chunks of validation batches")
	}
	if len(x.Segments) != 0 && (len(x.Segments) != f.Segments || f.Segment == 1) {
		return r.damaged("the index has %d segments, but the facts say %d of %d batches", len(x.Segments), f.Segments, f.Segment)
	}
	edges := x.Bands
	if r.params.Policy == PolicyMin {
		edges = 1
	}
	if r.params.Policy == PolicyMin && (x.Bands != 2 || len(x.Segments) > 0) || len(x.Edges) != edges || x.Edges[0] != f.HotRows {
		return r.damaged("the index does not fit policy %s and %d hot rows: it has %d band edges, %d bands and %d segments", r.params.Policy, f.HotRows, len(x.Edges), x.Bands, len(x.Segments))
	}
	w := indexWalk{r: r}
	if err := w.training(); err != nil {
		return err
	}
	if err := w.evaluation(); err != nil {
		return err
	}
	if w.evalCold != f.EvalColdRows {
		return r.damaged("the facts say %d rows in chunks of validation batches, but the index has %d", f.EvalColdRows, w.evalCold)
	}
	if w.cold != f.ColdRows || w.ssd != f.SSDRows || w.chunk != f.ChunkBytes || w.graph != f.GraphBytes {
		return r.damaged("the facts say %d cold rows, %d rows of the SSD level, chunks of up to %d bytes and graphs of up to %d, but the index has %d, %d, %d and %d",
			f.ColdRows, f.SSDRows, f.ChunkBytes, f.GraphBytes, w.cold, w.ssd, w.chunk, w.graph)
	}
	if err := r.covers("the largest training batch", f.TrainSizes, w.train); err != nil {
		return err
	}
	if err := r.covers("the largest evaluation batch", f.EvalSizes, w.eval); err != nil {
		return err
	}
	return r.checkFiles(w.files)
}

// most has the maxima of some batches' counts.
type most struct{ inputs, seeds, edges int }

func (m *most) raise(inputs, seeds, edges int) {
	m.inputs, m.seeds, m.edges = max(m.inputs, inputs), max(m.seeds, seeds), max(m.edges, edges)
}

// covers checks that sizes are the maxima of all batches. For a shard, which has only some of
// the batches, it checks that they suffice.
func (r *Reader) covers(what string, s graph.Sizes, m most) error {
	if len(s.Src) == 0 {
		return nil // there are no batches
	}
	sum, largest := 0, slices.Max(s.Edges)
	for _, n := range s.Edges {
		sum += n
	}
	have := most{s.Src[0], s.Dst[len(s.Dst)-1], sum}
	short := have.inputs < m.inputs || have.seeds < m.seeds || have.edges < m.edges
	over := r.whole && (have.inputs > m.inputs || have.seeds > m.seeds || largest > m.edges)
	if short || over {
		return r.damaged("sizes of %s: %d input nodes, %d seed nodes and %d edges, but the batches of the index have up to %d, %d and %d", what, have.inputs, have.seeds, have.edges, m.inputs, m.seeds, m.edges)
	}
	return nil
}

// indexWalk goes through the batches in the order in which they lie on disk.
type indexWalk struct {
	r           *Reader
	cold, ssd   int64 // rows
	evalCold    int64 // likewise, of evaluation
	chunk       int64 // most bytes of a chunk's rows
	graph       int64 // most bytes of a graph
	train, eval most
	files       []stage.File // that must be there; without a checksum, their table has it
}

// place is the offset at which the next part of a file must begin.
type place int64

// next takes a part of n bytes at offset off, and reports whether the part begins at the place.
func (p *place) next(off, n int64) bool {
	if off != int64(*p) || n < 0 || n > math.MaxInt64/2-off {
		return false
	}
	*p = place(off + binio.AlignUp(n, binio.Page))
	return true
}

func (w *indexWalk) training() error {
	r, x := w.r, w.r.index
	lo, hi := r.part.Batches(&r.facts)
	for i := range x.Train {
		if t := &x.Train[i]; (i < lo || i >= hi) && !t.absent() {
			return r.damaged("the shard's training batches are %d to %d, but it has batch %d", lo, hi-1, i)
		}
	}
	first, end := x.segments(r.part, &r.facts)
	for i := range x.Segments {
		if (i < first || i >= end) && x.Segments[i] != (Segment{}) {
			return r.damaged("the shard's segments are %d to %d, but it has segment %d", first, end-1, i)
		}
	}
	for g := r.part.Lo; g < r.part.Hi; g++ {
		if err := w.group(g); err != nil {
			return err
		}
	}
	return nil
}

// absent reports whether the entry of a batch is empty: another shard has the batch.
func (t *Train) absent() bool {
	return t.Inputs|t.Seeds|t.Edges|sum(t.Bands)|sum(t.SSD) == 0 && t.ChunkOffset|t.ChunkBytes|t.GraphOffset == 0 && none(t.Graph)
}

// group walks through a group's batches and segments.
func (w *indexWalk) group(g int) error {
	r, f, x := w.r, &w.r.facts, w.r.index
	var cold, graphs, ssd place
	var coldSums, graphSums []uint32
	first, end := x.segments(Part{Lo: g, Hi: g + 1}, f)
	for i := first; i < end; i++ {
		s := &x.Segments[i]
		if int64(s.Rows) > f.Nodes || !ssd.next(s.Offset, int64(s.Rows)*int64(f.RowBytes)) {
			return r.damaged("segment %d has %d rows at byte %d; expected up to %d rows at byte %d", i, s.Rows, s.Offset, f.Nodes, ssd)
		}
		w.ssd += int64(s.Rows)
	}
	lo, hi := f.GroupSpan(g)
	for i := lo; i < hi; i++ {
		t := &x.Train[i]
		rows := t.ColdRows(x.Bands - 1)
		if !cold.next(t.ChunkOffset, t.ChunkBytes) || !graphs.next(t.GraphOffset, int64(t.GraphBytes())) {
			return r.damaged("training batch %d has its chunk at byte %d and its graph at byte %d; expected at bytes %d and %d", i, t.ChunkOffset, t.GraphOffset, cold, graphs)
		}
		shared := t.SSDRows(x.Bands - 1)
		if shared > 0 && (len(x.Segments) == 0 || shared > x.Segments[r.SegmentOf(i)].Rows) {
			return r.damaged("training batch %d: %d rows of the SSD level are more than its segment has", i, shared)
		}
		ssdRows, hits, admit := t.planLengths(r.params.Policy)
		if err := w.batch(i, t.Inputs, t.Seeds, t.Edges, t.GraphBytes(), ssdRows+hits+admit); err != nil {
			return err
		}
		w.train.raise(t.Inputs, t.Seeds, t.Edges)
		w.cold += int64(rows)
		w.chunk = max(w.chunk, int64(rows)*int64(f.RowBytes))
		w.graph = max(w.graph, int64(t.GraphBytes()))
		coldSums = append(coldSums, t.Sums...)
		graphSums = AppendSums(graphSums, t.Graph)
	}
	w.files = append(w.files, stage.File{Name: GraphFile(g), Size: int64(graphs), Checksum: binio.HashSums(graphSums)})
	if cold > 0 {
		w.files = append(w.files, stage.File{Name: ColdFile(g), Size: int64(cold), Checksum: binio.HashSums(coldSums)})
	}
	if ssd > 0 {
		w.summed(SSDFile(g), SSDSums(g), int64(ssd))
	}
	return nil
}

// batch checks that a graph has at least the length that its counts imply. An edge takes a bit, and 128 values of a list
// take a byte. In older versions each number takes a byte, and each input node, class and entry of the plan takes
// four.
func (w *indexWalk) batch(i, inputs, seeds, edges, size, plan int) error {
	least := 5*int64(inputs) + int64(edges) + 4*int64(plan)
	if !w.r.index.Bytewise {
		least = int64(inputs)/64 + int64(edges)/8 + int64(plan)/128
	}
	if least += int64(4+w.r.facts.TargetBytes) * int64(seeds); least >= int64(size) {
		return w.r.damaged("batch %d: a graph of %d bytes is too short for %d input nodes, %d seed nodes and %d edges", i, size, inputs, seeds, edges)
	}
	return nil
}

func (w *indexWalk) evaluation() error {
	r, f, x := w.r, &w.r.facts, w.r.index
	var graphs, chunks place
	var sums []uint32
	for i, e := range slices.Concat(x.Valid, x.Test) {
		if !r.part.Common {
			if !e.absent() {
				return r.damaged("only the first shard may have evaluation batches")
			}
			continue
		}
		if !graphs.next(e.GraphOffset, int64(e.GraphBytes())) {
			return r.damaged("evaluation batch %d has its graph at byte %d; expected at byte %d", i, e.GraphOffset, graphs)
		}
		if err := w.batch(i, e.Inputs, e.Seeds, e.Edges, e.GraphBytes(), 0); err != nil {
			return err
		}
		if x.EvalChunks && i < len(x.Valid) {
			if e.Cold < e.Rows || !chunks.next(e.ChunkOffset, int64(e.Cold)*int64(f.RowBytes)) {
				return r.damaged("validation batch %d has a chunk of %d rows at byte %d; expected at least %d rows at byte %d", i, e.Cold, e.ChunkOffset, e.Rows, chunks)
			}
			w.evalCold += int64(e.Cold)
		} else if e.Cold != 0 || e.ChunkOffset != 0 {
			return r.damaged("evaluation batch %d has a chunk, but should have none", i)
		}
		w.eval.raise(e.Inputs, e.Seeds, e.Edges)
		w.graph = max(w.graph, int64(e.GraphBytes()))
		sums = AppendSums(sums, e.Graph)
	}
	if !r.part.Common {
		return nil
	}
	row := int64(f.RowBytes)
	w.files = append(w.files, stage.File{Name: EvalGraphFile, Size: int64(graphs), Checksum: binio.HashSums(sums)})
	w.summed(HotFile, HotSums, f.HotRows*row)
	w.summed(EvalFile, EvalSums, f.EvalRows*row)
	if x.EvalChunks {
		w.summed(EvalColdFile, EvalColdSums, int64(chunks))
	}
	if r.params.Policy == PolicyMin {
		w.summed(RefillFile, RefillSums, f.RefillRecords()*8*f.HotRows)
	}
	return nil
}

// summed notes a file of rows and its table of page checksums.
func (w *indexWalk) summed(name, table string, size int64) {
	w.files = append(w.files, stage.File{Name: name, Size: size}, stage.File{Name: table, Size: binio.SumsBytes(size, binio.Page)})
}

// checkFiles makes sure that meta.json lists these files and the index, and no others.
func (r *Reader) checkFiles(want []stage.File) error {
	for _, w := range want {
		have, ok := r.files[w.Name]
		switch {
		case !ok:
			return r.damaged("%s does not list %s", stage.MetaFile, w.Name)
		case have.Size != w.Size:
			return r.damaged("%s has %d bytes, but its rows or graphs take %d", w.Name, have.Size, w.Size)
		case w.Checksum != "" && have.Checksum != w.Checksum:
			return r.damaged("%s and %s disagree about the checksum of %s", stage.MetaFile, IndexFile, w.Name)
		}
	}
	known := make(map[string]bool, len(want)+1)
	known[IndexFile] = true
	for _, w := range want {
		known[w.Name] = true
	}
	what := "pack"
	if !r.whole {
		what = "shard"
	}
	for _, f := range r.meta.Files {
		if !known[f.Name] {
			return r.damaged("%s is not a file of a %s, or is listed twice", f.Name, what)
		}
		delete(known, f.Name)
	}
	return nil
}

// RefillRecords returns the number of records of refill.bin.
func (f *Facts) RefillRecords() int64 { return int64(f.Train+RefillBatches-1) / RefillBatches }

// absent reports whether the entry of an evaluation batch is empty.
func (e *Eval) absent() bool {
	return e.Inputs|e.Seeds|e.Edges|e.Rows|e.Cold == 0 && e.ChunkOffset|e.GraphOffset == 0 && none(e.Graph)
}
