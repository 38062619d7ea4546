package raw

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/names"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// nodeTable is a table with a row for each node, or for some nodes: columns of a file.
type nodeTable struct {
	spec  matrix.Spec
	about matrix.Description // of the file
	// keyed says that a column, spec.IDs, has the node of each row; else row i belongs to node i.
	keyed bool
	list  *names.List // the node of each row, once names have numbers
}

// open opens the table's columns, without ids.
func (t *nodeTable) open(fsys vfs.FS) (matrix.Matrix, error) {
	if t.keyed {
		return matrix.OpenKeyed(fsys, t.spec)
	}
	m, err := matrix.Open(fsys, t.spec)
	if err != nil {
		return nil, err
	}
	return matrix.WithoutIDs(m)
}

// specs returns the columns and the column of the ids, which are read at the same time.
func (t *nodeTable) specs() []matrix.Spec {
	specs := []matrix.Spec{t.spec}
	if t.keyed && t.spec.IDs != "" {
		id := t.spec
		id.Columns, id.Except = []string{t.spec.IDs}, nil
		specs = append(specs, id)
	}
	return specs
}

// text returns the columns of text among the table's columns, and the number of all its columns.
func (t *nodeTable) text() (text []string, all int, err error) {
	columns, err := t.about.Select(t.spec)
	if err != nil {
		return nil, 0, err
	}
	if t.keyed {
		id := 0
		if t.spec.IDs != "" {
			at, err := t.about.Select(matrix.Spec{Path: t.spec.Path, Columns: []string{t.spec.IDs}})
			if err != nil {
				return nil, 0, err
			}
			id = at[0]
		}
		columns = slices.DeleteFunc(columns, func(i int) bool { return i == id })
	}
	for _, i := range columns {
		if t.about.Text[i] {
			text = append(text, t.name(i))
		}
	}
	return text, len(columns), nil
}

// name returns the name of a column, or its number.
func (t *nodeTable) name(i int) string {
	if t.about.Names == nil || t.about.Names[i] == "" {
		return strconv.Itoa(i)
	}
	return t.about.Names[i]
}

// checkOrder looks at the ids in files with a row for each node in the nodes' order, where columns are
// chosen and the ids are not among them: they must count the rows. Other ids say that the rows have
// another order, unless they are dropped.
func (s *source) checkOrder(o *importer.Reading) error {
	done := []string{o.NodeIDs} // the file of the order
	if s.ids != nil {
		done = append(done, s.ids.Path)
	}
	var found importer.Problems
	for _, t := range append([]*nodeTable{s.feat, s.label, s.sets}, s.masks...) {
		if t == nil || t.keyed || slices.Contains(done, t.spec.Path) {
			continue
		}
		done = append(done, t.spec.Path)
		read, err := t.about.Select(t.spec)
		if err != nil {
			return err
		}
		for _, i := range t.about.IDs() {
			column := t.spec
			column.Columns, column.Except = []string{t.name(i)}, nil
			file := nodeFile{column, t.about}
			if slices.Contains(read, i) || slices.ContainsFunc(o.Drop, func(drop string) bool { return t == s.feat && file.chooses(drop, i) }) {
				continue // reading checks it
			}
			otherwise := "remove it"
			if t == s.feat {
				otherwise = "give --drop " + t.name(i)
			}
			if row, is, err := counts(s.fs, column); err != nil || !is {
				found.Add(cmp.Or(err, fault.New(fault.ErrInput, "%s: row %d: the column %q is not the number of the row: give --id-column %s if it has the ids of the nodes; else %s", t.spec.Path, row, t.name(i), t.name(i), otherwise)))
			}
		}
	}
	return found.Err()
}

// chooses reports whether a name, number, range or pattern of columns means column i.
func (f *nodeFile) chooses(columns string, i int) bool {
	chosen, err := f.about.Select(matrix.Spec{Path: f.spec.Path, Columns: []string{columns}})
	return err == nil && slices.Contains(chosen, i)
}

// uses are the tables of nodes by their use. A table that is nil is drawn, or absent.
type uses struct {
	feat, label, sets *nodeTable
	masks             []*nodeTable // columns of --split-files: a word of yes or no for each node
	beside            bool         // the labels are in the file of the features
	// ids is the column of --id-column, in the file in the order of which nodes are numbered; nil
	// without the flag, and with --node-ids.
	ids *matrix.Spec
}

// nodeFile is the file of --features or --labels.
type nodeFile struct {
	spec  matrix.Spec
	about matrix.Description
}

// has reports whether a file has a column of this name or number.
func (f *nodeFile) has(column string) bool {
	if f == nil || column == "" {
		return false
	}
	_, err := f.about.Select(matrix.Spec{Path: f.spec.Path, Columns: []string{column}})
	return err == nil
}

// those returns the columns that the file has.
func (f *nodeFile) those(columns ...string) []string {
	return slices.DeleteFunc(columns, func(c string) bool { return !f.has(c) })
}

// openFile describes the file of a flag. It returns nil for no file, and for numbers that are drawn.
func openFile(fsys vfs.FS, text string, o *importer.Reading) (*nodeFile, error) {
	if text == "" || strings.HasPrefix(text, random) {
		return nil, nil
	}
	spec, err := matrix.ParseSpec(text)
	if err != nil {
		return nil, err
	}
	if _, err := tableNeed(fsys, spec, o); err != nil { // before more of the file is read
		return nil, err
	}
	hints := spec // words that make a first line a header
	hints.Columns = slices.Concat([]string{o.IDColumn, o.LabelColumn, o.SplitColumn}, o.FeatureColumns, o.Drop, o.SplitFiles)
	d, err := matrix.Describe(fsys, hints)
	return &nodeFile{spec, d}, err
}

// assign divides the columns of --features and --labels among their uses.
func assign(fsys vfs.FS, o *importer.Reading) (u uses, err error) {
	var found importer.Problems
	feat, err := openFile(fsys, o.FeatureFile, o)
	found.Add(err)
	label, err := openFile(fsys, o.LabelFile, o)
	found.Add(err)
	if err := found.Err(); err != nil {
		return u, err
	}
	switch {
	case len(o.FeatureColumns)+len(o.Drop) > 0 && feat == nil:
		return u, fault.New(fault.ErrUsage, "--feature-columns and --drop: --features does not name a table")
	case o.SplitColumn != "" && len(o.SplitFiles) > 0:
		return u, fault.New(fault.ErrUsage, "--split-column %s: not with --split-files", o.SplitColumn)
	}
	if label == nil && o.LabelFile == "" && o.LabelColumn != "" {
		label, u.beside = feat, true
	}
	if o.LabelColumn != "" && label == nil {
		return u, fault.New(fault.ErrUsage, "--label-column %s: neither --labels nor --features names a table", o.LabelColumn)
	}
	ids, err := holder("id-column", o.IDColumn, feat, label)
	if err != nil {
		return u, err
	}
	sets, err := holder("split-column", o.SplitColumn, feat, label)
	if err != nil && o.Labelled() {
		return u, err
	}
	masks := maskFile(fsys, o, feat, label)
	if feat != nil {
		t := feat.spec
		if t.Except = nil; masks != nil {
			t.Except = feat.those(slices.Clone(o.SplitFiles)...)
		}
		t.Columns, t.Except = o.FeatureColumns, slices.Concat(t.Except, feat.those(o.IDColumn, o.LabelColumn, o.SplitColumn), o.Drop)
		u.feat = keyed(t, feat, ids, o)
	}
	if label != nil && o.Labelled() {
		t := label.spec
		if o.LabelColumn != "" {
			t.Columns = []string{o.LabelColumn}
		} else {
			t.Except = label.those(o.IDColumn, o.SplitColumn)
		}
		u.label = keyed(t, label, ids, o)
	}
	if sets != nil && o.Labelled() {
		t := sets.spec
		t.Columns = []string{o.SplitColumn}
		u.sets = keyed(t, sets, ids, o)
	}
	if masks != nil && o.Labelled() {
		for _, column := range o.SplitFiles {
			t := masks.spec
			t.Columns = []string{column}
			u.masks = append(u.masks, keyed(t, masks, ids, o))
		}
	}
	if ids != nil && o.NodeIDs == "" {
		id := ids.spec
		id.Columns = []string{o.IDColumn}
		u.ids = &id
	}
	return u, nil
}

// maskFile returns the table of nodes with the columns that --split-files names, or nil if these are
// names of files.
func maskFile(fsys vfs.FS, o *importer.Reading, files ...*nodeFile) *nodeFile {
	if slices.ContainsFunc(o.SplitFiles, func(name string) bool { _, err := fsys.Stat(name); return err == nil }) {
		return nil
	}
	for _, f := range files {
		if len(o.SplitFiles) > 0 && len(f.those(slices.Clone(o.SplitFiles)...)) == len(o.SplitFiles) {
			return f
		}
	}
	return nil
}

// holder returns the first of the files that has the column of a flag, or nil if the flag is not given.
func holder(flag, column string, files ...*nodeFile) (*nodeFile, error) {
	if column == "" {
		return nil, nil
	}
	var looked []string
	for _, f := range files {
		if f.has(column) {
			return f, nil
		}
		if f != nil && !slices.Contains(looked, f.spec.Path) {
			looked = append(looked, f.spec.Path)
		}
	}
	if len(looked) == 0 {
		return nil, fault.New(fault.ErrUsage, "--%s %s: neither --features nor --labels names a table", flag, column)
	}
	return nil, fault.New(fault.ErrInput, "--%s %s: no such column in %s", flag, column, strings.Join(looked, " or "))
}

// keyed returns t, some columns of a file, as a table of nodes. Unless --node-ids is given, ids is the
// file in the order of which nodes are numbered.
func keyed(t matrix.Spec, file, ids *nodeFile, o *importer.Reading) *nodeTable {
	n := &nodeTable{spec: t, about: file.about}
	switch {
	case file.has(o.IDColumn) && (o.NodeIDs != "" || file != ids):
		n.keyed, n.spec.IDs = true, o.IDColumn
	case o.NodeIDs == ByEdges:
		n.keyed = true
	}
	return n
}
