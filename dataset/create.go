package dataset

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Raw is a small dataset in memory: the arrays of the data files.
type Raw struct {
	Indptr  []int64  // nodes+1 offsets, ascending from 0 to len(Indices)
	Indices []uint32 // in-neighbours of every node, ascending within a node
	// Types, unless nil, are the types of a typed graph, which has a row of Indptr for each node and relation
	// into its type. LabelledType is the type with Labels that are not graph.Unlabelled.
	Types        *graph.Types
	LabelledType int
	Features     []byte // nodes × Dim elements of DType
	DType        dtype.Type
	Dim          int
	Labels       []int32 // one per node, graph.Unlabelled where there is none; nil: no labels and splits
	// Targets, unless nil, has the classes of a multi-label graph, a row of bits for each node as in
	// graph.Batch.Targets. Labels are then 0, or graph.Unlabelled for nodes with a row of zeros.
	Targets []byte
	Classes int
	// ClassNames, unless nil, has the name of each class, all different.
	ClassNames []string
	Compress   bool // the features
	// At most one of NodeIDs and Names is set: the original ids of the nodes, all different. NodeIDs
	// are a permutation of 0 … nodes−1.
	NodeIDs []int64
	Names   []string

	Train, Valid, Test []uint32 // strictly ascending, disjoint, labelled
}

// NumNodes returns the number of nodes.
func (r *Raw) NumNodes() int {
	if r.Types != nil {
		return int(r.Types.NumNodes())
	}
	return len(r.Indptr) - 1
}

func (r *Raw) form() Form {
	return Form{r.Compress, r.NodeIDs != nil || r.Names != nil, r.Types != nil}
}

// createParams are the content parameters of a dataset made from memory: there
// is nothing to make it from but the content itself.
type createParams struct {
	Source      string       `json:"source"`
	Content     string       `json:"content_sha256"`
	ClassNames  string       `json:"class_names_sha256,omitempty"` // which Content, as older readers check it, does not cover
	Compression string       `json:"compression,omitempty"`
	Types       *graph.Types `json:"types,omitempty"`
	Labelled    int          `json:"labelled_type,omitempty"`
}

// Create writes a dataset from memory to the directory out, or does nothing if out has the same
// dataset already. Content that the format does not allow is an error of kind fault.ErrInput.
func Create(fsys vfs.FS, out string, r Raw) (err error) {
	if err := r.check(); err != nil {
		return err
	}
	w, state, err := Begin(context.Background(), fsys, out, createParams{"memory", r.hash(), hashClassNames(r.ClassNames), CompressionName(r.Compress), r.Types, r.LabelledType}, r.form(), false, progress.Discard)
	if err != nil || state == stage.StateDone {
		return err
	}
	defer func() { err = w.End(err) }()
	w.state = journal{Facts: r.facts()}
	if r.ClassNames != nil {
		if err := w.WriteClassNames(r.ClassNames); err != nil {
			return err
		}
	}
	for _, file := range r.files() {
		if r.Compress && file.name == FeaturesFile {
			err = w.writeFrames(file.content)
		} else {
			err = w.Write(file.name, file.content)
		}
		if err != nil {
			return err
		}
	}
	return w.Commit(struct{}{})
}

func (r *Raw) facts() Facts {
	f := Facts{
		Nodes: int64(r.NumNodes()), Edges: int64(len(r.Indices)), Dim: r.Dim, DType: r.DType, Classes: r.Classes,
		Train: int64(len(r.Train)), Valid: int64(len(r.Valid)), Test: int64(len(r.Test)),
		Types: r.Types, LabelledType: r.LabelledType,
	}
	if r.Compress {
		f.Compression = Zstd
	}
	switch {
	case r.NodeIDs != nil:
		f.OriginalIDs = IDNumbers
	case r.Names != nil:
		f.OriginalIDs = IDNames
		for _, name := range r.Names {
			f.NameBytes += int64(len(name))
		}
	}
	switch {
	case r.Labels == nil:
		f.LabelKind = NoLabels
	case r.Targets != nil:
		f.LabelKind = labelMultiHot
	}
	for _, c := range r.Labels {
		if c == graph.Unlabelled {
			f.Unlabelled++
		}
	}
	return f
}

type namedBytes struct {
	name    string
	content []byte
}

func (r *Raw) files() []namedBytes {
	files := []namedBytes{
		{IndptrFile, binio.Bytes(r.Indptr)},
		{IndicesFile, binio.Bytes(r.Indices)},
		{FeaturesFile, r.Features},
	}
	if r.Labels != nil {
		files = append(files, []namedBytes{
			{LabelsFile, binio.Bytes(r.Labels)},
			{SplitFile(Train), binio.Bytes(r.Train)},
			{SplitFile(Valid), binio.Bytes(r.Valid)},
			{SplitFile(Test), binio.Bytes(r.Test)},
		}...)
	}
	if r.Targets != nil {
		files = append(files, namedBytes{TargetsFile, r.Targets})
	}
	return append(files, r.idFiles()...)
}

// hash is the SHA-256 of everything that decides the bytes.
func (r *Raw) hash() string {
	h := sha256.New()
	word := func(n int) { h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) }
	word(r.Dim)
	word(r.Classes)
	h.Write([]byte(r.DType))
	for _, f := range r.files() {
		word(len(f.content))
		h.Write(f.content)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// check refuses content that the format does not allow.
func (r *Raw) check() error {
	bad := func(format string, args ...any) error { return fault.New(fault.ErrInput, format, args...) }
	if r.Types != nil {
		if err := r.Types.Check(); err != nil {
			return bad("%w", err)
		}
	}
	n, rows, facts := r.NumNodes(), len(r.Indptr)-1, r.facts()
	switch {
	case rows < 1 || rows != int(facts.Rows()) || r.Indptr[0] != 0 || r.Indptr[rows] != int64(len(r.Indices)) || !slices.IsSorted(r.Indptr):
		return bad("indptr does not ascend from 0 to the number of edges, %d", len(r.Indices))
	case !FeatureType(r.DType) || r.Dim < 1 || r.Dim > MaxDim || len(r.Features) != int(facts.FeatureRows())*r.Dim*r.DType.Size():
		return bad("the features have %d bytes, which are not %d rows of %d × %s", len(r.Features), facts.FeatureRows(), r.Dim, r.DType)
	case r.Labels == nil && (r.Classes != 0 || r.Targets != nil || len(r.Train)+len(r.Valid)+len(r.Test) > 0):
		return bad("the dataset has %d classes, or splits, but no labels", r.Classes)
	case r.Labels != nil && (len(r.Labels) != n || r.Classes < 1 || r.Classes > math.MaxInt32):
		return bad("the dataset has %d labels of %d classes, but %d nodes", len(r.Labels), r.Classes, n)
	}
	if err := CheckNodes("dataset", int64(n)); err != nil {
		return err
	}
	// The caller's slice may begin at any byte.
	for element, b := int64(0), r.Features; len(b) > 0; {
		piece := slices.Clone(b[:min(len(b), 1<<16)])
		if i := IndexNotFinite(piece, r.DType); i >= 0 {
			return notFinite(fault.ErrInput, FeaturesFile, element+int64(i), r.Dim)
		}
		element, b = element+int64(len(piece)/r.DType.Size()), b[len(piece):]
	}
	g, d := graph.CSC{Indptr: r.Indptr, Indices: r.Indices}, Dataset{facts: facts}
	for i := range rows {
		row := g.Neighbors(uint32(i))
		if !slices.IsSorted(row) || len(row) > 0 && int(row[len(row)-1]) >= n || d.checkSources(int64(i), row) != nil {
			return bad("in-neighbours of row %d are out of order or out of range", i)
		}
	}
	lo, hi := facts.labelledRange()
	for v := range len(r.Labels) {
		if c := r.Labels[v]; c != graph.Unlabelled && (int64(v) < lo || int64(v) >= hi) {
			return bad("node %d has a label, but nodes %d to %d have the labels", v, lo, hi-1)
		}
		if c := r.Labels[v]; c != graph.Unlabelled && uint32(c) >= uint32(r.Classes) {
			return bad("node %d has the class %d, but there are only %d classes, counted from 0", v, c, r.Classes)
		}
	}
	if err := r.checkTargets(); err != nil {
		return err
	}
	if err := cmp.Or(r.checkClassNames(), r.checkIDs()); err != nil {
		return err
	}
	in := make([]bool, n)
	for _, ids := range [][]uint32{r.Train, r.Valid, r.Test} {
		for i, v := range ids {
			if int(v) >= n || i > 0 && v <= ids[i-1] || in[v] || r.Labels[v] == graph.Unlabelled {
				return bad("node %d of a split is out of range, out of order, unlabelled or in two splits", v)
			}
			in[v] = true
		}
	}
	return nil
}

// checkTargets refuses rows of bits that no multi-label dataset has.
func (r *Raw) checkTargets() error {
	if r.Targets == nil {
		return nil
	}
	row := graph.TargetBytes(r.Classes)
	switch {
	case r.Classes > MaxTargets || len(r.Targets) != len(r.Labels)*row:
		return fault.New(fault.ErrInput, "the targets have %d bytes, which are not a bit for each of %d classes of %d nodes", len(r.Targets), r.Classes, len(r.Labels))
	case slices.Max(r.Labels) > 0:
		return fault.New(fault.ErrInput, "a node of a multi-label graph has label %d, neither 0 nor -1", slices.Max(r.Labels))
	case classBeyond(r.Targets, row, r.Classes) >= 0:
		return fault.New(fault.ErrInput, "node %d has a class outside the dataset's %d classes", classBeyond(r.Targets, row, r.Classes), r.Classes)
	case unlabelledClass(r.Targets, row, r.Labels) >= 0:
		return fault.New(fault.ErrInput, "node %d has classes, but its label is -1, unlabelled", unlabelledClass(r.Targets, row, r.Labels))
	}
	return nil
}
