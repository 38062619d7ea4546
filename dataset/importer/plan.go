package importer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/internal/extsort"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// Plan is the predicted result of an import, and its costs. The JSON keys are stable.
type Plan struct {
	Format      string     `json:"format"`
	SourceBytes int64      `json:"source_bytes"`
	Nodes       int64      `json:"nodes"`
	Edges       int64      `json:"edges"` // upper bound, as they will be stored
	Estimated   bool       `json:"edges_estimated"`
	Dim         int        `json:"dim"`
	SourceDType dtype.Type `json:"source_dtype"` // as which the features are read: float64 as float32
	DType       dtype.Type `json:"dtype"`
	Classes     int        `json:"classes"`
	LabelKind   string     `json:"label_kind"`
	Train       int64      `json:"train"`
	Valid       int64      `json:"valid"`
	Test        int64      `json:"test"`
	Unlabelled  int64      `json:"unlabelled"`
	OriginalIDs string     `json:"original_ids,omitempty"` // see dataset.Facts
	// MemoryBytes is the smallest possible --memory, ScratchBytes the size of the scratch files for
	// sorting, DiskBytes the size of the dataset without compression, NeededBytes the largest disk
	// space at any time.
	MemoryBytes  int64 `json:"memory_bytes"`
	ScratchBytes int64 `json:"scratch_bytes"`
	DiskBytes    int64 `json:"disk_bytes"`
	NeededBytes  int64 `json:"needed_bytes"`
	// Fill has the node types that get features, with the costs for the given memory.
	Fill     []dataset.Filled `json:"fill,omitempty"`
	Notes    []string         `json:"notes,omitempty"`
	Problems []string         `json:"problems,omitempty"` // of the source, and of disk space
}

// Problems is a list of errors of a source, as one error.
type Problems []error

// Add appends err unless it is nil. If err is a Problems, it appends its errors one by one.
func (p *Problems) Add(err error) {
	var more Problems
	switch {
	case err == nil:
	case errors.As(err, &more) && len(more) > 0:
		*p = append(*p, more...)
	default:
		*p = append(*p, err)
	}
}

// Err returns nil for an empty list, the error of a list of one, and else the list.
func (p Problems) Err() error {
	switch len(p) {
	case 0:
		return nil
	case 1:
		return p[0]
	}
	return p
}

// Error returns all messages in one line.
func (p Problems) Error() string {
	texts := make([]string, len(p))
	for i, err := range p {
		texts[i] = err.Error()
	}
	return fmt.Sprintf("%d problems: %s", len(p), strings.Join(texts, "; "))
}

// Unwrap returns the problems.
func (p Problems) Unwrap() []error { return p }

// MakePlan opens and checks a source as Import does, predicts the result and the costs, and imports
// nothing. Problems of the source are in Plan.Problems; an error means that there is no plan.
func MakePlan(ctx context.Context, fsys vfs.FS, out string, f Format, o Options, rep progress.Reporter) (_ Plan, err error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return Plan{}, err
	}
	im := &importing{format: f, o: o, fs: fsys, rep: rep}
	p := Plan{Format: f.Name}
	var found Problems
	if err := im.open(out); err != nil {
		if !errors.Is(err, fault.ErrInput) || ctx.Err() != nil {
			return p, fmt.Errorf("import: %w", err)
		}
		found.Add(err)
	}
	if im.src != nil {
		defer func() { err = errors.Join(err, im.closeSource()) }()
		if err := im.survey(ctx, out, &p, &found); err != nil {
			return p, fmt.Errorf("import: %w", err)
		}
	}
	for _, err := range found {
		p.Problems = append(p.Problems, err.Error())
	}
	return p, nil
}

// survey checks the parts of the source that can be read quickly: labels and splits, the first edges
// and features; and it computes the costs of the import. It adds problems of the source to found, and
// returns other errors.
func (im *importing) survey(ctx context.Context, out string, p *Plan, found *Problems) error {
	s, o := &im.shape, &im.o
	p.Nodes, p.Dim, p.SourceDType, p.DType = s.Nodes, s.Dim, s.DType, o.DType
	p.LabelKind, p.Notes = im.labelKind(), s.Notes
	seen := func(err error) error {
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fault.ErrInput) || errors.Is(err, fault.ErrBudget):
			found.Add(err)
			return nil
		}
		return err
	}
	p.SourceBytes = im.sourceBytes(found)
	free := im.planMemory()
	if err := seen(free); err != nil {
		return err
	}
	p.MemoryBytes = budget.Reserve + im.leastMemory()
	if free == nil {
		if !o.Labelled() {
			p.Unlabelled = s.Nodes
		}
		for _, look := range []func(context.Context, *Plan) error{im.lookAtLabels, im.lookAtEdges, im.lookAtFeatures} {
			if err := seen(look(ctx, p)); err != nil {
				return err
			}
		}
	}
	edges := im.storedEdges()
	p.Edges = edges.Most
	f := im.facts()
	p.OriginalIDs = f.OriginalIDs
	if im.filling != nil && free == nil {
		all := f
		all.Edges = edges.Most
		p.Fill = im.filling.Plan(all)
	}
	f.Train, f.Valid, f.Test = p.Train, p.Valid, p.Test
	if p.Estimated {
		edges.Least = 0 // it may be less
	}
	scratch := im.scratch()
	if p.ScratchBytes = scratch; im.filling != nil {
		p.ScratchBytes = extsort.EdgeBytes(edges.Most) // without the features, which lie beside the edges to fill
	}
	p.DiskBytes = dataset.DiskBytes(f, edges.Most)
	p.NeededBytes = dataset.DiskNeed(f, edges, scratch).Most
	return seen(dataset.CheckRoom(im.fs, out, f, edges, scratch))
}

// sourceBytes returns the size of the source, and finds the files that are missing.
func (im *importing) sourceBytes(found *Problems) (n int64) {
	for _, name := range im.src.Files() {
		st, err := im.fs.Stat(name)
		if err != nil {
			found.Add(fault.New(fault.ErrInput, "%s is missing", name))
			continue
		}
		n += st.Size()
	}
	return n
}

func (im *importing) lookAtLabels(ctx context.Context, p *Plan) error {
	if !im.o.Labelled() {
		return nil
	}
	l, err := im.readLabels(ctx)
	if err != nil {
		return err
	}
	p.Classes, p.Notes = l.Classes(), slices.Concat(p.Notes, l.notes())
	p.Unlabelled, p.Train, p.Valid, p.Test = l.count()
	if p.Train == 0 {
		return fault.New(fault.ErrInput, "%s: the %s set is empty", im.name(), dataset.Train)
	}
	return nil
}

// errEnough ends the reading of edges.
var errEnough = errors.New("enough")

// lookAtEdges reads the first edges, and estimates how many there are where only reading all
// would tell.
func (im *importing) lookAtEdges(ctx context.Context, p *Plan) error {
	var glanced bool
	if g, ok := im.src.(Glancer); ok {
		var err error
		if glanced, err = g.Glance(); err != nil {
			return err
		}
	}
	if !glanced {
		err := im.src.Edges(ctx, func(dst, src []int64) error { return errEnough })
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	lines, sure := map[string]int64{}, true
	for _, name := range im.src.Files() {
		n, whole, err := im.guessLines(name)
		if err != nil {
			return err
		}
		lines[name], sure = n, sure && whole
	}
	n := im.src.CountEdges(lines)
	p.Estimated = n != im.shape.Edges && !sure
	im.shape.Edges = n
	return nil
}

// guessLines returns about how many lines a file of text has, by its first ones, or exactly if
// these are the whole file.
func (im *importing) guessLines(name string) (n int64, whole bool, err error) {
	f, err := OpenFile(im.fs, name)
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return 0, false, err
	}
	buf := make([]byte, 64<<10)
	got, _ := f.ReadAt(buf, 0) // a short read tells as much
	n = int64(bytes.Count(buf[:got], []byte("\n")))
	switch {
	case int64(got) < st.Size() && got > 0:
		return max(n, 1) * st.Size() / int64(got), false, nil
	case got > 0 && buf[got-1] != '\n':
		n++
	}
	return n, true, nil
}

// lookAtFeatures reads the first rows.
func (im *importing) lookAtFeatures(context.Context, *Plan) (err error) {
	rows, err := im.src.Features(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	n, _ := dataset.BlockRows(im.ownRows(), im.shape.Dim, im.o.DType)
	values := make([]float32, n*int64(im.shape.Dim))
	if err := rows.Next(values); err != nil {
		return err
	}
	if err := im.transform(values, 0); err != nil {
		return fmt.Errorf("%s: %w", im.shape.Features, err)
	}
	return nil
}
