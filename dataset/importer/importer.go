// Package importer makes datasets from graphs in other formats, in bounded memory: edges are sorted on
// disk, features are streamed.
//
// A format is a package below; its Format opens sources as a Source. Import reads a Source and writes
// a dataset; it does not depend on any format. Package importer/all lists the formats, and recognises
// the format of a source.
//
// # Numbers of nodes
//
// Import can renumber the nodes, so that rows that are read together are near each other. It changes
// features, labels, splits and edges accordingly, and the dataset has the source's numbers as original
// ids.
//
//	degree  by falling in-degree, as edges are stored; of equal ones the lower number first
//	bfs     breadth first, edges taken in both directions, self-loops left out. Connected components
//	        are searched in the order of their lowest numbers, each from its node with the most
//	        neighbours, the lowest of several; a node's neighbours are visited in the order of
//	        their numbers
//
// To find the order, the source is read once more, before anything else is written. That takes 8 bytes
// of memory for each node (and a bit for bfs), beside a sort of the edges on disk, which degree needs
// only if equal edges are stored once; later 4 bytes for each node while labels, edges and features
// are written. For bfs, the neighbours of all nodes are in a mapped scratch file, of which the kernel
// keeps pages in memory as it has room. A budget that is too small is an error before the work begins.
// Feature rows are ordered with a scratch file of their size: see package dataset/internal/extsort.
//
// Splits are drawn by the numbers in the source: renumbering does not change the nodes of a split.
//
// # Types
//
// With Reading.Typed the dataset has the types and relations of the source. A reverse that is added is a
// relation: of writes, from authors to papers, the relation rev_writes from papers to authors, unless the
// source has one of that name between these types, or the relation is such a reverse of another one. If edges
// are stored in both directions (Options.Symmetrize), a relation between nodes of one type gets the reverses
// itself.
//
// With Reading.Fill, types without features get features: package dataset/internal/fill defines them. They follow
// the types with features in the order in which they are filled, and all types must be joined with one that has
// features. Rows are filled after the options for features were applied to the source's rows. No label is read for
// it. A source can hold its labels a second time, as features or as a relation; formats that can see it refuse
// that.
package importer

import (
	"context"

	"diskgnn/graph"
	"diskgnn/internal/dtype"
	"diskgnn/internal/vfs"
)

// Format is a format of sources.
type Format struct {
	Name string // the value of --format
	// What describes a source of the format in a few words, for help and messages.
	What string
	// Takes lists the flags, without the dashes, of the fields of Reading that the format uses. Others
	// are errors. A format that takes labels-as leaves it open whether labels with a column for each
	// class are multi-label, or classes in one-hot form; for others they are multi-label.
	Takes []string
	// Detect returns the property by which the sources are recognised as this format, for messages, or
	// "" if they are not. It looks at names, and at the first bytes of files. If it is nil, the format
	// must be named.
	Detect func(fsys vfs.FS, sources []string) string
	// Open opens the sources and reads their sizes. Errors of the source are of kind fault.ErrInput
	// and name the file.
	Open func(fsys vfs.FS, sources []string, o *Reading) (Source, error)
}

// Reading has the options that only some formats use. The zero value of a field means that the flag
// was not given.
type Reading struct {
	Task     string   // name of the task or type of nodes to import, if the source has several
	Features []string // names of the features to import, side by side, if the source has several
	// Files of raw arrays and tables; package raw describes their forms.
	Edges, FeatureFile, LabelFile string
	SplitFiles                    []string // training, validation and test nodes
	Nodes                         int64    // number of nodes, if no file determines it
	NodeIDs                       string   // file with the names of the nodes, or raw.ByEdges
	// Columns of tables, each by its name or its number, counted from 0. Of FeatureColumns and Drop,
	// each is a name with * and ? as in path.Match, a number, or a range of numbers such as 3-10.
	EdgeColumns    []string // of Edges: the source and the destination
	FeatureColumns []string // of FeatureFile; none: all columns that are nothing else
	Drop           []string // of FeatureFile, not read
	LabelColumn    string   // of LabelFile or, without it, of FeatureFile
	SplitColumn    string   // of FeatureFile or LabelFile: the set of each node
	IDColumn       string   // of FeatureFile and LabelFile: the names or numbers of the nodes
	// LabelsAs is the meaning of labels with several columns of ones and zeros: LabelsAsClasses,
	// LabelsAsMulti or "", with which rows that all have a single one are an error.
	LabelsAs string
	// SplitIndex is the column of masks with several columns, each a division into sets.
	SplitIndex int
	// Scratch is the prefix of the paths of scratch files that opening a source with node names makes;
	// ScratchMemory is the limit in bytes of its memory meanwhile. Import sets both.
	Scratch       string
	ScratchMemory int64
	Seed          uint64 // for random features and labels
	// For is "" for a dataset to train on, or ForPredict. With ForPredict the dataset gets no labels
	// and splits: the source may lack them, and Source.Labels is not called. All formats take it.
	For string
	// Typed keeps the types of nodes and edges: Shape.Types is set. Else all nodes become nodes of one type.
	Typed bool
	// Featureless has the node types that get no features, with Typed.
	Featureless []string
	// Fill is dataset.FillMean to compute features for node types without features, with Typed, or "": their
	// nodes share a row of zeros. All formats take it.
	Fill string
	// Reverse is ReverseYes to store the reverse of every edge too, ReverseNo not to, or ReverseAuto
	// to follow the format's own library. Parallel edges get parallel reverses. All formats take
	// it.
	Reverse string
}

// Labelled reports whether the dataset gets labels and splits.
func (r *Reading) Labelled() bool { return r.For == "" }

// mayName reports whether nodes may have names, which are numbered when the source is opened.
func (r *Reading) mayName() bool { return r.NodeIDs != "" || r.IDColumn != "" }

// AddsReverse reports whether the reverses of edges are added. auto is the answer for ReverseAuto.
func (r *Reading) AddsReverse(auto bool) bool {
	return r.Reverse == ReverseYes || r.Reverse != ReverseNo && auto
}

// Source is an open graph in another format. Its methods are called one at a time, with one exception:
// while Edges runs, another goroutine calls Labels and then Features. Errors name the file. If a
// Source is an io.Closer, it is closed at the end.
type Source interface {
	Shape() Shape
	// Files returns the paths of all files that are read for the graph, always in the same order.
	Files() []string
	// Labels gives the labels and the splits of all nodes to l.
	Labels(ctx context.Context, l *Labelling) error
	// CountEdges returns an upper bound of the number of edges, given the number of lines of each
	// file. It is exact if no line is empty.
	CountEdges(lines map[string]int64) int64
	// Edges calls add for all edges as they are stored, in several pieces: edge i of a piece is from
	// node src[i] to node dst[i]. It checks that both are nodes. The slices are valid during the call.
	// Edges may be called several times.
	Edges(ctx context.Context, add func(dst, src []int64) error) error
	// Features returns a stream of the feature rows of the nodes from first on. The caller closes it.
	Features(first int64) (RowStream, error)
}

// TypedSource is implemented by a Source that can have Shape.Types.
type TypedSource interface {
	// Relation is Edges for one relation, by its place in Shape.Types. Nodes have the numbers that they have
	// among the nodes of all types.
	Relation(ctx context.Context, relation int, add func(dst, src []int64) error) error
}

// Glancer is implemented by a Source that may have all source nodes of its edges, compressed, before
// the first destination. Edges would then unpack half of the file before it yields an edge.
type Glancer interface {
	// Glance checks the source nodes of the first edges only, so that the wrong file is found early.
	// It returns false if it does nothing, since Edges checks the first edges as early.
	Glance() (bool, error)
}

// Namer is implemented by a Source with names of nodes: Shape.NameBytes is not 0.
type Namer interface {
	// Names calls emit for the name of each node, in the order of the nodes. A name is valid during
	// the call. All names are different and accepted by dataset.CheckName.
	Names(ctx context.Context, emit func(name []byte) error) error
}

// Shape has the sizes and properties of a source that are known after opening it.
type Shape struct {
	Nodes      int64
	Edges      int64 // as stored; not known for text files until their lines are counted
	Dim        int
	DType      dtype.Type // float16 or bfloat16 if the features are of that type, else float32
	Classes    int        // number of classes; 0: the highest label plus one
	ClassNames []string   // names of the classes 0, 1, …, if they have some; Classes is their number
	Multi      bool       // multi-label: labels have a column for each class; but see Reading.LabelsAs
	Undirected bool       // edges have no direction
	Features   string     // name of the features or their files, for messages
	// AddReverse is set if the format's own library adds the reverse of every edge: see
	// Reading.Reverse.
	AddReverse bool
	// NoSplit is set if the source has no splits. Split is the split to draw if the user gives none;
	// if it is nil, the user must give one.
	NoSplit bool
	Split   *Split
	// OtherSets is text for the error of a source without splits: the parts that look like sets of nodes
	// and are not read; "" if there are none.
	OtherSets string
	// NameBytes is the length in bytes of all names of nodes together; 0: nodes have no names. If it
	// is not 0, the source is a Namer.
	NameBytes int64
	// Held is the memory in bytes that the source holds, beside buffers of a fixed size.
	Held int64
	// HeldMost is text for the message that memory is short: the largest part of Held, and the remedy.
	HeldMost string
	// Notes are messages to the user about the way in which the source is read.
	Notes      []string
	unlabelled bool // the dataset gets no labels
	oneHot     bool // Source.Labels gives rows with a column for each class, but a node has one class
	// Types are the types of nodes, those with features first, and the relations, in any order; nil if
	// nodes are of one type. If it is set, the source is a TypedSource, and its Features are of the nodes
	// of types with features. Import checks Types.
	Types        *graph.Types
	LabelledType int // the place in Types.Nodes of the type with labels
	// Reading has the choices within the source that decide the dataset's content, by name. It becomes
	// one of the content parameters.
	Reading map[string]string
}

// RowStream is a stream of feature rows.
type RowStream interface {
	// Next sets values to the next feature rows, row-major. The length of values is a multiple of the
	// row length.
	Next(values []float32) error
	Close() error
}

// Chunk is the number of array elements that importers read at a time.
const Chunk = 1 << 14
