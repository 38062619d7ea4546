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

// Options are the source of an import, and its settings.
type Options struct {
	Sources []string // files or directories, as the format has it
	Reading          // what single formats know

	// Binarize makes every feature above zero one, and every other zero.
	Binarize bool
	// RowNormalize scales every feature row to the sum 1; rows of zeros stay. It
	// comes after Binarize, and needs features that are not negative.
	RowNormalize bool
	// Symmetrize stores every edge in both directions, once, and no self-loops.
	// Formats of undirected graphs imply it.
	Symmetrize bool
	// Dedupe stores equal edges once. Symmetrize implies it.
	Dedupe bool
	// SelfLoops is the treatment of edges from a node to itself: LoopsKeep, LoopsDrop, or LoopsAdd,
	// which gives every node one. Symmetrize drops them unless LoopsAdd is given.
	SelfLoops string
	// Split is drawn where the source has none.
	Split *Split
	// Relabel says how nodes are numbered: RelabelNone, as in the source, RelabelDegree or
	// RelabelBFS.
	Relabel string
	// DType is the element type of the features; empty: float16 if the source has that, else float32.
	DType dtype.Type
	// Compress stores the features compressed.
	Compress bool
	dataset.Resources
}

// ForPredict is the value of Reading.For for a dataset to predict on.
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

// Reverses returns the values that --add-reverse-edges accepts.
func Reverses() []string { return []string{ReverseAuto, ReverseYes, ReverseNo} }

// Loops returns the values that --self-loops accepts.
func Loops() []string { return []string{LoopsKeep, LoopsDrop, LoopsAdd} }

// EnsureDefaults fills in the fields that are zero.
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

// Validate refuses impossible values, naming the flag.
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
	case o.DType != "" && !dataset.FeatureType(o.DType):
		return fault.New(fault.ErrUsage, "--dtype %s: features are float32, float16 or bfloat16", o.DType)
	case !slices.Contains(Reverses(), o.Reverse):
		return fault.New(fault.ErrUsage, "--add-reverse-edges %s: known are %s", o.Reverse, strings.Join(Reverses(), ", "))
	case !slices.Contains(Loops(), o.SelfLoops):
		return fault.New(fault.ErrUsage, "--self-loops %s: known are %s", o.SelfLoops, strings.Join(Loops(), ", "))
	case !slices.Contains(Relabels(), o.Relabel):
		return fault.New(fault.ErrUsage, "--relabel %s: known are %s", o.Relabel, strings.Join(Relabels(), ", "))
	}
	if o.Split != nil {
		if _, err := o.Split.shares(); err != nil {
			return err
		}
	}
	return o.Resources.Validate()
}

// check refuses options that the format does not know.
func (f *Format) check(r *Reading) error {
	for _, name := range r.given() {
		if !slices.Contains(f.Takes, name) {
			return fault.New(fault.ErrUsage, "--%s: the format %s does not take this flag", name, f.Name)
		}
	}
	return nil
}

// One returns the only source of a format that takes one.
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
		{"task", r.Task != ""},
		{"feature", len(r.Features) > 0},
		{"edges", r.Edges != ""},
		{"features", r.FeatureFile != ""},
		{"labels", r.LabelFile != ""},
		{"split-files", len(r.SplitFiles) > 0},
		{"nodes", r.Nodes != 0},
		{"node-ids", r.NodeIDs != ""},
	} {
		if f.set {
			names = append(names, f.name)
		}
	}
	return names
}

// Agrees returns the error by which Import would refuse the existing files of the dataset out, nil
// where Import would make it, go on, or find it finished. It opens the source, but takes its content to
// be the imported one, since reading it is half of importing it. For a source with node names, which
// must be numbered to open it, nothing is compared. It changes nothing.
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
	if !ok || o.NodeIDs != "" {
		return nil
	}
	im := &importing{format: f, o: o, fs: vfs.ReadOnly(fsys), rep: progress.Discard}
	if err := im.open(out); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, im.closeSource()) }()
	var made importParams
	if raw, ok := was.Params.(json.RawMessage); ok {
		_ = json.Unmarshal(raw, &made) // what is not an import's differs in other parameters
	}
	return dataset.Agrees(ctx, fsys, out, im.params(made.Content), im.form(), o.Force)
}
