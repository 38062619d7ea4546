package importer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"diskgnn/dataset"
	"diskgnn/dataset/internal/edgesort"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
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
	// Reading has the options that decided what the source yields; see Shape.
	Reading map[string]string `json:"reading,omitempty"`
}

// Import writes a graph of another format as a dataset, in bounded memory: it
// holds 5 bytes a node while it reads the labels, and a bit per class of multi-label
// nodes, and sorts the edges on disk.
//
// It resumes an interrupted run, does nothing when the dataset is there, and
// refuses when it is there with other parameters or from another source.
// Cancelling the context leaves what a later run resumes from.
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
	plan   importPlan
}

func (im *importing) open() (err error) {
	im.src, err = im.format.Open(im.fs, im.o.Sources, &im.o.Reading)
	if err != nil {
		return err
	}
	im.shape = im.src.Shape()
	im.o.Symmetrize = im.o.Symmetrize || im.shape.Undirected
	if im.o.DType == "" {
		im.o.DType = im.shape.DType
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
	content, err := hashSources(ctx, im.fs, im.src.Files(), im.rep)
	if err != nil {
		return 0, err
	}
	if im.shape.Edges = im.src.CountEdges(content.lines()); im.shape.Edges > MaxEdges {
		return 0, fault.New(fault.ErrInput, "%s: more than %d edges", im.name(), int64(MaxEdges))
	}
	im.w, state, err = dataset.Begin(ctx, im.fs, out, importParams{
		"import", importerVersion, im.format.Name, content.sum, o.DType, o.Binarize, o.RowNormalize, o.Symmetrize, dataset.CompressionName(o.Compress), im.shape.Reading,
	}, o.Compress, o.Force, im.rep)
	if err != nil || state == stage.StateDone {
		return state, err
	}
	defer func() { err = errors.Join(err, im.w.Close()) }()
	im.w.SetFrames(im.plan.frames)
	im.w.Report(im.rep, state)

	if err := im.checkSpace(); err != nil {
		return state, err
	}
	for _, step := range []struct {
		do      func(context.Context) error
		seconds *float64
	}{
		{im.labels, &im.Res.LabelSeconds},
		{im.topology, &im.Res.TopologySeconds},
		{im.features, &im.Res.FeatureSeconds},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return state, err
		}
		dataset.Since(step.seconds, began)
	}
	if err := content.unchanged(im.fs); err != nil {
		return state, err
	}
	return state, im.w.Commit(im.Facts())
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
	_, rows := dataset.BlockRows(s.Nodes, s.Dim, im.o.DType)
	features := 2 * rows
	if im.o.Compress {
		features += dataset.FrameMemory
	}
	need := max(s.labelMemory(), features, edgesort.Least)
	if need > free {
		return budget.Check("importing", budget.Reserve+need, im.o.Memory)
	}
	// Beside the frames that are compressed, one is filled.
	im.plan = importPlan{sort: free, frames: int(min(int64(im.o.Workers+1), (free-2*rows)/dataset.FrameMemory))}
	return nil
}

// MaxEdges bounds the edges of a source, so that twice as many can be computed with.
const MaxEdges = dataset.MaxFile / 4 / 2

// storedEdges is how many edges the dataset has at most, and how many are sorted.
func (im *importing) storedEdges() int64 {
	if im.o.Symmetrize {
		return 2 * im.shape.Edges
	}
	return im.shape.Edges
}

func (im *importing) checkSpace() error {
	f, s := im.w.Facts(), &im.shape
	f.Nodes, f.Dim, f.DType, f.LabelKind = s.Nodes, s.Dim, im.o.DType, dataset.LabelKind(s.Multi)
	if s.Multi {
		f.Classes = s.Classes
	}
	// Both directions of an edge may be there already, and no edge is stored twice.
	return im.w.CheckSpace(dataset.Need{Least: s.Edges, Most: im.storedEdges()}, edgesort.Bytes(im.storedEdges()), im.rep)
}

// topology sorts the edges and writes indptr and indices.
func (im *importing) topology(ctx context.Context) (err error) {
	if im.w.Has(dataset.IndptrFile, dataset.IndicesFile) {
		return nil
	}
	s, err := edgesort.New(im.fs, im.w.Scratch("edges"), edgesort.Options{
		Nodes: im.shape.Nodes, Edges: im.storedEdges(), Memory: im.plan.sort, Workers: im.o.Workers, Unique: im.o.Symmetrize,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := im.readEdges(ctx, s); err != nil {
		return err
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

// readEdges hands the source's edges to the sorter, both directions if asked.
func (im *importing) readEdges(ctx context.Context, s *edgesort.Sorter) error {
	task := im.rep.Task("read edges", im.shape.Edges, progress.Edges)
	defer task.Done()
	return im.src.Edges(ctx, func(dst, src []int64) error {
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
	return im.w.WriteFeatures(ctx, im.rep, 2, func(_ context.Context, lo, hi int64, values []float32) error {
		if rows == nil {
			var err error
			if rows, err = im.src.Features(lo); err != nil {
				return err
			}
		}
		if err := rows.Next(values); err != nil {
			return err
		}
		if err := im.transform(values, lo); err != nil {
			return fmt.Errorf("%s: %w", im.shape.Features, err)
		}
		return nil
	})
}

// name names the source in messages.
func (im *importing) name() string { return strings.Join(im.o.Sources, ", ") }
