// Package importer makes datasets of graphs in other formats, in bounded memory: edges are sorted on
// disk, features are streamed.
//
// A format is a package below; its Format opens sources as a Source. Import is the stage that reads a
// Source and writes a dataset; it knows no format. Package importer/all lists the formats, and finds
// out which one a source has.
//
// # Numbers of nodes
//
// Import can number nodes otherwise than the source does, so that rows that are read together lie near
// each other. Features, labels, splits and edges follow, and the dataset has the source's numbers as
// original ids.
//
//	degree  by falling in-degree, as edges are stored; of equal ones the lower number first
//	bfs     breadth first, edges taken in both directions, self-loops left out. Connected components
//	        are searched in the order of their lowest numbers, each from its node with the most
//	        neighbours, the lowest of several; a node's neighbours are visited in the order of
//	        their numbers
//
// The source is read once more for that, before anything else is written. It takes 8 bytes of memory a
// node, and for bfs a bit, beside a sort of the edges on disk (degree needs none unless equal edges are
// stored once); 4 bytes a node while labels, edges and features are written. For bfs the neighbours of
// all nodes lie in a scratch file that is mapped, which the kernel reads page by page where it does not
// fit in memory. A budget that is too small is refused before the work. Feature rows are put in order
// through a scratch file, as large as they are: package dataset/internal/extsort.
//
// Splits are drawn by the source's numbers: an import that renumbers the nodes has the same nodes in
// each split.
package importer

import (
	"context"

	"diskgnn/internal/dtype"
	"diskgnn/internal/vfs"
)

// Format is one of the formats that graphs are imported from.
type Format struct {
	Name string // as --format takes it
	// What describes a source of the format in a few words, for help and messages.
	What string
	// Takes lists the names of the options of Reading that the format knows; others are refused.
	Takes []string
	// Detect says by which sign the sources are seen to be of this format, or "" if they are
	// not: it looks at names, and at no more than the first bytes of files. Nil: the format is
	// never found, only named.
	Detect func(fsys vfs.FS, sources []string) string
	// Open reads the sizes of the graph. Errors of the source are of the kind fault.ErrInput and name
	// the file.
	Open func(fsys vfs.FS, sources []string, o *Reading) (Source, error)
}

// Reading has the options that single formats know, as they were given; "" and nil: not given.
type Reading struct {
	Task     string   // of several in the source, by name
	Features []string // of several in the source, by name; they are concatenated
	// Of raw arrays and tables: files, in the forms of package raw.
	Edges, FeatureFile, LabelFile string
	SplitFiles                    []string // to train on, to validate and to test with
	Nodes                         int64    // where no file says how many
	NodeIDs                       string   // where nodes have names: a file of them, or raw.ByEdges
	// Scratch is the prefix of the names of files that a source of nodes with names makes, and
	// ScratchMemory bounds its memory while it is opened. Import gives both.
	Scratch       string
	ScratchMemory int64
	Seed          uint64 // of features and labels that are drawn
	// For is the use of the dataset: "", to train on, or ForPredict. The latter leaves out labels and
	// splits: a source may lack them then, and its Labels is not called. All formats take it.
	For string
	// Reverse stores the reverse of every edge too, as often as the edge is there: ReverseYes,
	// ReverseNo, or as the format's own library does, ReverseAuto. All formats take it.
	Reverse string
}

// Labelled tells whether the dataset has labels and splits.
func (r *Reading) Labelled() bool { return r.For == "" }

// AddsReverse tells whether reverses are added; auto is the behaviour of the format's own library.
func (r *Reading) AddsReverse(auto bool) bool {
	return r.Reverse == ReverseYes || r.Reverse != ReverseNo && auto
}

// Source is a graph in another format. Opening it has read its sizes. Its methods are called one at a
// time, but for Edges: while it goes on, Labels and then Features are called. Their errors name the
// file. A Source that is an io.Closer is closed in the end.
type Source interface {
	Shape() Shape
	// Files lists every file that the graph is read from, in a fixed order.
	Files() []string
	// Labels puts the classes and splits into l.
	Labels(ctx context.Context, l *Labelling) error
	// CountEdges returns how many edges the source has at most, given the lines of its
	// files: exactly, but for empty lines.
	CountEdges(lines map[string]int64) int64
	// Edges calls add for all edges as they are stored, some at a time: edge i
	// points from src[i] to dst[i], which are nodes.
	Edges(ctx context.Context, add func(dst, src []int64) error) error
	// Features returns a stream of the rows from first on.
	Features(first int64) (RowStream, error)
}

// Glancer is a Source that may hold the sources of all edges, compressed, before the destination
// of the first: it would be unpacked by half before Edges yields an edge.
type Glancer interface {
	// Glance checks the sources of the first edges alone, or reports false: Edges does as well.
	Glance() (bool, error)
}

// Namer is a Source that may have names for its nodes.
type Namer interface {
	// Names calls emit for the names of all nodes in their order. They are valid during the call, have
	// the form that dataset.CheckName says, and no two are equal.
	Names(ctx context.Context, emit func(name []byte) error) error
}

// Shape has the sizes of a source, known before its content is read.
type Shape struct {
	Nodes      int64
	Edges      int64 // as stored; of files of text not before their lines are counted
	Dim        int
	DType      dtype.Type // what the features have, or float32
	Classes    int        // 0: as many as the labels have
	Multi      bool       // nodes have any number of the classes
	Undirected bool       // edges have no direction
	Features   string     // where the features are, for messages
	// AddReverse says that the format's own library adds the reverse of every edge.
	AddReverse bool
	// NoSplit says that the source has no splits; Split is then the one that is drawn unless
	// another is given, or nil if one must be.
	NoSplit bool
	Split   *Split
	// NameBytes is how long the names of nodes are in all; 0: they have none. The source is then a
	// Namer.
	NameBytes int64
	// Held is the memory of the source beside the streams, in bytes.
	Held int64
	// HeldMost names the largest part of these bytes, and the remedy where there is not enough memory.
	HeldMost string
	// Notes tell a user how the source is read.
	Notes      []string
	unlabelled bool // the dataset gets no labels
	// Reading has the user's choices about the source, by the options' names, if they decide the
	// content: it becomes part of the dataset's content parameters.
	Reading map[string]string
}

// RowStream yields feature rows one after the other.
type RowStream interface {
	// Next fills values with the following whole rows.
	Next(values []float32) error
	Close() error
}

// Chunk is the number of elements of an array that are looked at at a time.
const Chunk = 1 << 14
