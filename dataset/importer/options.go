package importer

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Options are the sources of an import and its settings.
type Options struct {
	Sources []string // paths of files or directories, as the format requires
	Reading          // options of single formats

	// Binarize replaces every feature above 0 by 1, and every other feature by 0.
	Binarize bool
	// RowNormalize scales every feature row to the sum 1, after Binarize. Rows of zeros stay. A
	// negative feature is an error.
	RowNormalize bool
	// Symmetrize stores every edge in both directions, each once, and drops self-loops unless
	// SelfLoops is LoopsAdd. It is implied for formats of undirected graphs.
	Symmetrize bool
	// Dedupe stores equal edges once. Symmetrize implies it.
	Dedupe bool
	// SelfLoops is LoopsKeep; LoopsDrop, to drop edges from a node to itself; or LoopsAdd, to replace
	// them by one such edge for every node.
	SelfLoops string
	// Split is the split to draw if the source has none; nil: the format's default, if it has one.
	Split *Split
	// Relabel is the numbering of nodes: RelabelNone (as in the source), RelabelDegree or RelabelBFS;
	// see the package comment.
	Relabel string
	// DType is the element type of the dataset's features; "": float16 or bfloat16 if the source has it,
	// else float32.
	DType dtype.Type
	// Compress stores compressed features.
	Compress bool
	dataset.Resources
}

// ForPredict is the Reading.For of a dataset for prediction only.
const ForPredict = "predict"

// Values of Reading.Reverse and Options.SelfLoops.
const (
	ReverseAuto = "auto"
	ReverseYes  = "yes"
	ReverseNo   = "no"

	LoopsKeep = "keep"
	LoopsDrop = "drop"
	LoopsAdd  = "add"
)

// Values of Reading.LabelsAs.
const (
	LabelsAsClasses = "classes" // a node has the class of its only one
	LabelsAsMulti   = "multi"   // a node has any number of classes
)

// LabelsAs returns the values that --labels-as accepts.
func LabelsAs() []string { return []string{LabelsAsClasses, LabelsAsMulti} }

// Reverses returns the values that --add-reverse-edges accepts.
func Reverses() []string { return []string{ReverseAuto, ReverseYes, ReverseNo} }

// Loops returns the values that --self-loops accepts.
func Loops() []string { return []string{LoopsKeep, LoopsDrop, LoopsAdd} }

// EnsureDefaults sets the fields that are zero to their defaults.
func (o *Options) EnsureDefaults() {
	if o.Reverse == "" {
		o.Reverse = ReverseAuto
	}
	if o.SelfLoops == "" {
		o.SelfLoops = LoopsKeep
	}
	if o.Relabel == "" {
		o.Relabel = RelabelNone
	}
	o.Resources.EnsureDefaults()
}

// Validate returns an error of kind fault.ErrUsage that names the first flag with an invalid value, or
// nil.
func (o *Options) Validate() error {
	switch {
	case o.Edges == "" && (len(o.Sources) == 0 || o.Sources[0] == ""):
		return fault.New(fault.ErrUsage, "import: needs a source, or --edges")
	case o.For != "" && o.For != ForPredict:
		return fault.New(fault.ErrUsage, "--for %s: known is %s; without --for, a dataset is made for training", o.For, ForPredict)
	case o.For != "" && o.Split != nil:
		return fault.New(fault.ErrUsage, "--split %s: a dataset --for %s has no splits", o.Split.Parts, o.For)
	case o.For != "" && (o.LabelFile != "" || len(o.SplitFiles) > 0):
		return fault.New(fault.ErrUsage, "--labels and --split-files: a dataset --for %s has no labels and splits", o.For)
	case o.For != "" && o.LabelsAs != "":
		return fault.New(fault.ErrUsage, "--labels-as %s: a dataset --for %s has no labels", o.LabelsAs, o.For)
	case o.DType != "" && !dataset.FeatureType(o.DType):
		return fault.New(fault.ErrUsage, "--dtype %s: features are float32, float16 or bfloat16", o.DType)
	case !slices.Contains(Reverses(), o.Reverse):
		return fault.New(fault.ErrUsage, "--add-reverse-edges %s is not one of %s", o.Reverse, strings.Join(Reverses(), ", "))
	case o.LabelsAs != "" && !slices.Contains(LabelsAs(), o.LabelsAs):
		return fault.New(fault.ErrUsage, "--labels-as %s is not one of %s", o.LabelsAs, strings.Join(LabelsAs(), ", "))
	case o.SplitIndex < 0:
		return fault.New(fault.ErrUsage, "--split-index %d: columns are counted from 0", o.SplitIndex)
	case !slices.Contains(Loops(), o.SelfLoops):
		return fault.New(fault.ErrUsage, "--self-loops %s is not one of %s", o.SelfLoops, strings.Join(Loops(), ", "))
	case len(o.Featureless) > 0 && !o.Typed:
		return fault.New(fault.ErrUsage, "--without-features %s: only with --typed do features belong to types", strings.Join(o.Featureless, ","))
	case o.Fill != "" && o.Fill != dataset.FillMean:
		return fault.New(fault.ErrUsage, "--fill %s: known is %s", o.Fill, dataset.FillMean)
	case o.Fill != "" && !o.Typed:
		return fault.New(fault.ErrUsage, "--fill %s: only with --typed are there node types without features", o.Fill)
	case o.Typed && o.relabels():
		return fault.New(fault.ErrUsage, "--relabel %s: with --typed nodes keep the order that they have in their type", o.Relabel)
	case o.Typed && o.SelfLoops == LoopsAdd:
		return fault.New(fault.ErrUsage, "--self-loops %s: with --typed there is no relation that has a loop at every node", o.SelfLoops)
	case !slices.Contains(Relabels(), o.Relabel):
		return fault.New(fault.ErrUsage, "--relabel %s is not one of %s", o.Relabel, strings.Join(Relabels(), ", "))
	}
	if o.Split != nil {
		if _, err := o.Split.shares(); err != nil {
			return err
		}
	}
	return o.Resources.Validate()
}

// check returns an error of kind fault.ErrUsage for a flag that the format does not take.
func (f *Format) check(r *Reading) error {
	for _, name := range r.given() {
		if !slices.Contains(f.Takes, name) {
			return fault.New(fault.ErrUsage, "--%s: the format %s does not take this flag", name, f.Name)
		}
	}
	return nil
}

// One returns the only element of sources, or an error of kind fault.ErrUsage if there is not exactly
// one.
func One(sources []string) (string, error) {
	if len(sources) != 1 {
		return "", fault.New(fault.ErrUsage, "the format takes one source, not %d (%s)", len(sources), strings.Join(sources, ", "))
	}
	return sources[0], nil
}

// given lists the options of single formats that were given, by their flags' names.
func (r *Reading) given() []string {
	var names []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"typed", r.Typed},
		{"without-features", len(r.Featureless) > 0},
		{"task", r.Task != ""},
		{"feature", len(r.Features) > 0},
		{"edges", r.Edges != ""},
		{"features", r.FeatureFile != ""},
		{"labels", r.LabelFile != ""},
		{"split-files", len(r.SplitFiles) > 0},
		{"nodes", r.Nodes != 0},
		{"node-ids", r.NodeIDs != ""},
		{"edge-columns", len(r.EdgeColumns) > 0},
		{"feature-columns", len(r.FeatureColumns) > 0},
		{"drop", len(r.Drop) > 0},
		{"label-column", r.LabelColumn != ""},
		{"split-column", r.SplitColumn != ""},
		{"id-column", r.IDColumn != ""},
		{"labels-as", r.LabelsAs != ""},
		{"split-index", r.SplitIndex != 0},
	} {
		if f.set {
			names = append(names, f.name)
		}
	}
	return names
}

// Agrees returns nil if Import would begin, resume, or find finished the dataset out, and else the
// error that Import would return because of existing files. It opens the source but does not read its
// content, which takes half as long as an import, and assumes that the content has not changed. For a
// source with node names it compares nothing. It changes nothing.
func Agrees(ctx context.Context, fsys vfs.FS, out string, f Format, o Options) (err error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return err
	}
	for _, name := range o.Sources {
		if _, err := StatFile(fsys, name); err != nil {
			return err
		}
	}
	was, ok := stage.Made(fsys, out)
	if !ok || o.mayName() {
		return nil
	}
	im := &importing{format: f, o: o, fs: vfs.ReadOnly(fsys), rep: progress.Discard}
	defer func() { err = errors.Join(err, im.closeSource()) }()
	if err := im.open(out); err != nil {
		return err
	}
	var made importParams
	if raw, ok := was.Params.(json.RawMessage); ok {
		_ = json.Unmarshal(raw, &made) // a dataset that is not from an import differs in other parameters
	}
	return dataset.Agrees(ctx, fsys, out, im.params(made.Content), im.form(), o.Force)
}
