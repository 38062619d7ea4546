package dataset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"diskgnn/dataset/internal/edgesort"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// ImportOptions say what to import, and how.
type ImportOptions struct {
	Format string // one of Formats
	Source string // a file or a directory, as the format has it

	// Binarize makes every feature above zero one, and every other zero.
	Binarize bool
	// RowNormalize scales every feature row to the sum 1; rows of zeros stay. It
	// comes after Binarize, and needs features that are not negative.
	RowNormalize bool
	// Symmetrize stores every edge in both directions, once, and no self-loops.
	// Formats of undirected graphs imply it.
	Symmetrize bool
	// DType is that of the features; empty: float16 if the source has that, else
	// float32.
	DType dtype.Type
	// Compress stores the features compressed.
	Compress bool
	Resources
}

// Names of the formats that Import reads.
const (
	FormatGNNBenchmark = "gnn-benchmark"
	FormatGraphBolt    = "graphbolt"
)

// Formats lists what Import reads.
func Formats() []string { return []string{FormatGNNBenchmark, FormatGraphBolt} }

// Validate refuses what makes no sense, naming the flag.
func (o *ImportOptions) Validate() error {
	switch {
	case o.Format != FormatGNNBenchmark && o.Format != FormatGraphBolt:
		return fault.New(fault.ErrUsage, "--format %q: known are %s", o.Format, strings.Join(Formats(), ", "))
	case o.Source == "":
		return fault.New(fault.ErrUsage, "import: nothing to import was named")
	case o.DType != "" && !featureType(o.DType):
		return fault.New(fault.ErrUsage, "--dtype %s: features are float32, float16 or bfloat16", o.DType)
	}
	return o.Resources.Validate()
}

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
}

// source is a graph in another format. Opening it has read what says how large
// it is. Its methods are called one at a time; their errors name the file.
type source interface {
	shape() shape
	// files lists every file that the graph is read from, in a fixed order.
	files() []string
	// labels puts the classes and splits into l.
	labels(ctx context.Context, l *labelling) error
	// countEdges returns how many edges the source has at most, given the lines of its
	// files: exactly, but for empty lines.
	countEdges(lines map[string]int64) int64
	// edges calls add for all edges as they are stored, some at a time: edge i
	// points from src[i] to dst[i], which are nodes.
	edges(ctx context.Context, add func(dst, src []int64) error) error
	// features returns a stream of the rows from first on.
	features(first int64) (rowStream, error)
}

// shape is what a source says of itself before its content is read.
type shape struct {
	nodes      int64
	edges      int64 // as stored; of files of text not before their lines are counted
	dim        int
	dtype      dtype.Type // what the features have, or float32
	classes    int        // 0: as many as the labels have
	multi      bool       // nodes have any number of the classes
	undirected bool       // edges have no direction
	features   string     // where the features are, for messages
}

// rowStream yields feature rows one after the other.
type rowStream interface {
	// next fills values with the following whole rows.
	next(values []float32) error
	close() error
}

// Import writes a graph of another format as a dataset, in bounded memory: it
// holds 5 bytes a node while it reads the labels, and a bit per class of multi-label
// nodes, and sorts the edges on disk.
//
// It resumes an interrupted run, does nothing when the dataset is there, and
// refuses when it is there with other parameters or from another source.
// Cancelling the context leaves what a later run resumes from.
func Import(ctx context.Context, fsys vfs.FS, out string, o ImportOptions, rep progress.Reporter) (Result, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	im := &importing{run: startRun(ctx, out, o.Resources), o: o, fs: fsys, rep: rep}
	defer im.watch.Stop()
	state, err := im.execute(ctx, out)
	if err != nil {
		return Result{}, fmt.Errorf("import: %w", err)
	}
	return im.result(fsys, state)
}

// importing is one run of Import.
type importing struct {
	*run
	o     ImportOptions
	fs    vfs.FS
	rep   progress.Reporter
	src   source
	w     *writer
	shape shape
	plan  importPlan
}

func (im *importing) open() (err error) {
	switch im.o.Format {
	case FormatGNNBenchmark:
		im.src, err = openGNNBenchmark(im.fs, im.o.Source)
	case FormatGraphBolt:
		im.src, err = openGraphBolt(im.fs, im.o.Source)
	}
	if err != nil {
		return err
	}
	im.shape = im.src.shape()
	im.o.Symmetrize = im.o.Symmetrize || im.shape.undirected
	if im.o.DType == "" {
		im.o.DType = im.shape.dtype
	}
	return nil
}

func (im *importing) execute(ctx context.Context, out string) (state stage.State, err error) {
	o := &im.o
	if err := im.open(); err != nil {
		return 0, err
	}
	if err := im.planMemory(); err != nil {
		return 0, err
	}
	defer budget.LimitHeap(im.o.Memory, 0)()
	content, err := hashSources(ctx, im.fs, im.src.files(), im.rep)
	if err != nil {
		return 0, err
	}
	if im.shape.edges = im.src.countEdges(content.lines()); im.shape.edges > maxEdges {
		return 0, fault.New(fault.ErrInput, "%s: more than %d edges", o.Source, int64(maxEdges))
	}
	im.w, state, err = begin(ctx, im.fs, out, importParams{
		"import", importerVersion, o.Format, content.sum, o.DType, o.Binarize, o.RowNormalize, o.Symmetrize, compression(o.Compress),
	}, o.Compress, o.Force, im.rep)
	if err != nil || state == stage.StateDone {
		return state, err
	}
	defer func() { err = errors.Join(err, im.w.close()) }()
	im.w.frames = im.plan.frames
	im.w.report(im.rep, state)

	if err := im.checkSpace(); err != nil {
		return state, err
	}
	for _, step := range []struct {
		do      func(context.Context) error
		seconds *float64
	}{
		{im.labels, &im.res.LabelSeconds},
		{im.topology, &im.res.TopologySeconds},
		{im.features, &im.res.FeatureSeconds},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return state, err
		}
		since(step.seconds, began)
	}
	if err := content.unchanged(im.fs); err != nil {
		return state, err
	}
	return state, im.w.commit(im.run.facts())
}

// importPlan divides the memory.
type importPlan struct {
	sort   int64 // for the edges
	frames int   // of features to compress at once
}

// planMemory refuses a budget in which the import cannot be done. Its steps
// follow each other, so each may take what the budget leaves.
func (im *importing) planMemory() error {
	s := &im.shape
	free := im.o.Memory - budget.Reserve
	_, rows := blockRows(s.nodes, s.dim, im.o.DType)
	features := 2 * rows
	if im.o.Compress {
		features += frameMemory
	}
	need := max(s.labelMemory(), features, edgesort.Least)
	if need > free {
		return budget.Check("importing", budget.Reserve+need, im.o.Memory)
	}
	// Beside the frames that are compressed, one is filled.
	im.plan = importPlan{sort: free, frames: int(min(int64(im.o.Workers+1), (free-2*rows)/frameMemory))}
	return nil
}

// maxEdges bounds the edges of a source, so that twice as many can be computed with.
const maxEdges = maxFile / nodeIDBytes / 2

// storedEdges is how many edges the dataset has at most, and how many are sorted.
func (im *importing) storedEdges() int64 {
	if im.o.Symmetrize {
		return 2 * im.shape.edges
	}
	return im.shape.edges
}

func (im *importing) checkSpace() error {
	f, s := &im.w.state.Facts, &im.shape
	f.Nodes, f.Dim, f.DType, f.LabelKind = s.nodes, s.dim, im.o.DType, labelKind(s.multi)
	if s.multi {
		f.Classes = s.classes
	}
	// Both directions of an edge may be there already, and no edge is stored twice.
	return im.w.checkSpace(need{s.edges, im.storedEdges()}, edgesort.Bytes(im.storedEdges()), im.rep)
}

// edgesFile is where edges are sorted.
const edgesFile = "edges.scratch"

// topology sorts the edges and writes indptr and indices.
func (im *importing) topology(ctx context.Context) (err error) {
	if im.w.has(IndptrFile, IndicesFile) {
		return nil
	}
	s, err := edgesort.New(im.fs, im.w.dir.File(edgesFile), edgesort.Options{
		Nodes: im.shape.nodes, Edges: im.storedEdges(), Memory: im.plan.sort, Workers: im.o.Workers, Unique: im.o.Symmetrize,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := im.readEdges(ctx, s); err != nil {
		return err
	}
	t, err := im.w.startTopology()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.discard()) }()
	task := im.rep.Task("sort edges", s.Added(), progress.Edges)
	defer task.Done()
	err = s.Rows(ctx, func(degrees, sources []uint32) error {
		task.Add(int64(len(sources)))
		return t.append(degrees, sources)
	})
	if err != nil {
		return err
	}
	return t.finish()
}

// readEdges hands the source's edges to the sorter, both directions if asked.
func (im *importing) readEdges(ctx context.Context, s *edgesort.Sorter) error {
	task := im.rep.Task("read edges", im.shape.edges, progress.Edges)
	defer task.Done()
	return im.src.edges(ctx, func(dst, src []int64) error {
		task.Add(int64(len(dst)))
		for i, d := range dst {
			d, u := uint32(d), uint32(src[i])
			if im.o.Symmetrize {
				if d == u {
					continue
				}
				if err := s.Add(u, d); err != nil {
					return err
				}
			}
			if err := s.Add(d, u); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// features writes the feature rows.
func (im *importing) features(ctx context.Context) (err error) {
	if im.w.has(im.w.state.Facts.FeaturesFile()) {
		return nil
	}
	var rows rowStream
	defer func() {
		if rows != nil {
			err = errors.Join(err, rows.close())
		}
	}()
	// Two slots: one block is read while the other is written, in order.
	return im.w.writeFeatures(ctx, im.rep, 2, func(_ context.Context, lo, hi int64, values []float32) error {
		if rows == nil {
			var err error
			if rows, err = im.src.features(lo); err != nil {
				return err
			}
		}
		if err := rows.next(values); err != nil {
			return err
		}
		if err := im.transform(values, lo); err != nil {
			return fmt.Errorf("%s: %w", im.shape.features, err)
		}
		return nil
	})
}
