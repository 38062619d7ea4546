package dataset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"diskgnn/dataset/internal/fill"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
)

// FillMean is the way of filling node types without features, in options and content parameters: a node's row is the
// mean of its neighbours' rows. Package dataset/internal/fill defines it.
const FillMean = "mean"

// Filling computes the feature rows of node types without features, after the rows of other types are
// written.
type Filling struct {
	Memory  int64 // bytes to hold, LeastMemory at least
	Workers int
	// Ready, unless nil, is closed when the topology is finished.
	Ready <-chan struct{}
	types *graph.Types
	steps []fill.Step
	fills []Filled // by the last run
}

// Filled is the cost of filling a node type. In a plan, ReadBytes is an upper bound.
type Filled struct {
	Type      string   `json:"type"`
	From      []string `json:"from"`               // the relations along which neighbours are found
	Reversed  bool     `json:"reversed,omitempty"` // these lead out of the type
	Nodes     int64    `json:"nodes"`
	Alone     int64    `json:"without_neighbours,omitempty"` // of them; unknown in a plan
	Passes    int64    `json:"passes"`
	ReadBytes int64    `json:"read_bytes"` // of features, as they are stored, and edges
	// WriteBytes is the size of the rows, before compression.
	WriteBytes int64 `json:"write_bytes"`
}

// FillOrder returns the places of node types in the order that filling needs.
func FillOrder(types *graph.Types) ([]int, error) { return fill.Order(types) }

// NewFilling prepares the filling of all types without features, which are in the order of FillOrder.
func NewFilling(types *graph.Types) (*Filling, error) {
	steps, err := fill.Steps(types)
	if err != nil {
		return nil, err
	}
	g := &Filling{steps: steps, types: &graph.Types{Nodes: slices.Clone(types.Nodes), Relations: types.Relations}}
	for i := range g.types.Nodes {
		g.types.Nodes[i].Features = true
	}
	return g, g.types.Check()
}

// Types returns the types of the filled dataset: all have features.
func (g *Filling) Types() *graph.Types { return g.types }

// Done returns the types that the last run filled. A nil Filling has none.
func (g *Filling) Done() []Filled {
	if g == nil {
		return nil
	}
	return g.fills
}

// nodes returns the number of nodes to fill. A nil Filling has none.
func (g *Filling) nodes() (n int64) {
	if g == nil {
		return 0
	}
	for _, s := range g.steps {
		n += g.types.Nodes[s.Type].Count
	}
	return n
}

// held is the memory beside the passes' sums and sort: pieces of features, offsets and edges, and their checksums. It does
// not depend on the number of edges, which may be an estimate: a MiB has the checksums of 3·10¹⁰ edges.
func (g *Filling) held(f *Facts) int64 {
	n := int64(4*Granule) + 8*(f.size(FeaturesFile)/Granule+1)
	if f.Compression != "" {
		n += maxFrame + 8*(f.size(FeaturesFile)/Granule+1)
	}
	return n
}

func shapeOf(f *Facts) fill.Shape { return fill.Shape{Dim: f.Dim, DType: f.DType} }

// LeastMemory returns the least memory for filling a dataset with the given facts, in bytes.
func (g *Filling) LeastMemory(f Facts) int64 { return g.held(&f) + fill.LeastMemory(shapeOf(&f)) }

// ScratchBytes returns the largest size of the scratch file beside the features, in bytes, for a number of edges.
func (g *Filling) ScratchBytes(edges int64) int64 {
	if slices.ContainsFunc(g.steps, func(s fill.Step) bool { return !s.Reversed }) {
		return fill.ScratchBytes(edges)
	}
	return 0
}

// filled describes a step without its costs.
func (g *Filling) filled(s *fill.Step) Filled {
	d := Filled{Type: g.types.Nodes[s.Type].Name, Reversed: s.Reversed, Nodes: g.types.Nodes[s.Type].Count}
	for _, r := range s.Relations {
		d.From = append(d.From, g.types.Triple(r))
	}
	return d
}

// known returns the types of the neighbours of a step, ascending.
func (g *Filling) known(s *fill.Step) []int {
	var kinds []int
	for _, r := range s.Relations {
		k := g.types.Relations[r]
		if s.Reversed {
			kinds = append(kinds, k.Destination)
		} else {
			kinds = append(kinds, k.Source)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Plan returns the costs of filling a dataset with the given facts, of which the edges are the most that there may be.
func (g *Filling) Plan(f Facts) []Filled {
	var plan []Filled
	most := fill.NodesOfPass(shapeOf(&f), g.Memory-g.held(&f))
	for i := range g.steps {
		s := &g.steps[i]
		d := g.filled(s)
		d.Passes = (d.Nodes + most - 1) / most
		d.ReadBytes = d.Passes*g.tableBytes(&f, s) + g.topologyBytes(&f, s, d.Passes, min(most, d.Nodes))
		d.WriteBytes = d.Nodes * int64(f.RowBytes())
		plan = append(plan, d)
	}
	return plan
}

// tableBytes returns the size of the rows that a pass may read: whole pieces of the table, as far as it is written.
func (g *Filling) tableBytes(f *Facts, s *fill.Step) (n int64) {
	row, end := int64(f.RowBytes()), int64(0)
	written, _ := g.types.Range(s.Type)
	for _, kind := range g.known(s) {
		lo, hi := g.types.Range(kind)
		from := max(lo*row/Granule*Granule, end)
		end = min((hi*row+Granule-1)/Granule*Granule, written*row)
		n += max(end-from, 0)
	}
	return n
}

// topologyBytes returns the most bytes of the topology that passes of up to most nodes read.
func (g *Filling) topologyBytes(f *Facts, s *fill.Step, passes, most int64) int64 {
	offsets, sources := f.size(IndptrFile), f.size(IndicesFile)
	// Parts of a file are read in whole granules.
	part := func(bytes, file int64) int64 { return min(bytes+2*Granule, file) }
	if !s.Reversed {
		_, n := g.types.Into(s.Type)
		return passes*(part(8*most*int64(n), offsets)+2*part(0, offsets)+part(0, sources)) + sources
	}
	pass := sources
	for _, kind := range g.known(s) {
		_, n := g.types.Into(kind)
		pass += part(8*g.types.Nodes[kind].Count*int64(n), offsets) + part(0, sources)
	}
	return passes * pass
}

// run fills the types, from the first row that is not written on.
func (g *Filling) run(ctx context.Context, t *featureTable) (err error) {
	g.fills = nil
	f := &t.w.state.Facts
	if t.rows >= f.featuredNodes() {
		return nil
	}
	if g.Ready != nil {
		select {
		case <-g.Ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	topology := &writtenRows{w: t.w}
	most := int64(0)
	for _, s := range g.steps {
		most = max(most, g.types.Nodes[s.Type].Count)
	}
	sums := fill.NewSums(fill.Options{
		Shape: shapeOf(f), Types: g.types, Topology: topology, FS: t.w.dir.FS(), Scratch: t.w.Scratch("fill"), Memory: g.Memory - g.held(f), Workers: g.Workers,
	}, most)
	for i := range g.steps {
		s := &g.steps[i]
		if _, end := g.types.Range(s.Type); t.rows >= end {
			continue
		}
		topology.read = 0
		d, err := g.fill(ctx, t, s, sums)
		if err != nil {
			return fmt.Errorf("fill the node type %s: %w", g.types.Nodes[s.Type].Name, err)
		}
		d.ReadBytes += topology.read
		g.fills = append(g.fills, d)
	}
	return nil
}

// fill fills a type.
func (g *Filling) fill(ctx context.Context, t *featureTable, s *fill.Step, sums *fill.Sums) (d Filled, err error) {
	d = g.filled(s)
	r, err := t.written()
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	rows := &piecewise{r: r, scratch: newScratch()}
	_, end := g.types.Range(s.Type)
	d.Nodes, d.WriteBytes = end-t.rows, (end-t.rows)*r.rowBytes
	var alone atomic.Int64
	task := t.rep.Task("fill "+d.Type, d.Nodes, progress.Nodes)
	defer task.Done()
	for t.rows < end {
		rows.index = -1
		hi, err := sums.Pass(ctx, *s, rows, t.rows, end)
		if err != nil {
			return d, err
		}
		dim := int64(t.w.state.Facts.Dim)
		err = t.write(ctx, hi, func(_ context.Context, lo, hi int64, values []float32) error {
			for v := lo; v < hi; v++ {
				if sums.Mean(v, values[(v-lo)*dim:][:dim]) == 0 {
					alone.Add(1)
				}
			}
			task.Add(hi - lo)
			return nil
		})
		if err != nil {
			return d, err
		}
		d.Passes++
	}
	d.ReadBytes, d.Alone = rows.read, alone.Load()
	return d, nil
}

// piecewise reads rows in ascending order, each piece of the table once.
type piecewise struct {
	r *FeatureReader
	*scratch
	read int64 // bytes
}

// Read implements fill.Rows.
func (p *piecewise) Read(ctx context.Context, lo, hi int64, buf []byte) error {
	if hi > p.r.rows {
		return fault.New(fault.ErrCorrupt, "%s has %d rows so far: an edge comes from node %d", p.r.Path(), p.r.rows, hi-1)
	}
	for off := lo * p.r.rowBytes; len(buf) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if off >= p.r.pieces.size {
			copy(buf, p.r.tail[off-p.r.pieces.size:])
			return nil
		}
		i := int(off / Granule)
		if p.index != i {
			p.index = -1
			p.edge = p.edge[:p.r.pieces.content(i, i+1)]
			if err := p.r.load(p.scratch, p.edge, i, i+1); err != nil {
				return err
			}
			_, size := p.r.Piece(i)
			p.index, p.read = i, p.read+size
		}
		n := copy(buf, p.edge[off%Granule:])
		off, buf = off+int64(n), buf[n:]
	}
	return nil
}

// Apart implements fill.Rows.
func (p *piecewise) Apart(a, b int64) bool {
	return b*p.r.rowBytes/Granule > ((a+1)*p.r.rowBytes-1)/Granule+1
}

// writtenRows reads the finished topology of a dataset that is being written.
type writtenRows struct {
	w    *Writer
	read int64 // bytes
}

// writtenNumbers reads a data file of it from a number on.
type writtenNumbers[T binio.Number] struct {
	*numberStream[T]
	of   *writtenRows
	from int64 // in bytes
}

func openWritten[T binio.Number](r *writtenRows, name string, first int64) (*writtenNumbers[T], error) {
	sums, err := r.w.sums(name)
	if err != nil {
		return nil, err
	}
	in, err := openStream(r.w.dir.FS(), r.w.dir.File(name), sums)
	if err != nil {
		return nil, err
	}
	size := int64(unsafe.Sizeof(T(0)))
	in.at = first * size / Granule * Granule
	s := &writtenNumbers[T]{&numberStream[T]{stream: in}, r, in.at}
	skip := int(first - in.at/size)
	ahead, err := s.peek()
	if err == nil && len(ahead) < skip {
		err = fault.New(fault.ErrCorrupt, "%s has no number %d", in.name, first)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.skip(skip)
	return s, nil
}

// next returns the next number.
func (s *writtenNumbers[T]) next() (n T, err error) {
	ahead, err := s.peek()
	if err == nil && len(ahead) == 0 {
		err = fault.New(fault.ErrCorrupt, "%s ends too early", s.name)
	}
	if err != nil {
		return n, err
	}
	s.skip(1)
	return ahead[0], nil
}

func (s *writtenNumbers[T]) close() error {
	s.of.read += s.at - s.from
	return s.stream.close()
}

// offset returns an entry of indptr.bin.
func (r *writtenRows) offset(row int64) (_ int64, err error) {
	s, err := openWritten[int64](r, IndptrFile, row)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return s.next()
}

// Edges implements fill.Topology.
func (r *writtenRows) Edges(_ context.Context, lo, hi int64) (int64, error) {
	first, err := r.offset(lo)
	if err != nil {
		return 0, err
	}
	end, err := r.offset(hi)
	return end - first, err
}

// looks is how many rows are read between two looks at the context.
const looks = 1 << 16

// Each implements fill.Topology.
func (r *writtenRows) Each(ctx context.Context, lo, hi int64, see func(row int64, sources []uint32) error) (err error) {
	offsets, err := openWritten[int64](r, IndptrFile, lo)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, offsets.close()) }()
	at, err := offsets.next()
	if err != nil {
		return err
	}
	sources, err := openWritten[uint32](r, IndicesFile, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sources.close()) }()
	for row := lo; row < hi; row++ {
		if row%looks == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		end, err := offsets.next()
		if err != nil {
			return err
		}
		for at < end {
			ahead, err := sources.peek()
			if err == nil && len(ahead) == 0 {
				err = fault.New(fault.ErrCorrupt, "%s ends at edge %d", sources.name, at)
			}
			if err != nil {
				return err
			}
			ahead = ahead[:min(int64(len(ahead)), end-at)]
			if err := see(row, ahead); err != nil {
				return err
			}
			sources.skip(len(ahead))
			at += int64(len(ahead))
		}
	}
	return nil
}

// sums returns the checksums of a finished file that is not compressed.
func (w *Writer) sums(name string) (binio.Sums, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var file [2]stage.File
	for i, name := range []string{name, tableOf(name)} {
		j := slices.IndexFunc(w.state.Files, func(f stage.File) bool { return f.Name == name })
		if j < 0 {
			return binio.Sums{}, fmt.Errorf("dataset: %s is not finished", name)
		}
		file[i] = w.state.Files[j]
	}
	c, err := readSums(w.dir.FS(), w.dir.Path(), file[0], file[1])
	return c.sums, err
}
