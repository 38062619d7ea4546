package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"diskgnn/dataset"
	"diskgnn/dataset/internal/extsort"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// importerVersion is part of an imported dataset's content parameters: it
// changes whenever the same source and options give other bytes.
const importerVersion = 1

// importParams are the content parameters of an imported dataset. The source is
// named by its content.
type importParams struct {
	Source       string     `json:"source"`
	Importer     int        `json:"importer"`
	Format       string     `json:"format"`
	Content      string     `json:"content_sha256"`
	DType        dtype.Type `json:"dtype"`
	Binarize     bool       `json:"binarize"`
	RowNormalize bool       `json:"row_normalize"`
	Symmetrize   bool       `json:"symmetrize"`
	Compression  string     `json:"compression,omitempty"`
	AddReverse   bool       `json:"add_reverse_edges,omitempty"`
	Dedupe       bool       `json:"dedupe,omitempty"`
	SelfLoops    string     `json:"self_loops,omitempty"`
	Split        string     `json:"split,omitempty"`
	SplitSeed    uint64     `json:"split_seed,omitempty"`
	Stratify     bool       `json:"stratify,omitempty"`
	Relabel      string     `json:"relabel,omitempty"`
	For          string     `json:"for,omitempty"`
	Typed        bool       `json:"typed,omitempty"`
	Fill         string     `json:"fill,omitempty"`
	// Reading is Shape.Reading: the options that decided which content of the source is imported.
	Reading map[string]string `json:"reading,omitempty"`
}

// Import makes the dataset out of a graph in the format f. It holds 5 bytes for each node while it
// reads the labels, and a bit for each class of multi-label nodes; it sorts the edges on disk.
//
// Import resumes an interrupted run, and does nothing if the dataset exists. A dataset with other
// parameters or from another source is an error, unless o.Force replaces it. Cancelling ctx leaves
// files that a later run resumes from.
func Import(ctx context.Context, fsys vfs.FS, out string, f Format, o Options, rep progress.Reporter) (dataset.Result, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return dataset.Result{}, err
	}
	im := &importing{Call: dataset.StartCall(ctx, out, o.Resources), format: f, o: o, fs: fsys, rep: rep}
	defer im.Stop()
	state, err := im.execute(ctx, out)
	if err != nil {
		return dataset.Result{}, fmt.Errorf("import: %w", err)
	}
	im.Res.Notes = slices.Concat(im.shape.Notes, im.labelNotes)
	return im.Result(fsys, state)
}

// importing is one run of Import.
type importing struct {
	*dataset.Call
	format Format
	o      Options
	fs     vfs.FS
	rep    progress.Reporter
	src    Source
	w      *dataset.Writer
	shape  Shape
	split  *Split // to be drawn, or nil
	// labelNotes tell of classes without nodes.
	labelNotes []string
	// reverse says that the reverse of every edge is added as it is.
	reverse bool
	typing  *typing          // nil: nodes of one type
	filling *dataset.Filling // nil: types without features stay so
	plan    importPlan
	// counted says that the number of edges is known before lines are counted.
	counted bool
	// ahead says that edges may be read before the content parameters are known.
	ahead bool
	// Where nodes get other numbers: from has the source's by the new ones, later to has the new
	// ones by the source's.
	from, to []uint32
}

func (im *importing) open(out string) (err error) {
	if err := im.format.check(&im.o.Reading); err != nil {
		return err
	}
	im.o.Scratch, im.o.ScratchMemory = filepath.Clean(out)+".names", im.o.Memory-budget.Reserve
	src, err := im.format.Open(im.fs, im.o.Sources, &im.o.Reading)
	if err != nil {
		return err
	}
	im.src = src
	if im.shape = src.Shape(); !im.o.Labelled() {
		im.shape.Multi, im.shape.Classes, im.shape.ClassNames, im.shape.unlabelled = false, 0, nil, true
	}
	if im.o.Symmetrize = im.o.Symmetrize || im.shape.Undirected; im.o.Symmetrize {
		im.o.Dedupe = true
		if im.o.SelfLoops == LoopsKeep {
			im.o.SelfLoops = LoopsDrop
		}
	}
	im.reverse = !im.o.Symmetrize && im.o.AddsReverse(im.shape.AddReverse)
	if im.o.DType == "" {
		im.o.DType = im.shape.DType
	}
	var found Problems // MakePlan goes on after them
	found.Add(im.settleTypes())
	if im.o.Labelled() {
		found.Add(im.settleLabels())
	}
	found.Add(im.settleSplit())
	return found.Err()
}

func (im *importing) closeSource() error {
	if c, ok := im.src.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// fresh reports whether no earlier run left anything: neither a dataset nor the beginning of one.
func (im *importing) fresh(out string) bool {
	for _, name := range []string{out, stage.Partial(out)} {
		if _, err := im.fs.Stat(name); err == nil {
			return false
		}
	}
	return true
}

// preflight finds the faults of a source before hours are spent on it.
func (im *importing) preflight(ctx context.Context, out string) error {
	shape := im.shape
	defer func() { im.shape = shape }()
	var found Problems
	if err := im.survey(ctx, out, &Plan{}, &found); err != nil {
		return err
	}
	im.counted = im.shape.Edges == shape.Edges
	return found.Err()
}

// params returns the content parameters. Options that were added later are left out at their defaults,
// so that older datasets keep their fingerprints.
func (im *importing) params(content string) importParams {
	o := &im.o
	p := importParams{
		Source: "import", Importer: importerVersion, Format: im.format.Name, Content: content,
		DType: o.DType, Binarize: o.Binarize, RowNormalize: o.RowNormalize, Symmetrize: o.Symmetrize,
		Compression: dataset.CompressionName(o.Compress), AddReverse: im.reverse, Dedupe: o.Dedupe && !o.Symmetrize,
		For: o.For, Typed: im.typing != nil, Fill: o.Fill, Reading: im.shape.Reading,
	}
	if as := map[bool]string{false: LoopsKeep, true: LoopsDrop}; o.SelfLoops != as[o.Symmetrize] {
		p.SelfLoops = o.SelfLoops
	}
	if o.relabels() {
		p.Relabel = o.Relabel
	}
	if im.split != nil {
		_, p.Split, _ = im.split.percent() // which settleSplit has read
		p.SplitSeed, p.Stratify = im.split.Seed, im.split.Stratify
	}
	return p
}

func (im *importing) execute(ctx context.Context, out string) (state stage.State, err error) {
	o := &im.o
	if o.mayName() { // opening the source takes memory
		defer budget.LimitHeap(o.Memory, 0)()
	}
	defer func() { err = errors.Join(err, im.closeSource()) }()
	if err := im.open(out); err != nil {
		return 0, err
	}
	if err := im.planMemory(); err != nil {
		return 0, err
	}
	defer budget.LimitHeap(im.o.Memory, 0)()
	for _, note := range im.shape.Notes {
		im.rep.Logf("%s", fault.Line(note))
	}
	fresh := im.fresh(out)
	if fresh {
		if err := im.preflight(ctx, out); err != nil {
			return 0, err
		}
	}
	content, err := statSources(im.fs, im.src.Files())
	if err != nil {
		return 0, err
	}
	// Where there is nothing to compare with, the source is hashed while its edges are read.
	im.ahead = fresh && im.counted && o.Workers > 1 && !o.relabels()
	if im.ahead {
		im.w, state, err = im.begin(ctx, out, nil)
	}
	if !im.ahead || errors.Is(err, fault.ErrExists) { // by another process, meanwhile
		im.ahead = false
		if err := content.hash(ctx, im.fs, im.rep); err != nil {
			return 0, err
		}
		im.shape.Edges = im.src.CountEdges(content.lines())
		im.w, state, err = im.begin(ctx, out, im.params(content.sum))
	}
	if err != nil || state == stage.StateDone {
		return state, err
	}
	defer func() { err = im.w.End(err) }()
	im.w.Watch(func() error { return content.unchanged(im.fs) })
	im.w.SetFrames(im.plan.frames)
	im.w.Report(im.rep, state)

	if err := im.checkSpace(); err != nil {
		return state, err
	}
	settle := func(ctx context.Context) error {
		if !im.ahead {
			return nil
		}
		if err := content.hash(ctx, im.fs, im.rep); err != nil {
			return err
		}
		return im.w.Settle(im.params(content.sum))
	}
	if err := im.steps(ctx, settle); err != nil {
		return state, err
	}
	return state, im.w.Commit(im.Facts())
}

// begin opens the transaction.
func (im *importing) begin(ctx context.Context, out string, params any) (*dataset.Writer, stage.State, error) {
	if im.shape.Edges > MaxEdges {
		return nil, 0, fault.New(fault.ErrInput, "%s has more than %d edges", im.name(), int64(MaxEdges))
	}
	return dataset.Begin(ctx, im.fs, out, params, im.form(), im.o.Force, im.rep)
}

func (im *importing) form() dataset.Form {
	return dataset.Form{Compressed: im.o.Compress, OriginalIDs: im.facts().OriginalIDs != "", Typed: im.typing != nil}
}

// relabelledSteps is steps where nodes get other numbers, which all files go by.
func (im *importing) relabelledSteps(ctx context.Context, labels, topology, features func(context.Context) error) error {
	if err := im.order(ctx); err != nil {
		return err
	}
	if err := labels(ctx); err != nil {
		return err
	}
	im.to = make([]uint32, len(im.from)) // the new number of each node of the source
	for i, v := range im.from {
		im.to[v] = uint32(i)
	}
	im.from = nil
	if err := im.names(ctx); err != nil {
		return err
	}
	if err := topology(ctx); err != nil {
		return err
	}
	return features(ctx)
}

// steps writes all files, the first one after settle. Topology and features are written concurrently
// if the memory, the disk space and the workers suffice, since each may wait for decompression.
// Reading of the edges begins before the labels if that is allowed and the labels leave half of the
// memory.
func (im *importing) steps(ctx context.Context, settle func(context.Context) error) error {
	timed := func(do func(context.Context) error, seconds *float64) func(context.Context) error {
		return func(ctx context.Context) error {
			defer func(began time.Time) { dataset.Since(seconds, began) }(time.Now())
			return do(ctx)
		}
	}
	settled := make(chan struct{})
	labels := func(ctx context.Context) error {
		if err := settle(ctx); err != nil {
			return err
		}
		if im.o.Labelled() {
			if err := timed(im.labels, &im.Res.LabelSeconds)(ctx); err != nil {
				return err
			}
		}
		if !im.o.relabels() {
			if err := im.names(ctx); err != nil {
				return err
			}
		}
		close(settled)
		return nil
	}
	sorted := make(chan struct{})
	topology := timed(func(ctx context.Context) error {
		if err := im.topology(ctx, settled); err != nil {
			return err
		}
		close(sorted)
		return nil
	}, &im.Res.TopologySeconds)
	if im.filling != nil {
		im.filling.Ready = sorted
	}
	features := timed(im.features, &im.Res.FeatureSeconds)
	if im.o.relabels() {
		return im.relabelledSteps(ctx, labels, topology, features)
	}
	together, err := im.together()
	if err != nil {
		return err
	}
	ahead := together && im.readsFirst()
	if !ahead {
		if err := labels(ctx); err != nil {
			return err
		}
	}
	if !together {
		if err := topology(ctx); err != nil {
			return err
		}
		return features(ctx)
	}
	beside := im.plan.features
	if ahead {
		beside = max(beside, im.shape.labelMemory())
	}
	im.plan.sort -= beside
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return topology(ctx) })
	g.Go(func() error {
		if ahead {
			if err := labels(ctx); err != nil {
				return err
			}
		}
		return features(ctx)
	})
	return g.Wait()
}

// readsFirst reports whether edges are read at the same time as labels, which must leave half of the
// memory to them.
func (im *importing) readsFirst() bool {
	return im.ahead && 2*im.shape.labelMemory() <= im.plan.sort
}

// together reports whether topology and features are written at the same time.
func (im *importing) together() (bool, error) {
	if im.o.Workers < 2 || im.plan.sort < im.plan.features+4*extsort.LeastEdges {
		return false, nil
	}
	free, err := im.fs.Free(im.w.Path())
	f := im.facts()
	table := f.FeatureRows() * int64(f.RowBytes())
	return free > extsort.EdgeBytes(im.storedEdges().Most)+dataset.DiskBytes(f, im.storedEdges().Most)+table/8, err
}

// importPlan divides the memory.
type importPlan struct {
	sort     int64 // for the edges; later to fill types, but for the features' part
	features int64
	rows     int64 // to put features in order
	frames   int   // of features to compress at once
}

// leastMemory is the least memory of the largest step, in bytes.
func (im *importing) leastMemory() int64 {
	s := &im.shape
	_, rows := dataset.BlockRows(s.Nodes, s.Dim, im.o.DType)
	features := 2 * rows
	if im.o.Compress {
		features += dataset.FrameMemory
	}
	if im.filling != nil {
		features += im.filling.LeastMemory(im.facts())
	}
	if im.o.relabels() {
		features += rows + extsort.LeastRecords + 2*int64(s.Dim*im.o.DType.Size())
	}
	numbers := im.numberMemory() // and twice as much while they are inverted: finding them takes more
	return s.Held + max(numbers+s.labelMemory(), numbers+features, numbers+extsort.LeastEdges, im.orderMemory()+extsort.LeastEdges)
}

// planMemory divides the memory between the steps; a budget that is too small is an error. Each of the
// steps that follow each other may use all of it.
func (im *importing) planMemory() error {
	s := &im.shape
	free := im.o.Memory - budget.Reserve
	_, rows := dataset.BlockRows(s.Nodes, s.Dim, im.o.DType)
	need := im.leastMemory()
	if need > free {
		err := budget.Check("importing", budget.Reserve+need, im.o.Memory)
		if s.HeldMost != "" && 2*s.Held > need {
			err = fmt.Errorf("%w; %s", err, s.HeldMost)
		}
		return err
	}
	// Beside the frames that are compressed, one is filled.
	im.plan = importPlan{sort: free - s.Held, features: 2 * rows, frames: int(min(int64(im.o.Workers+1), (free-s.Held-2*rows)/dataset.FrameMemory))}
	if im.o.Compress {
		im.plan.features += int64(im.plan.frames) * dataset.FrameMemory
	}
	if im.filling != nil {
		im.filling.Memory, im.filling.Workers = free-s.Held-im.plan.features, im.o.Workers
	}
	if im.o.relabels() {
		// Beside the features are the block that rows are read into, the rows that are put in order, and the numbers.
		room := free - s.Held - im.numberMemory() - 3*rows
		frames := int64(0)
		if im.o.Compress {
			im.plan.frames = int(max(min(int64(im.plan.frames), room/2/dataset.FrameMemory), 1))
			frames = int64(im.plan.frames) * dataset.FrameMemory
		}
		im.plan.rows = room - frames
	}
	return nil
}

// MaxEdges is the largest number of edges of a source. Twice that number is still the edges of a
// dataset.
const MaxEdges = dataset.MaxFile / 4 / 2

// AddEdges returns n + more, or MaxEdges + 1 if the sum is larger. n must be at most MaxEdges + 1;
// more may be any number that a source states.
func AddEdges(n, more int64) int64 { return min(n+min(more, MaxEdges+1), MaxEdges+1) }

// storedEdges is how many edges the dataset has at least and at most; the most are sorted.
func (im *importing) storedEdges() dataset.Need {
	n := dataset.Need{Least: im.shape.Edges, Most: im.shape.Edges}
	if im.o.Symmetrize || im.reverse {
		n.Most *= 2
	}
	if im.reverse && im.typing == nil {
		n.Least *= 2
	}
	if im.o.Dedupe && !im.o.Symmetrize || im.o.SelfLoops == LoopsDrop && !im.o.Symmetrize {
		n.Least = 0
	}
	if im.o.SelfLoops == LoopsAdd {
		n.Most += im.shape.Nodes
	}
	return n
}

func (im *importing) labelKind() string {
	if !im.o.Labelled() {
		return dataset.NoLabels
	}
	return dataset.LabelKind(im.shape.Multi)
}

// facts returns the known facts of the dataset before it is begun.
func (im *importing) facts() dataset.Facts {
	s := &im.shape
	f := dataset.Facts{Nodes: s.Nodes, Dim: s.Dim, DType: im.o.DType, LabelKind: im.labelKind(), Classes: s.Classes}
	if im.typing != nil {
		f.Types, f.LabelledType = im.typing.types, s.LabelledType
		if im.filling != nil {
			f.Types = im.filling.Types()
		}
	}
	switch {
	case s.NameBytes > 0:
		f.OriginalIDs, f.NameBytes = dataset.IDNames, s.NameBytes
	case im.o.relabels():
		f.OriginalIDs = dataset.IDNumbers
	}
	for _, name := range s.ClassNames {
		f.ClassNameBytes += int64(len(name)) + 1
	}
	if im.o.Compress {
		f.Compression = dataset.Zstd
	}
	return f
}

func (im *importing) checkSpace() error {
	known, f := im.facts(), im.w.Facts()
	f.Nodes, f.Dim, f.DType, f.LabelKind = known.Nodes, known.Dim, known.DType, known.LabelKind
	f.Types, f.LabelledType = known.Types, known.LabelledType
	f.OriginalIDs, f.NameBytes, f.ClassNameBytes = known.OriginalIDs, known.NameBytes, known.ClassNameBytes
	if im.shape.Multi {
		f.Classes = known.Classes
	}
	// Both directions of an edge may be there already, and no edge is stored twice.
	return im.w.CheckSpace(im.storedEdges(), im.scratch(), im.rep)
}

// scratch returns the largest disk space, in bytes, of scratch files beside the dataset's files: for
// sorting edges, finding the order of nodes, or ordering feature rows.
func (im *importing) scratch() int64 {
	f := im.facts()
	rows := int64(0)
	if im.o.relabels() {
		rows = im.rowScratch() + f.Nodes*int64(f.RowBytes())
	}
	if im.filling != nil {
		if n := im.filling.ScratchBytes(im.storedEdges().Most); n > 0 {
			rows = n + f.FeatureRows()*int64(f.RowBytes())
		}
	}
	return max(extsort.EdgeBytes(im.storedEdges().Most), im.orderScratch(), rows)
}

// topology sorts the edges and writes indptr and indices, once the content parameters are settled
// and the labels are written.
func (im *importing) topology(ctx context.Context, settled <-chan struct{}) (err error) {
	if im.w.Has(dataset.IndptrFile, dataset.IndicesFile) {
		return nil
	}
	s, err := extsort.NewEdges(im.fs, im.w.Scratch("edges"), extsort.EdgeOptions{
		Nodes: im.rows(), Edges: im.storedEdges().Most, Memory: im.plan.sort - im.numberMemory(), Workers: im.o.Workers, Unique: im.o.Dedupe,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	store := im.storing()
	store.to = im.to
	if err := im.readEdges(ctx, s, store); err != nil {
		return err
	}
	select {
	case <-settled:
	case <-ctx.Done():
		return ctx.Err()
	}
	t, err := im.w.StartTopology()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Discard()) }()
	task := im.rep.Task("sort edges", s.Added(), progress.Edges)
	defer task.Done()
	err = s.Rows(ctx, func(degrees, sources []uint32) error {
		task.Add(int64(len(sources)))
		return t.Append(degrees, sources)
	})
	if err != nil {
		return err
	}
	return t.Finish()
}

// storing tells which of the edges that are read are stored.
type storing struct {
	both  bool     // the reverse of each too
	loops bool     // those from a node to itself too
	add   bool     // one of these for every node
	to    []uint32 // the nodes' numbers, by the source's; nil: the same
	typed *typing  // nil: nodes of one type
}

func (im *importing) storing() storing {
	return storing{
		both: im.typing == nil && (im.o.Symmetrize || im.reverse), loops: im.o.SelfLoops == LoopsKeep, add: im.o.SelfLoops == LoopsAdd, typed: im.typing,
	}
}

// pairs appends the edges of a relation that are stored, as pairs of the number of a row and the source.
func (store *storing) pairs(pairs []uint32, relation int, dst, src []int64) []uint32 {
	if store.typed != nil {
		return store.typed.pairs(pairs, relation, dst, src, store.loops)
	}
	for i, d := range dst {
		switch {
		case d == src[i] && !store.loops:
		case store.to != nil:
			pairs = append(pairs, store.to[d], store.to[src[i]])
		default:
			pairs = append(pairs, uint32(d), uint32(src[i]))
		}
	}
	return pairs
}

// edgeSink takes edges, as pairs of row and source; with both set, their reverses too.
type edgeSink interface {
	AddAll(pairs []uint32, both bool) error
}

func (im *importing) readEdges(ctx context.Context, s edgeSink, store storing) error {
	task := im.rep.Task("read edges", im.shape.Edges, progress.Edges)
	defer task.Done()
	// One goroutine reads, which may mean unpacking, the other sorts.
	const pieces = 4
	free, full := make(chan []uint32, pieces), make(chan []uint32, pieces)
	for range pieces {
		free <- make([]uint32, 0, 2*store.typed.ways()*Chunk)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(full)
		return im.eachEdge(ctx, func(relation int, dst, src []int64) error {
			task.Add(int64(len(dst)))
			for len(dst) > 0 {
				n := min(len(dst), Chunk)
				var pairs []uint32
				select {
				case pairs = <-free:
				case <-ctx.Done():
					return ctx.Err()
				}
				pairs = store.pairs(pairs[:0], relation, dst[:n], src[:n])
				dst, src = dst[n:], src[n:]
				full <- pairs // there is room for all that there are
			}
			return ctx.Err()
		})
	})
	g.Go(func() error {
		for pairs := range full {
			if err := s.AddAll(pairs, store.both); err != nil {
				return err
			}
			free <- pairs
		}
		return nil
	})
	err := g.Wait()
	if err != nil || !store.add {
		return err
	}
	for v := range uint32(im.shape.Nodes) {
		if err := s.AddAll([]uint32{v, v}, false); err != nil {
			return err
		}
	}
	return nil
}

func (im *importing) features(ctx context.Context) (err error) {
	if im.w.Has(im.w.Facts().FeaturesFile()) {
		return nil
	}
	var rows RowStream
	defer func() {
		if rows != nil {
			err = errors.Join(err, rows.Close())
		}
	}()
	// Two slots: one block is read while the other is written, in order.
	err = im.w.WriteFeatures(ctx, im.rep, 2, func(ctx context.Context, lo, hi int64, values []float32) error {
		if rows == nil {
			open := im.src.Features
			if im.to != nil {
				open = func(first int64) (RowStream, error) { return im.movedRows(ctx, first) }
			}
			var err error
			if rows, err = open(lo); err != nil {
				return err
			}
		}
		if err := rows.Next(values); err != nil || im.to != nil {
			return err
		}
		if err := im.transform(values, lo); err != nil {
			return fmt.Errorf("%s: %w", im.shape.Features, err)
		}
		return nil
	}, im.filling)
	im.Res.Fill = im.filling.Done()
	return err
}

func (im *importing) name() string {
	if len(im.o.Sources) == 0 {
		return im.o.Edges
	}
	return strings.Join(im.o.Sources, ", ")
}
