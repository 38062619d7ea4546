// Package tables makes importer.Sources of graphs that are tables: the edges, the features and the
// labels of all nodes, and sets of nodes. A format finds the tables in its files and says how each is
// opened. This package does the rest, in the same way for all formats: it compares the sizes of the
// tables, decides the meaning of labels and sets, and reads them as streams.
//
// # Sets
//
// A set of nodes is a mask or a list of node numbers. A mask has a row for each node, of booleans or of
// the numbers 0 and 1; other values are errors. A mask may have several columns, each a division of the
// nodes into sets: Reading.SplitIndex is the column that counts, and masks of one column hold for every
// division. A list has one column of integers. If a format does not say which of both a set is, it is a
// mask if it has booleans, several columns, or a row for each node with no value but 0 and 1; all
// others are lists.
//
// # Labels
//
// A column of labels has a class for each node, several columns are classes that a node may have any
// number of. Package importer's Labelling decides the meaning of the values.
package tables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/internal/fault"
)

// Takes lists the flags that sources of this package honour, for Format.Takes. A format that defines
// labels with several columns as multi-label takes split-index alone.
var Takes = []string{"labels-as", "split-index"}

// Table is a table in a source. The zero value stands for a table that the source lacks.
type Table struct {
	// Name is the table's name, for messages.
	Name string
	// Open opens the table at its first row. It is called once by New, and again for each reading, which
	// closes the Matrix. Its errors name the file; errors of the source are of kind fault.ErrInput.
	Open func() (matrix.Matrix, error)
}

// Edges are the edges of a graph.
type Edges struct {
	Name  string // for messages
	Count int64  // as they are stored
	// Open opens the edges at the first one, for each reading, which closes them. The ends need not be
	// checked: this package does it. Errors are as Table's.
	Open func() (stream.Pairs, error)
}

// Kind is the meaning of the values of a Set.
type Kind int

// The kinds of sets.
const (
	AnyKind Kind = iota // the values tell: see the package's comment
	Mask
	List // of node numbers
)

// Set is a set of nodes.
type Set struct {
	Table
	Kind Kind
}

// Graph is a graph made of tables.
type Graph struct {
	// Shape has the properties that the tables do not have: Held, Notes, Reading, Undirected, AddReverse,
	// Split, OtherSets and, unless it is the number of rows of the features, Nodes. New sets the others.
	Shape    importer.Shape
	Files    []string // see importer.Source
	Edges    Edges
	Features Features
	Labels   Table
	// Sets are the training, validation and test nodes. A graph without a training set has no others.
	Sets [3]Set
}

// source is a graph as an importer.Source.
type source struct {
	g     Graph
	sh    importer.Shape
	index int // of the division into sets
}

// New looks at the tables of a graph and returns it as a source. Labels and sets are not opened if o
// says that the dataset gets none. It returns an error of kind fault.ErrInput for tables that do not
// fit together, and fault.ErrUsage for an option that does not fit them.
func New(g Graph, o *importer.Reading) (importer.Source, error) {
	s := &source{g: g, sh: g.Shape, index: o.SplitIndex}
	s.sh.Notes, s.sh.Reading = slices.Clone(g.Shape.Notes), maps.Clone(g.Shape.Reading)
	if err := g.Features.LookAt(&s.sh); err != nil {
		return nil, err
	}
	s.sh.Edges = importer.AddEdges(0, g.Edges.Count)
	s.sh.NoSplit = g.Sets[0].Open == nil || !o.Labelled()
	if !o.Labelled() {
		return s, nil
	}
	if err := g.Labels.LookAtLabels(&s.sh, s.sh.Nodes); err != nil {
		return nil, err
	}
	return s, lookAtSets(&s.sh, s.g.Sets, s.sh.Nodes, o)
}

func bad(format string, args ...any) error { return fault.New(fault.ErrInput, format, args...) }

// with calls do with the open table.
func (t Table) with(do func(matrix.Matrix) error) error {
	if t.Open == nil {
		return bad("%s is missing", t.Name)
	}
	return importer.With(t.Open, do)
}

// LookAtLabels sets the fields of sh that labels determine. They must have a row for each of the given
// number of nodes.
func (t Table) LookAtLabels(sh *importer.Shape, nodes int64) error {
	return t.with(func(m matrix.Matrix) error {
		if err := sameNodes(m, m.Rows(), nodes); m.Rows() >= 0 && err != nil {
			return err
		}
		if sh.Multi = m.Columns() > 1; sh.Multi {
			sh.Classes = m.Columns()
		}
		return nil
	})
}

// ReadLabels gives the labels of the nodes of a range to l. multi is the Multi that LookAtLabels set.
func (t Table) ReadLabels(ctx context.Context, l *importer.Labelling, multi bool, of stream.Span) error {
	return t.with(func(m matrix.Matrix) (err error) {
		if err := sameNodes(m, m.Rows(), of.Count); m.Rows() >= 0 && err != nil {
			return err
		}
		rows := int64(0)
		next := func() error {
			if rows++; rows > of.Count {
				return bad("%s: there are labels of more nodes than %d", m.Name(), of.Count)
			}
			return nil
		}
		if multi {
			err = matrix.EachFloat(ctx, m, func(v int64, row []float32) error {
				if err := next(); err != nil {
					return err
				}
				return inTable(m, l.Row(of.First+v, row))
			})
		} else {
			err = matrix.EachDouble(ctx, m, func(v int64, row []float64) error {
				if err := next(); err != nil {
					return err
				}
				return inTable(m, l.Number(of.First+v, row[0]))
			})
		}
		if err == nil {
			err = sameNodes(m, rows, of.Count)
		}
		return err
	})
}

func sameNodes(m matrix.Matrix, rows, nodes int64) error {
	if rows != nodes {
		return bad("%s: there are labels of %d nodes instead of %d", m.Name(), rows, nodes)
	}
	return nil
}

// inTable puts the name of a table before an error.
func inTable(m matrix.Matrix, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", m.Name(), err)
	}
	return err
}

// lookAtSets looks at the sets of the given number of nodes, and sets the fields of sh that they determine.
func lookAtSets(sh *importer.Shape, sets [3]Set, nodes int64, o *importer.Reading) error {
	most := 0
	for i := range sets {
		t := &sets[i]
		if t.Open == nil {
			continue
		}
		if sh.NoSplit {
			return bad("%s is a set of nodes, but there is no training set", t.Name)
		}
		columns, err := t.LookAt(nodes, o.SplitIndex)
		if err != nil {
			return err
		}
		if columns > 1 {
			sh.Notes = append(sh.Notes, fmt.Sprintf("%s has %d columns, each a division into sets: column %d, counted from 0, is used (--split-index)", t.Name, columns, o.SplitIndex))
		}
		most = max(most, columns)
	}
	if o.SplitIndex != 0 {
		if most < 2 {
			return fault.New(fault.ErrUsage, "--split-index %d: the source has no mask with several columns", o.SplitIndex)
		}
		if sh.Reading == nil {
			sh.Reading = map[string]string{}
		}
		sh.Reading["split_index"] = strconv.Itoa(o.SplitIndex)
	}
	return nil
}

// LookAt opens the set for a moment, in a graph with the given number of nodes, and returns the number
// of its columns. An index that is no column of a mask with several is an error of kind fault.ErrUsage.
func (s *Set) LookAt(nodes int64, index int) (columns int, err error) {
	err = s.with(func(m matrix.Matrix) error {
		columns = m.Columns()
		mask := s.Kind == Mask || s.Kind == AnyKind && (m.Mask() || columns > 1)
		switch {
		case mask && columns > importer.Chunk:
			return bad("%s: it has %d columns, each a division into sets, more than %d", m.Name(), columns, importer.Chunk)
		case mask && m.Rows() >= 0 && m.Rows() != nodes:
			return bad("%s: the mask has %d rows, but the graph has %d nodes", m.Name(), m.Rows(), nodes)
		case columns > 1 && (index < 0 || index >= columns):
			return fault.New(fault.ErrUsage, "--split-index %d: %s has %d columns, counted from 0", index, m.Name(), columns)
		case !mask && (columns > 1 || !m.Integer() && (s.Kind == List || m.Rows() != nodes)):
			return bad("%s: it is no set of nodes: a set is one column of integers, the numbers of nodes, or a mask with a row for each of the %d nodes", m.Name(), nodes)
		}
		return nil
	})
	return columns, err
}

// Read assigns the nodes of the set to a split: see importer.Labelling.Assign. Nodes are counted from the
// first of the range of. Of a mask with several columns, index is the one that counts.
func (s *Set) Read(ctx context.Context, l *importer.Labelling, split uint8, of stream.Span, index int) error {
	kind := s.Kind
	if kind == AnyKind {
		var err error
		if kind, err = s.decide(ctx, of.Count); err != nil {
			return err
		}
	}
	return s.with(func(m matrix.Matrix) error {
		if kind == List {
			return matrix.EachInt(ctx, m, func(_ int64, row []int64) error {
				if v := row[0]; uint64(v) >= uint64(of.Count) {
					return bad("%s: the %s set has node %d, but there are only %d nodes", m.Name(), dataset.SplitNames[split-1], v, of.Count)
				}
				return inTable(m, l.Assign(of.First+row[0], split))
			})
		}
		at, rows := index, int64(0)
		if m.Columns() == 1 {
			at = 0
		}
		err := matrix.EachDouble(ctx, m, func(v int64, row []float64) error {
			rows++
			switch x := row[at]; x {
			case 0:
				return nil
			case 1:
				return inTable(m, l.Assign(of.First+v, split))
			default:
				return bad("%s: node %d has the value %v: a mask has only 0 and 1", m.Name(), v, x)
			}
		})
		if err == nil && rows != of.Count {
			err = bad("%s: the mask has %d rows, but the graph has %d nodes", m.Name(), rows, of.Count)
		}
		return err
	})
}

// decide finds the kind of a set by its values.
func (s *Set) decide(ctx context.Context, nodes int64) (Kind, error) {
	kind := Mask
	err := s.with(func(m matrix.Matrix) error {
		switch n := m.Rows(); {
		case m.Mask() || m.Columns() > 1 || !m.Integer():
			return nil
		case n >= 0 && n != nodes:
			kind = List
			return nil
		}
		rows := int64(0)
		err := matrix.EachDouble(ctx, m, func(_ int64, row []float64) error {
			if rows++; row[0] != 0 && row[0] != 1 {
				kind = List
				return errDecided
			}
			return nil
		})
		if rows != nodes {
			kind = List
		}
		if errors.Is(err, errDecided) {
			err = nil
		}
		return err
	})
	return kind, err
}

// errDecided ends reading early.
var errDecided = errors.New("decided")

// Files implements importer.Source.
func (s *source) Files() []string { return s.g.Files }

// Shape implements importer.Source.
func (s *source) Shape() importer.Shape { return s.sh }

// CountEdges implements importer.Source.
func (s *source) CountEdges(map[string]int64) int64 { return s.sh.Edges }

// Labels implements importer.Source.
func (s *source) Labels(ctx context.Context, l *importer.Labelling) error {
	all := stream.Span{Count: s.sh.Nodes}
	if err := s.g.Labels.ReadLabels(ctx, l, s.sh.Multi, all); err != nil {
		return err
	}
	for i := range s.g.Sets {
		if t := &s.g.Sets[i]; t.Open != nil {
			if err := t.Read(ctx, l, uint8(i+1), all, s.index); err != nil {
				return err
			}
		}
	}
	return nil
}

// Edges implements importer.Source.
func (s *source) Edges(ctx context.Context, add func(dst, src []int64) error) (err error) {
	pairs, err := s.g.Edges.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pairs.Close()) }()
	return stream.EachPair(ctx, s.g.Edges.Name, pairs, s.sh.Nodes, add)
}

// Features implements importer.Source.
func (s *source) Features(first int64) (importer.RowStream, error) {
	return s.g.Features.Rows(s.sh.Nodes, first)
}
