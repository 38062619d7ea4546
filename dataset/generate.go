package dataset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"diskgnn/dataset/internal/synth"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// generatorVersion is part of a generated dataset's content parameters: it
// changes whenever the same options give other bytes.
const generatorVersion = 1

// generateParams are the content parameters of a generated dataset.
type generateParams struct {
	Source    string     `json:"source"`
	Generator int        `json:"generator"`
	Nodes     int64      `json:"nodes"`
	AvgDegree float64    `json:"avg_degree"`
	Dim       int        `json:"dim"`
	Classes   int        `json:"classes"`
	DType     dtype.Type `json:"dtype"`
	Seed      uint64     `json:"seed"`
	Train     int64      `json:"train"`
	Valid     int64      `json:"valid"`
	Test      int64      `json:"test"`

	Compression string `json:"compression,omitempty"`
	MultiLabel  bool   `json:"multi_label,omitempty"`
	Types       int    `json:"types,omitempty"` // more than 1
	Featureless int    `json:"featureless,omitempty"`
	Fill        string `json:"fill,omitempty"`
}

func (o *GenerateOptions) params() generateParams {
	train, valid, test := o.splits()
	p := generateParams{
		"generator", generatorVersion, o.Nodes, o.AvgDegree, o.Dim, o.Classes, o.DType, o.Seed, train, valid, test, CompressionName(o.Compress), o.MultiLabel, o.Types, o.Featureless, o.Fill,
	}
	if p.Types == 1 {
		p.Types = 0
	}
	return p
}

// generator returns the graph that the parameters decide, and its types; nil for one.
func (p *generateParams) generator() (generator, *graph.Types, error) {
	q := synth.Params{Nodes: p.Nodes, AvgDegree: p.AvgDegree, Dim: p.Dim, Classes: p.Classes, Seed: p.Seed, Train: p.Train, Valid: p.Valid, Test: p.Test}
	o := GenerateOptions{Nodes: p.Nodes, Types: max(p.Types, 1), Featureless: p.Featureless}
	types := o.types()
	if types == nil {
		m, err := synth.New(q)
		return untyped{m}, nil, err
	}
	if err := types.Check(); err != nil {
		return nil, nil, err
	}
	m, err := synth.NewTyped(q, types)
	return typedModel{m, types}, types, err
}

// filling returns the filling of types without features, or nil.
func (p *generateParams) filling(types *graph.Types) (*Filling, error) {
	if p.Fill == "" {
		return nil, nil
	}
	return NewFilling(types)
}

// generator is a graph as a function of its nodes and rows.
type generator interface {
	// Of returns the model of a node, and its number in it.
	Of(v uint32) (*synth.Model, uint32)
	// row appends the sources of a row of the topology.
	row(dst []uint32, row int64) []uint32
}

type untyped struct{ *synth.Model }

func (m untyped) Of(v uint32) (*synth.Model, uint32)   { return m.Model, v }
func (m untyped) row(dst []uint32, row int64) []uint32 { return m.Neighbors(dst, uint32(row)) }

type typedModel struct {
	*synth.Typed
	types *graph.Types
}

func (m typedModel) row(dst []uint32, row int64) []uint32 {
	v, relation := m.types.RowOf(row)
	return m.Row(dst, v, relation)
}

// GenerateAgrees returns nil if Generate would begin, resume, or find finished the dataset out, and
// else the error that Generate would return because of existing files. It changes nothing.
func GenerateAgrees(ctx context.Context, fsys vfs.FS, out string, o GenerateOptions) error {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return err
	}
	return Agrees(ctx, fsys, out, o.params(), o.form(), o.Force)
}

// Generate writes a synthetic graph to the directory out. In-degrees follow a power law, communities
// decide the labels, and features alone predict labels badly; the neighbourhood predicts them well. It
// holds only a few blocks of the graph in memory.
//
// Generate resumes an interrupted run, and does nothing if the dataset exists. A dataset with other
// parameters is an error, unless o.Force replaces it. Cancelling ctx leaves files that a later run
// resumes from.
func Generate(ctx context.Context, fsys vfs.FS, out string, o GenerateOptions, rep progress.Reporter) (Result, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	g := &generation{o: o, rep: rep, Call: StartCall(ctx, out, o.Resources)}
	defer g.Stop()
	state, err := g.generate(ctx, fsys, out)
	if err != nil {
		return Result{}, fmt.Errorf("generate: %w", err)
	}
	return g.Result(fsys, state)
}

// generation is one run of Generate.
type generation struct {
	*Call
	o     GenerateOptions
	rep   progress.Reporter
	w     *Writer
	model generator
	slots int // concurrent pieces of work
	// filling computes the features of types that have none, or is nil.
	filling *Filling
}

func (g *generation) generate(ctx context.Context, fsys vfs.FS, out string) (state stage.State, err error) {
	o, params := &g.o, g.o.params()
	if g.filling, err = params.filling(o.types()); err != nil {
		return 0, err
	}
	if err := g.plan(); err != nil {
		return 0, err
	}
	defer budget.LimitHeap(o.Memory, 0)()
	g.w, state, err = Begin(ctx, fsys, out, params, o.form(), o.Force, g.rep)
	if err != nil || state == stage.StateDone {
		return state, err
	}
	defer func() { err = g.w.End(err) }()
	g.w.frames = g.slots
	g.w.Report(g.rep, state)

	f := &g.w.state.Facts
	f.Nodes, f.Dim, f.DType, f.Classes = o.Nodes, o.Dim, o.DType, o.Classes
	f.Train, f.Valid, f.Test, f.LabelKind = params.Train, params.Valid, params.Test, LabelKind(o.MultiLabel)
	if g.model, f.Types, err = params.generator(); err != nil {
		return state, err
	}
	if g.filling != nil {
		f.Types = g.filling.Types()
	}
	if f.Types != nil {
		f.Unlabelled = o.Nodes - f.Types.Nodes[0].Count
	}
	if f.Edges == 0 {
		f.Edges = int64(o.AvgDegree * float64(o.Nodes)) // about: until the topology is written
	}
	if err := g.w.CheckSpace(Need{f.Edges, f.Edges}, 0, g.rep); err != nil {
		return state, err
	}
	for _, step := range []struct {
		do      func(context.Context) error
		seconds *float64
	}{
		{g.labels, &g.Res.LabelSeconds},
		{g.topology, &g.Res.TopologySeconds},
		{g.features, &g.Res.FeatureSeconds},
		{g.measure, &g.Res.FeatureSeconds},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return state, err
		}
		Since(step.seconds, began)
	}
	return state, g.w.Commit(g.Facts())
}

// generateBlock is the number of nodes in a block: their labels or edges are made at once.
const generateBlock = 1 << 14

// plan chooses the number of concurrent pieces that fit in the memory.
func (g *generation) plan() error {
	o := &g.o
	_, rows := BlockRows(o.Nodes, o.Dim, o.DType)
	if o.Compress {
		rows += FrameMemory
	}
	edges := int64(4 * 2 * o.AvgDegree * generateBlock) // twice the mean: hubs come in bunches
	labels := int64(4 + 4)                              // with the splits
	if o.MultiLabel {
		labels += 2 * int64(graph.TargetBytes(o.Classes)) // in a slice that grows
	}
	slot := max(rows, edges+8*generateBlock, labels*generateBlock)
	held := budget.Reserve + 8*int64(o.Classes)*int64(o.Dim)
	fills := int64(0)
	if g.filling != nil {
		f := Facts{Nodes: o.Nodes, Dim: o.Dim, DType: o.DType, Types: g.filling.Types()}
		if o.Compress {
			f.Compression = Zstd
		}
		fills = g.filling.LeastMemory(f)
	}
	g.slots = int(min(int64(o.Workers+1), (o.Memory-held-fills)/slot))
	if g.slots < 2 {
		return budget.Check("generating", held+fills+2*slot, o.Memory)
	}
	if g.filling != nil {
		g.filling.Memory, g.filling.Workers = o.Memory-held-int64(g.slots)*slot, o.Workers
	}
	return nil
}

// blocks runs work for all nodes, block by block, and emit in order.
func blocks[S any](ctx context.Context, nodes int64, slots []S, work func(s S, lo, hi int64) error, emit func(s S, lo, hi int64) error) error {
	bounds := func(i int) (lo, hi int64) {
		lo = int64(i) * generateBlock
		return lo, min(lo+generateBlock, nodes)
	}
	return errgroup.Ordered(ctx, int((nodes+generateBlock-1)/generateBlock), slots,
		func(_ context.Context, s S, i int) error { lo, hi := bounds(i); return work(s, lo, hi) },
		func(s S, i int) error { lo, hi := bounds(i); return emit(s, lo, hi) })
}

func newSlots[S any](n int) []*S {
	s := make([]*S, n)
	for i := range s {
		s[i] = new(S)
	}
	return s
}

func (g *generation) labels(ctx context.Context) (err error) {
	names := []string{LabelsFile, SplitFile(Train), SplitFile(Valid), SplitFile(Test)}
	row := g.w.state.Facts.TargetBytes()
	if row > 0 {
		names = append(names, TargetsFile)
	}
	if g.w.Has(names...) {
		return nil
	}
	files := make([]*Array, len(names))
	for i, name := range names {
		if files[i], err = g.w.Create(name); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, files[i].Discard()) }()
	}
	type slot struct {
		labels  []int32
		targets []byte
		splits  [4][]uint32 // by synth.Split
	}
	_, last := g.w.state.Facts.labelledRange()
	task := g.rep.Task("draw labels", g.o.Nodes, progress.Nodes)
	defer task.Done()
	err = blocks(ctx, g.o.Nodes, newSlots[slot](g.slots),
		func(s *slot, lo, hi int64) error {
			s.labels, s.targets = s.labels[:0], s.targets[:0]
			for i := range s.splits {
				s.splits[i] = s.splits[i][:0]
			}
			for v := lo; v < hi; v++ {
				if v >= last {
					s.labels = append(s.labels, graph.Unlabelled)
					continue
				}
				model, v := g.model.Of(uint32(v))
				if row == 0 {
					s.labels = append(s.labels, model.Label(v))
				} else {
					s.labels = append(s.labels, 0)
					s.targets = append(s.targets, make([]byte, row)...)
					model.Classes(v, func(c int32) { graph.AddClass(s.targets[len(s.targets)-row:], int(c)) })
				}
				if p := model.Split(v); p != synth.None {
					s.splits[p] = append(s.splits[p], v) // the first type's numbers are its nodes'
				}
			}
			return nil
		},
		func(s *slot, lo, hi int64) error {
			task.Add(hi - lo)
			content := [][]byte{binio.Bytes(s.labels), binio.Bytes(s.splits[synth.Train]), binio.Bytes(s.splits[synth.Valid]), binio.Bytes(s.splits[synth.Test]), s.targets}
			for i, f := range files {
				if _, err := f.Write(content[i]); err != nil {
					return err
				}
			}
			return nil
		})
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := f.Finish(); err != nil {
			return err
		}
	}
	return g.w.Save()
}

func (g *generation) topology(ctx context.Context) (err error) {
	if g.w.Has(IndptrFile, IndicesFile) {
		return nil
	}
	t, err := g.w.StartTopology()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Discard()) }()
	type slot struct{ degrees, indices []uint32 }
	task := g.rep.Task("draw edges", g.w.state.Facts.Edges, progress.Edges)
	defer task.Done()
	err = blocks(ctx, g.w.state.Facts.Rows(), newSlots[slot](g.slots),
		func(s *slot, lo, hi int64) error {
			s.degrees, s.indices = s.degrees[:0], s.indices[:0]
			for v := lo; v < hi; v++ {
				n := len(s.indices)
				s.indices = g.model.row(s.indices, v)
				s.degrees = append(s.degrees, uint32(len(s.indices)-n))
			}
			return nil
		},
		func(s *slot, lo, hi int64) error {
			task.Add(int64(len(s.indices)))
			return t.Append(s.degrees, s.indices)
		})
	if err != nil {
		return err
	}
	return t.Finish()
}

func (g *generation) features(ctx context.Context) error {
	if g.w.Has(g.w.state.Facts.FeaturesFile()) {
		return nil
	}
	err := g.w.WriteFeatures(ctx, g.rep, g.slots, func(_ context.Context, lo, hi int64, values []float32) error {
		for v := lo; v < hi; v++ {
			model, local := g.model.Of(uint32(v))
			model.Features(values[(v-lo)*int64(g.o.Dim):][:g.o.Dim], local)
		}
		return nil
	}, g.filling)
	g.Res.Fill = g.filling.Done()
	return err
}

// measure computes the accuracy of features alone on the test nodes, as rows of the dataset's dtype.
// It is for nodes with one class.
func (g *generation) measure(ctx context.Context) error {
	if g.o.MultiLabel {
		return nil
	}
	type slot struct {
		row, stored []float32
		raw         []byte
		right       int64
	}
	slots := newSlots[slot](g.slots)
	for _, s := range slots {
		s.row, s.stored = make([]float32, g.o.Dim), make([]float32, g.o.Dim)
		s.raw = make([]byte, g.w.state.Facts.RowBytes())
	}
	right := int64(0)
	_, last := g.w.state.Facts.labelledRange()
	err := blocks(ctx, last, slots,
		func(s *slot, lo, hi int64) error {
			s.right = 0
			for v := lo; v < hi; v++ {
				model, v := g.model.Of(uint32(v))
				if model.Split(v) != synth.Test {
					continue
				}
				model.Features(s.row, v)
				dtype.Convert(s.raw, g.o.DType, binio.Bytes(s.row), dtype.Float32)
				dtype.Convert(binio.Bytes(s.stored), dtype.Float32, s.raw, g.o.DType)
				if model.Classify(s.stored) == model.Label(v) {
					s.right++
				}
			}
			return nil
		},
		func(s *slot, _, _ int64) error { right += s.right; return nil })
	if err != nil {
		return err
	}
	score := float64(right) / float64(g.w.state.Facts.Test)
	g.Res.FeaturesAlone = &score
	return nil
}
