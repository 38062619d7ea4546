package packfile

import (
	"fmt"
	"iter"
	"slices"

	"diskgnn/graph"
	"diskgnn/graph/batchcodec"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// Section is the length and the checksum of one section of a graph.
type Section struct{ Bytes, CRC uint32 }

// Sections of a graph. The bands follow, the one with the hottest ranks first.
const (
	degreeSection = iota
	blockSection
	hotSection
	bandSections // the first of them

	evalSections = hotSection
)

// Needs are the parts of a batch's graph that a reader needs, beside its blocks, labels and plan.
type Needs struct {
	// Degrees of the input nodes.
	Degrees bool
	// Ranks of all input nodes. If it is not set, only the ranks of rows in memory are read.
	Ranks bool
	// Through is the last band with rows that are not in memory.
	Through int
	// InBits leaves the blocks in bits, in the memory that the graph is decoded from. Packs of older versions have none.
	InBits bool
}

// Everything is needed to check a graph.
var Everything = Needs{Degrees: true, Ranks: true}

// UnreadRank stands for the rank of an input node that was not read.
const UnreadRank = 1<<32 - 1

// span returns the sections that are needed of a graph with n sections: a run of them.
func (n Needs) span(sections, bands int, min bool) (lo, hi int) {
	switch {
	case sections == 1:
		return 0, 1
	case n.Ranks:
		hi = sections
	case min:
		hi = hotSection // hits are rows of entries, which the plan has
	default:
		hi = bandSections + bands - 1 - n.Through
	}
	if n.Degrees {
		return degreeSection, hi
	}
	return blockSection, hi
}

// TrainGraph returns the range, in its file, of the sections of a training batch's graph that are needed.
func (r *Reader) TrainGraph(i int, n Needs) (offset int64, bytes int) {
	t := &r.index.Train[i]
	lo, hi := n.span(len(t.Graph), len(t.Bands), r.params.Policy == PolicyMin)
	return extent(t.GraphOffset, t.Graph, lo, hi)
}

// EvalGraph is TrainGraph for the graph of an evaluation batch, of which only the degrees may be left out.
func (e *Eval) EvalGraph(degrees bool) (offset int64, bytes int) {
	return extent(e.GraphOffset, e.Graph, e.first(degrees), len(e.Graph))
}

// first returns the first section that is needed, with or without degrees.
func (e *Eval) first(degrees bool) int {
	if degrees || len(e.Graph) <= 1 {
		return degreeSection
	}
	return blockSection
}

// extent returns the range of the sections lo ≤ k < hi of a graph at an offset.
func extent(offset int64, s []Section, lo, hi int) (int64, int) {
	return offset + int64(length(s[:lo])), length(s[lo:hi])
}

// length returns the bytes of sections.
func length(s []Section) int {
	n := 0
	for i := range s {
		n += int(s[i].Bytes)
	}
	return n
}

// GraphBytes returns the bytes of the graph with its plan.
func (t *Train) GraphBytes() int { return length(t.Graph) }

// GraphBytes returns the bytes of the graph.
func (e *Eval) GraphBytes() int { return length(e.Graph) }

// AppendSums appends the checksums of the sections of a graph. The checksum of a file of graphs is the hash of all of
// these (binio.HashSums).
func AppendSums(sums []uint32, sections []Section) []uint32 {
	for _, s := range sections {
		sums = append(sums, s.CRC)
	}
	return sums
}

// none reports whether all sections are zero: the graph is in another shard.
func none(s []Section) bool {
	return !slices.ContainsFunc(s, func(s Section) bool { return s != Section{} })
}

// ranges yields the ranges of the sections of a graph at the given offset of its file, and reports whether yield wants
// more. It leaves out empty sections.
func ranges(offset int64, sections []Section, yield func(binio.Range) bool) bool {
	for _, s := range sections {
		if s.Bytes > 0 && !yield(binio.Range{Offset: offset, Len: int64(s.Bytes), CRC: s.CRC}) {
			return false
		}
		offset += int64(s.Bytes)
	}
	return true
}

// TrainGraphs returns the sections of the batches' graphs, as they lie in their file.
func TrainGraphs(batches []Train) iter.Seq[binio.Range] {
	return func(yield func(binio.Range) bool) {
		for i := range batches {
			if t := &batches[i]; !ranges(t.GraphOffset, t.Graph, yield) {
				return
			}
		}
	}
}

// EvalGraphs returns the sections of the evaluation batches' graphs.
func (x *Index) EvalGraphs() iter.Seq[binio.Range] {
	return func(yield func(binio.Range) bool) {
		for _, list := range [][]Eval{x.Valid, x.Test} {
			for i := range list {
				if e := &list[i]; !ranges(e.GraphOffset, e.Graph, yield) {
					return
				}
			}
		}
	}
}

// sectioned appends the sections of a graph to dst, and their lengths and checksums to parts.
type sectioned struct {
	dst   []byte
	from  int
	parts []Section
}

func (s *sectioned) end() {
	part := s.dst[s.from:]
	s.parts = append(s.parts, Section{uint32(len(part)), binio.CRC(part)})
	s.from = len(s.dst)
}

// AppendTrainGraph appends the graph of a training batch and its plan to dst, and the sections of it to parts. bands and ssd
// are the numbers of rows of each band of the chunk and of the SSD level. classes has the first rank of each hotness,
// ascending; nil gives the same ranks in more bytes.
func AppendTrainGraph(dst []byte, parts []Section, b *graph.Batch, bands, ssd []int, p *Plan, classes []uint32) ([]byte, []Section) {
	s := sectioned{dst: dst, from: len(dst), parts: parts}
	s.dst = batchcodec.AppendList(s.dst, b.Degree, nil)
	s.end()
	s.dst = batchcodec.AppendBlocks(s.dst, b)
	for _, list := range [][]uint32{p.SSD, p.Hits, p.Admit} {
		s.dst = batchcodec.AppendList(s.dst, list, nil)
	}
	s.end()
	of := rowsOf(bands, ssd)
	s.dst = batchcodec.AppendList(s.dst, b.Input[of.hot:], classes)
	s.end()
	for k := len(bands) - 1; k >= 0; k-- {
		for _, rows := range of.band(k) {
			s.dst = batchcodec.AppendList(s.dst, b.Input[rows[0]:rows[1]], classes)
		}
		s.end()
	}
	return s.dst, s.parts
}

// matrixRows has the rows of a training batch's matrix: where each cold band, each ssd band and the hot rows begin.
type matrixRows struct {
	bands, ssd []int
	shared     int // first row of the SSD level
	hot        int
}

func rowsOf(bands, ssd []int) matrixRows {
	m := matrixRows{bands: bands, ssd: ssd, shared: sum(bands)}
	m.hot = m.shared + sum(ssd)
	return m
}

// band returns the rows from–to of band k in the chunk and in the SSD level.
func (m *matrixRows) band(k int) [2][2]int {
	cold, ssd := sum(m.bands[:k]), m.shared+sum(m.ssd[:k])
	return [2][2]int{{cold, cold + m.bands[k]}, {ssd, ssd + m.ssd[k]}}
}

// AppendEvalGraph is AppendTrainGraph for an evaluation batch. The rows of the first input nodes are in eval.bin.
func AppendEvalGraph(dst []byte, parts []Section, b *graph.Batch, rows int) ([]byte, []Section) {
	s := sectioned{dst: dst, from: len(dst), parts: parts}
	s.dst = batchcodec.AppendList(s.dst, b.Degree, nil)
	s.end()
	s.dst = batchcodec.AppendList(s.dst, b.Input[:rows], nil)
	s.dst = batchcodec.AppendList(s.dst, b.Input[rows:], nil)
	s.dst = batchcodec.AppendBlocks(s.dst, b)
	s.end()
	return s.dst, s.parts
}

// verifySections checks the sections lo ≤ k < hi of a graph at an offset of a file against their checksums.
// raw has these sections.
func verifySections(name string, offset int64, sections []Section, lo, hi int, raw []byte) error {
	offset, n := extent(offset, sections, lo, hi)
	if n != len(raw) {
		return fault.New(fault.ErrCorrupt, "%s: %d bytes were read of a graph, of which %d are needed", name, len(raw), n)
	}
	for _, s := range sections[lo:hi] {
		if binio.CRC(raw[:s.Bytes]) != s.CRC {
			return binio.BadRange(name, offset, int64(s.Bytes))
		}
		raw, offset = raw[s.Bytes:], offset+int64(s.Bytes)
	}
	return nil
}

// DecodeTrainGraph checks and decodes the graph and the plan of training batch i. raw has the bytes that TrainGraph
// returns for the same needs. It reuses the memory of b and p. Without Needs.Degrees, b.Degree is empty. Ranks that are
// not needed are UnreadRank. From a pack of an older version, all are read. Damage is an error of kind
// fault.ErrCorrupt.
func (r *Reader) DecodeTrainGraph(i int, n Needs, raw []byte, b *graph.Batch, p *Plan) error {
	t := &r.index.Train[i]
	name := r.Path(GraphFile(r.Group(i)))
	lo, hi := n.span(len(t.Graph), len(t.Bands), r.params.Policy == PolicyMin)
	if err := verifySections(name, t.GraphOffset, t.Graph, lo, hi, raw); err != nil {
		return err
	}
	ssd, hits, admit := t.planLengths(r.params.Policy)
	r.typed(b)
	var err error
	if !r.index.Bytewise {
		err = t.decodeSections(raw, lo, hi, n, b, p, [3]int{ssd, hits, admit})
	} else {
		err = decodeBytes(raw, b, p, ssd, hits, admit)
	}
	if err != nil {
		return fmt.Errorf("%s: graph at byte %d: %w", name, t.GraphOffset, err)
	}
	if err := r.checkBatch(b, t.Inputs, t.Seeds, t.Edges, &r.facts.TrainSizes); err != nil {
		return fmt.Errorf("%s: the graph of batch %d: %w", name, i, err)
	}
	if len(t.Graph) == 1 {
		return r.checkRows(name, i, len(t.Bands), b, p)
	}
	return r.checkRows(name, i, hi-bandSections, b, p)
}

// typed gives a batch its types before it is decoded.
func (r *Reader) typed(b *graph.Batch) { b.Types, b.SeedType = r.facts.Types, r.facts.SeedType }

// degrees returns the number of degrees of a batch with the given number of input nodes.
func degrees(b *graph.Batch, inputs int) int {
	if b.Types != nil {
		return 0
	}
	return inputs
}

// checkRows checks the plan of training batch i, and the ranks of the hot rows and of the hottest bands, of which read
// were read; -1 means that no ranks were read. name is the batch's file. Rows are fetched by rank, place and entry. If
// these did not agree with the row's position in the matrix, a wrong row would be read.
func (r *Reader) checkRows(name string, i, read int, b *graph.Batch, p *Plan) error {
	t := &r.index.Train[i]
	if len(p.SSD) > 0 && !ascendsBelow(p.SSD, int64(r.index.Segments[r.SegmentOf(i)].Rows)) {
		return fault.New(fault.ErrCorrupt, "%s: the plan of batch %d has rows of its segment out of order or beyond its end", name, i)
	}
	if r.params.Policy == PolicyMin {
		if !ascendsBelow(p.Hits, r.facts.HotRows) || !allBelow(p.Admit, r.facts.HotRows) {
			return fault.New(fault.ErrCorrupt, "%s: the plan of batch %d has cache entries out of order or beyond the last", name, i)
		}
		if read < 0 {
			return nil
		}
		return inRange(name, t.GraphOffset, b.Input, 0, r.facts.Nodes)
	}
	of := rowsOf(t.Bands, t.SSD)
	for band := len(t.Bands) - read; band < len(t.Bands); band++ {
		lo, hi := r.BandRanks(band)
		for _, rows := range of.band(band) {
			if err := inRange(name, t.GraphOffset, b.Input[rows[0]:rows[1]], lo, hi); err != nil {
				return err
			}
		}
	}
	return inRange(name, t.GraphOffset, b.Input[of.hot:], 0, r.index.Edges[len(r.index.Edges)-1])
}

// decodeBytes decodes a graph and its plan in the form of versions 2 to 5.
func decodeBytes(raw []byte, b *graph.Batch, p *Plan, ssd, hits, admit int) error {
	whole := len(raw) - 4*(ssd+hits+admit)
	if whole < 0 {
		return fault.New(fault.ErrCorrupt, "it is too short for its plan")
	}
	if err := batchcodec.Decode(raw[:whole], b); err != nil {
		return err
	}
	p.decode(raw[whole:], ssd, hits, admit)
	return nil
}

// sectionReader decodes the sections of a graph, one after another.
type sectionReader struct {
	raw      []byte
	sections []Section // that were not begun
	begun    int
	d        binio.Decoder
}

// readSections returns a reader of the sections lo ≤ k < hi, which are raw.
func readSections(raw []byte, sections []Section, lo, hi int) sectionReader {
	return sectionReader{raw: raw, sections: sections[lo:hi], begun: lo}
}

func (s *sectionReader) more() bool { return len(s.sections) > 0 }

// begin returns the decoder of the next section. Its next call invalidates the decoder.
func (s *sectionReader) begin() *binio.Decoder {
	n := s.sections[0].Bytes
	s.d = *binio.NewDecoder(s.raw[:n])
	s.raw, s.sections = s.raw[n:], s.sections[1:]
	s.begun++
	return &s.d
}

// end returns the error of the section that was begun last. The decoder must be at its end.
func (s *sectionReader) end() error {
	if s.d.Rest() > 0 {
		s.d.Fail("section %d ends %d bytes late", s.begun-1, s.d.Rest())
	}
	return s.d.Err()
}

// decodeSections decodes the sections lo ≤ k < hi. plan has the lengths of the plan's lists.
func (t *Train) decodeSections(raw []byte, lo, hi int, n Needs, b *graph.Batch, p *Plan, plan [3]int) error {
	s := readSections(raw, t.Graph, lo, hi)
	b.Degree = b.Degree[:0]
	if lo == degreeSection {
		b.Degree = batchcodec.List(s.begin(), b.Degree, degrees(b, t.Inputs))
		if err := s.end(); err != nil {
			return err
		}
	}
	d := s.begin()
	n.blocks(d, b, t.Inputs)
	for k, list := range [3]*[]uint32{&p.SSD, &p.Hits, &p.Admit} {
		*list = batchcodec.List(d, *list, plan[k])
	}
	if err := s.end(); err != nil {
		return err
	}
	b.Input = binio.Grow(b.Input, t.Inputs)
	if err := t.decodeRanks(&s, b.Input); err != nil {
		return err
	}
	return validate(b)
}

// blocks decodes the blocks of a batch with the given number of input nodes.
func (n *Needs) blocks(d *binio.Decoder, b *graph.Batch, inputs int) {
	var got int
	if n.InBits {
		got = batchcodec.BlocksInBits(d, b)
	} else {
		got = batchcodec.Blocks(d, b)
	}
	if got != inputs {
		d.Fail("it has %d input nodes, but the index says %d", got, inputs)
	}
}

// decodeRanks fills ranks from the sections that s still has, and with UnreadRank where it has none.
func (t *Train) decodeRanks(s *sectionReader, ranks []uint32) error {
	of, unread := rowsOf(t.Bands, t.SSD), len(t.Bands)
	if !s.more() {
		fillUnread(ranks)
		return nil
	}
	fillList(s.begin(), ranks[of.hot:])
	if err := s.end(); err != nil {
		return err
	}
	for ; s.more(); unread-- {
		d := s.begin()
		for _, rows := range of.band(unread - 1) {
			fillList(d, ranks[rows[0]:rows[1]])
		}
		if err := s.end(); err != nil {
			return err
		}
	}
	for k := range unread {
		for _, rows := range of.band(k) {
			fillUnread(ranks[rows[0]:rows[1]])
		}
	}
	return nil
}

// fillList fills to from a list of its length.
func fillList(d *binio.Decoder, to []uint32) { batchcodec.List(d, to[:0:len(to)], len(to)) }

// validate returns the error of an invalid batch, of kind fault.ErrCorrupt.
func validate(b *graph.Batch) error {
	if err := b.Validate(); err != nil {
		return fault.New(fault.ErrCorrupt, "%v", err)
	}
	return nil
}

func fillUnread(ranks []uint32) {
	for i := range ranks {
		ranks[i] = UnreadRank
	}
}

// DecodeEvalGraph checks and decodes the graph of an evaluation batch. raw has the bytes that Eval.EvalGraph returns for
// n.Degrees. All ranks are read. It reuses the memory of b. Without degrees, b.Degree is empty. Damage is an error
// of kind fault.ErrCorrupt.
func (r *Reader) DecodeEvalGraph(e *Eval, n Needs, raw []byte, b *graph.Batch) error {
	name := r.Path(EvalGraphFile)
	lo := e.first(n.Degrees)
	if err := verifySections(name, e.GraphOffset, e.Graph, lo, len(e.Graph), raw); err != nil {
		return err
	}
	r.typed(b)
	decode := batchcodec.Decode
	if !r.index.Bytewise {
		decode = func(raw []byte, b *graph.Batch) error { return e.decodeSections(raw, lo, n, b) }
	}
	if err := decode(raw, b); err != nil {
		return fmt.Errorf("%s: graph at byte %d: %w", name, e.GraphOffset, err)
	}
	if err := r.checkBatch(b, e.Inputs, e.Seeds, e.Edges, &r.facts.EvalSizes); err != nil {
		return fmt.Errorf("%s: the graph at byte %d: %w", name, e.GraphOffset, err)
	}
	if err := inRange(name, e.GraphOffset, b.Input[:e.Rows], r.facts.HotRows, r.facts.HotRows+r.facts.EvalRows); err != nil {
		return err
	}
	if r.params.Policy == PolicyMin && e.Rows < e.Inputs {
		return fault.New(fault.ErrCorrupt, "%s: an evaluation batch reads the cache of a pack of policy min", name)
	}
	// Nodes with rows in eval.bin ascend. The others descend by rank, so that the rows of caches come last.
	if !ascendsBelow(b.Input[:e.Rows], r.facts.HotRows+r.facts.EvalRows) || !descends(b.Input[e.Rows:]) {
		return fault.New(fault.ErrCorrupt, "%s: the input nodes of an evaluation batch are out of order", name)
	}
	// Of the others, those in the batch's chunk come before those that are always hot.
	hot, least := b.Input[e.Rows:], r.facts.HotRows
	if e.Cold > 0 {
		cold := e.Cold - e.Rows
		least = r.index.Edges[len(r.index.Edges)-1]
		if err := inRange(name, e.GraphOffset, hot[:cold], least, r.facts.HotRows); err != nil {
			return err
		}
		hot = hot[cold:]
	}
	return inRange(name, e.GraphOffset, hot, 0, least)
}

// decodeSections decodes the sections from lo on.
func (e *Eval) decodeSections(raw []byte, lo int, n Needs, b *graph.Batch) error {
	s := readSections(raw, e.Graph, lo, len(e.Graph))
	b.Degree = b.Degree[:0]
	if lo == degreeSection {
		b.Degree = batchcodec.List(s.begin(), b.Degree, degrees(b, e.Inputs))
		if err := s.end(); err != nil {
			return err
		}
	}
	d := s.begin()
	b.Input = e.inputs(d, b.Input)
	n.blocks(d, b, e.Inputs)
	if err := s.end(); err != nil {
		return err
	}
	return validate(b)
}

// DecodeInputs decodes only the input nodes of an evaluation batch, into the memory of the given list. raw has the bytes that
// EvalGraph returns without degrees. It is for a pack that is being made, and cannot read older versions. Damage is
// an error of kind fault.ErrCorrupt.
func (e *Eval) DecodeInputs(name string, raw []byte, into []uint32) ([]uint32, error) {
	if err := verifySections(name, e.GraphOffset, e.Graph, blockSection, evalSections, raw); err != nil {
		return into, err
	}
	d := binio.NewDecoder(raw)
	into = e.inputs(d, into)
	return into, d.Err()
}

// inputs decodes the input nodes, the first lists of their section.
func (e *Eval) inputs(d *binio.Decoder, into []uint32) []uint32 {
	into = binio.Grow(into, e.Inputs)
	fillList(d, into[:e.Rows])
	fillList(d, into[e.Rows:])
	return into
}
