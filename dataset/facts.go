package dataset

import (
	"cmp"
	"math"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// Format is the directory format that this package reads and writes, CompressedFormat the
// version of it with compressed features, and IDsFormat the one
// in which nodes have ids of their own (forms lists all).
var (
	Format           = Form{}.Format()
	CompressedFormat = Form{Compressed: true}.Format()
	IDsFormat        = Form{OriginalIDs: true}.Format()
)

// kind names a directory of the format in messages.
const kind = "dataset"

// Granule is the number of bytes that one checksum of a data file covers.
const Granule = 1 << 20

// Names of the data files. The features are in one of two.
const (
	IndptrFile             = "indptr.bin"
	IndicesFile            = "indices.bin"
	FeaturesFile           = "features.bin"
	CompressedFeaturesFile = "features.zst"
	LabelsFile             = "labels.bin"
	TargetsFile            = "targets.bin" // of multi-label datasets
	// Files of datasets with original ids: numbers, or names.
	NodeIDsFile     = "node_ids.bin"
	NameOffsetsFile = "name_offsets.bin"
	NamesFile       = "names.bin"
)

// Names of the splits. Split NAME lies in the file NAME.bin.
const (
	Train = "train"
	Valid = "valid"
	Test  = "test"
)

const (
	sumsSuffix   = ".sums"
	framesSuffix = ".frames"
	Zstd         = "zstd"
	nodeIDBytes  = 4
)

// Values of Facts.LabelKind, and the metric that suits each.
const (
	labelClass    = "class"
	labelMultiHot = "multi-hot"
	// NoLabels is the Facts.LabelKind of a dataset without labels and splits.
	NoLabels = "none"

	classMetric    = "accuracy"
	multiHotMetric = "f1"
)

// SplitNames lists the splits: Train, Valid, Test. It must not be changed.
var SplitNames = []string{Train, Valid, Test}

// SplitFile returns the name of the data file of the split with the given name.
func SplitFile(name string) string { return name + ".bin" }

// dataFiles lists the files of a dataset, those that are checked first in front.
func (f *Facts) dataFiles() []string {
	files := []string{IndptrFile, IndicesFile}
	if f.Labelled() {
		files = append(files, LabelsFile, SplitFile(Train), SplitFile(Valid), SplitFile(Test))
	}
	files = append(files, f.FeaturesFile())
	if f.MultiLabel() {
		files = append(files, TargetsFile)
	}
	if f.ClassNameBytes > 0 {
		files = append(files, ClassNamesFile)
	}
	return append(files, f.idFiles()...)
}

// FeaturesFile returns the name of the data file that holds the features.
func (f *Facts) FeaturesFile() string {
	if f.Compression != "" {
		return CompressedFeaturesFile
	}
	return FeaturesFile
}

// LabelKind returns the Facts.LabelKind of labelled datasets: "multi-hot" if multi is set (a node has
// any number of classes), else "class" (a node has one).
func LabelKind(multi bool) string {
	if multi {
		return labelMultiHot
	}
	return labelClass
}

// tableOf returns the name of the table that covers a data file with checksums.
func tableOf(name string) string {
	if name == CompressedFeaturesFile {
		return name + framesSuffix
	}
	return name + sumsSuffix
}

// Facts are the counts and types that describe a dataset's arrays.
type Facts struct {
	Nodes      int64      `json:"nodes"`
	Edges      int64      `json:"edges"` // directed, as stored
	Dim        int        `json:"dim"`   // elements of a feature row
	DType      dtype.Type `json:"dtype"`
	Classes    int        `json:"classes"`
	LabelKind  string     `json:"label_kind"`
	Metric     string     `json:"metric"`
	Train      int64      `json:"train"`
	Valid      int64      `json:"valid"`
	Test       int64      `json:"test"`
	Unlabelled int64      `json:"unlabelled"`
	// Compression is the compression of the features: "zstd", or empty for none.
	Compression string `json:"compression,omitempty"`
	// OriginalIDs is the kind of the nodes' original ids: IDNumbers; IDNames, with names of NameBytes
	// bytes in all; or "" if the dataset has none.
	OriginalIDs string `json:"original_ids,omitempty"`
	NameBytes   int64  `json:"name_bytes,omitempty"`
	// ClassNameBytes is the size of the names of the classes; 0: they have none.
	ClassNameBytes int64 `json:"class_name_bytes,omitempty"`

	NodeIDBytes int `json:"node_id_bytes"`

	// Types are the node types and relations of a typed graph; nil: there is one of each. Nodes of the type
	// LabelledType have the labels and splits. Needs lists the properties that a reader of the dataset must know: see the
	// package comment.
	Types        *graph.Types `json:"types,omitempty"`
	LabelledType int          `json:"labelled_type,omitempty"`
	Needs        []string     `json:"needs,omitempty"`

	// Reserved for later versions: a dataset that sets one of them is an error of kind
	// fault.ErrVersion.
	NodeTypes []string `json:"node_types,omitempty"`
	EdgeTypes []string `json:"edge_types,omitempty"`
	EdgeDim   int      `json:"edge_dim,omitempty"`
}

// Labelled reports whether the dataset has labels and splits. A dataset imported for prediction only
// has none.
func (f *Facts) Labelled() bool { return f.LabelKind != NoLabels }

// RowBytes returns the size of one feature row in bytes.
func (f *Facts) RowBytes() int { return f.Dim * f.DType.Size() }

// split returns the size of a split, or false if there is none of that name.
func (f *Facts) split(name string) (int64, bool) {
	switch name {
	case Train:
		return f.Train, true
	case Valid:
		return f.Valid, true
	case Test:
		return f.Test, true
	}
	return 0, false
}

// size returns the bytes that a data file must have, or -1 if the facts do not determine it: the
// size of compressed features depends on their values.
func (f *Facts) size(name string) int64 {
	switch name {
	case IndptrFile:
		return (f.Rows() + 1) * 8
	case IndicesFile:
		return f.Edges * nodeIDBytes
	case FeaturesFile:
		return f.FeatureRows() * int64(f.RowBytes())
	case LabelsFile:
		return f.Nodes * 4
	case TargetsFile:
		return f.Nodes * int64(f.TargetBytes())
	case NodeIDsFile:
		return f.Nodes * 8
	case NameOffsetsFile:
		return (f.Nodes + 1) * 8
	case NamesFile:
		return f.NameBytes
	case ClassNamesFile:
		return f.ClassNameBytes
	case SplitFile(Train):
		return f.Train * nodeIDBytes
	case SplitFile(Valid):
		return f.Valid * nodeIDBytes
	case SplitFile(Test):
		return f.Test * nodeIDBytes
	}
	return -1
}

// tableSize returns the bytes of the table that covers a data file.
func (f *Facts) tableSize(name string) int64 {
	if name == CompressedFeaturesFile {
		return framesBytes(f.size(FeaturesFile))
	}
	return sumsBytes(f.size(name))
}

// sumsBytes returns the size of a table of checksums for a file of the given size.
func sumsBytes(size int64) int64 { return 8 + 16 + 4*((size+Granule-1)/Granule) + 4 }

// check returns an error for facts that are impossible in this version, so that later code can compute
// with them.
func (f *Facts) check() error {
	if f.LabelKind != labelClass && f.LabelKind != labelMultiHot && f.Labelled() || f.NodeIDBytes != nodeIDBytes || len(f.NodeTypes)+len(f.EdgeTypes) > 0 || f.EdgeDim != 0 {
		return fault.New(fault.ErrVersion, "it needs a newer program: %.20q labels, %d-byte node ids, %d node types, %d edge types, edge features of %d elements",
			f.LabelKind, f.NodeIDBytes, len(f.NodeTypes), len(f.EdgeTypes), f.EdgeDim)
	}
	if f.Compression != "" && f.Compression != Zstd {
		return fault.New(fault.ErrVersion, "it needs a newer program: its features are compressed by %.20q", f.Compression)
	}
	if f.Labelled() && f.Metric != classMetric && f.Metric != multiHotMetric {
		return fault.New(fault.ErrVersion, "it needs a newer program: its metric is %.20q", f.Metric)
	}
	if err := f.checkTypes(); err != nil {
		return err
	}
	parts := []int64{f.Train, f.Valid, f.Test, f.Unlabelled}
	switch {
	case f.Nodes < 1 || f.Nodes > graph.MaxNodes:
		return fault.New(fault.ErrCorrupt, "it has %d nodes instead of 1 to %d", f.Nodes, int64(graph.MaxNodes))
	case f.Edges < 0 || f.Edges > MaxFile/nodeIDBytes:
		return fault.New(fault.ErrCorrupt, "it has %d edges instead of 0 to %d", f.Edges, int64(MaxFile/nodeIDBytes))
	case f.Dim < 1 || f.Dim > MaxDim:
		return fault.New(fault.ErrCorrupt, "its feature rows have %d elements instead of 1 to %d", f.Dim, MaxDim)
	case !FeatureType(f.DType):
		return fault.New(fault.ErrCorrupt, "its features have the type %.20q, not float32, float16 or bfloat16", f.DType)
	case !f.Labelled() && (f.Classes != 0 || f.Metric != "" || f.Train+f.Valid+f.Test != 0 || f.Unlabelled != f.Nodes):
		return fault.New(fault.ErrCorrupt, "it has no labels, but %d classes, the metric %.20q and splits of %d, %d and %d nodes", f.Classes, f.Metric, f.Train, f.Valid, f.Test)
	case f.Labelled() && f.Classes < 1 || f.Classes > math.MaxInt32:
		return fault.New(fault.ErrCorrupt, "it has %d classes instead of 1 to %d", f.Classes, math.MaxInt32)
	case f.MultiLabel() && f.Classes > MaxTargets:
		return fault.New(fault.ErrCorrupt, "its multi-label nodes have %d classes, more than %d", f.Classes, MaxTargets)
	case max(f.size(FeaturesFile), f.size(TargetsFile)) > MaxFile:
		return fault.New(fault.ErrCorrupt, "its features (%d nodes of %d × %s) or targets (%d classes) are larger than %d bytes", f.Nodes, f.Dim, f.DType, f.Classes, int64(MaxFile))
	case slices.Min(parts) < 0 || slices.Max(parts) > f.Nodes || f.Train+f.Valid+f.Test+f.Unlabelled > f.Nodes:
		return fault.New(fault.ErrCorrupt, "it has %d training, %d validation, %d test and %d unlabelled nodes, which is impossible among %d nodes", f.Train, f.Valid, f.Test, f.Unlabelled, f.Nodes)
	}
	return cmp.Or(f.checkClassNames(), f.checkIDs())
}

const (
	// MaxDim bounds the elements of a row, far above any use, so that sizes cannot
	// overflow.
	MaxDim = 1 << 24
	// MaxFile bounds the bytes of a data file, so that its table of checksums, which is read whole,
	// has a few GiB at most.
	MaxFile = 1 << 50
)

// FeatureType reports whether t is a type that features may have: float32, float16 or bfloat16.
func FeatureType(t dtype.Type) bool {
	return t == dtype.Float32 || t == dtype.Float16 || t == dtype.BFloat16
}

// CheckNodes returns an error of kind fault.ErrInput if a graph of n nodes has more than 32-bit node
// ids can number. The message begins with the string argument, such as a file name.
func CheckNodes(what string, n int64) error {
	if n > graph.MaxNodes {
		return fault.New(fault.ErrInput, "%s: %d nodes are too many: this version has 32-bit node ids, for at most %d nodes", what, n, int64(graph.MaxNodes))
	}
	return nil
}
