package raw

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/dataset/importer/internal/tables"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/internal/yaml"
)

// Typed reads a file of YAML that names a table for each part of each type of nodes, and for each relation.
// Paths are relative to its directory, and inside it.
var Typed = importer.Format{
	Name: "typed", What: "a file NAME.yaml of node types and relations, with a table for each",
	Takes:  slices.Concat([]string{"task"}, tables.Takes, tables.TakesTyped),
	Detect: detectTyped,
	Open:   openTyped,
}

// typedFile is the content of the file.
type typedFile struct {
	Types     []nodeTables    `yaml:"types"`
	Relations []relationTable `yaml:"relations"`
}

// nodeTables are the tables of a type of nodes.
type nodeTables struct {
	Name        string   `yaml:"name"`
	Nodes       int64    `yaml:"nodes"`
	Features    string   `yaml:"features"`
	Columns     []string `yaml:"columns"` // of the features
	Drop        []string `yaml:"drop"`
	Labels      string   `yaml:"labels"`
	LabelColumn string   `yaml:"label_column"`
	Train       string   `yaml:"train"`
	Valid       string   `yaml:"valid"`
	Test        string   `yaml:"test"`
}

// relationTable is the table of a relation.
type relationTable struct {
	Source      string   `yaml:"source"`
	Name        string   `yaml:"name"`
	Destination string   `yaml:"destination"`
	Edges       string   `yaml:"edges"`
	Columns     []string `yaml:"columns"` // the source and the destination
}

func detectTyped(fsys vfs.FS, sources []string) string {
	if len(sources) != 1 || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(sources[0])) {
		return ""
	}
	content, err := vfs.ReadSmall(fsys, sources[0], yaml.MaxBytes)
	if err != nil {
		return ""
	}
	var f typedFile
	if yaml.Unmarshal(content, &f) != nil || len(f.Types) == 0 || len(f.Relations) == 0 {
		return ""
	}
	return "it lists types and relations"
}

// typedTables makes tables of the file.
type typedTables struct {
	fs    vfs.FS
	name  string
	most  int64 // of the memory of a table
	typed typedFile
	g     tables.Typed
	// Memory of reading: edges, and at the same time a table of nodes.
	edges, nodes matrix.Need
	labels       *matrix.Spec
	used         []use
}

// use is columns of a file as features, or as the ends of edges.
type use struct {
	name    string
	spec    matrix.Spec
	columns func() ([]int, error)
}

func openTyped(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
	name, err := importer.One(sources)
	if err != nil {
		return nil, err
	}
	if !o.Typed {
		return nil, fault.New(fault.ErrUsage, "%s: the format typed needs --typed", name)
	}
	if _, err := importer.StatFile(fsys, name); err != nil {
		return nil, err
	}
	content, err := vfs.ReadSmall(fsys, name, yaml.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	t := &typedTables{fs: fsys, name: name, most: o.ScratchMemory, g: tables.Typed{Name: name, Files: []string{name}}}
	if err := yaml.Strict(content, &t.typed); err != nil {
		return nil, fault.New(fault.ErrInput, "%s: %v", name, err)
	}
	for _, step := range []func(*importer.Reading) error{t.addTypes, t.addRelations, t.checkFill} {
		if err := step(o); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	t.g.Shape.Held, t.g.Shape.HeldMost = t.edges.Bytes+t.nodes.Bytes, t.nodes.Most
	if t.edges.Bytes > t.nodes.Bytes {
		t.g.Shape.HeldMost = t.edges.Most
	}
	slices.Sort(t.g.Files)
	t.g.Files = slices.Compact(t.g.Files)
	return tables.NewTyped(t.g, o)
}

func badTyped(format string, args ...any) error { return fault.New(fault.ErrInput, format, args...) }

// spec returns the form of a file, and notes its parts and its memory.
func (t *typedTables) spec(file string, columns, except []string, need *matrix.Need) (s matrix.Spec, err error) {
	if s, err = matrix.ParseSpec(file); err != nil {
		return s, badTyped("%w", err)
	}
	if s.Path, err = importer.Inside(filepath.Dir(t.name), s.Path); err != nil {
		return s, err
	}
	if _, err := importer.StatFile(t.fs, s.Path); err != nil {
		return s, err
	}
	s.Columns, s.Except = columns, except
	held, err := matrix.Held(t.fs, s, t.most)
	if err != nil {
		return s, err
	}
	if held.Bytes > need.Bytes {
		*need = held
	}
	t.g.Files = append(t.g.Files, filesOf(t.fs, s)...)
	return s, nil
}

// table returns a table of nodes, without a column that counts the rows.
func (t *typedTables) table(s matrix.Spec) tables.Table {
	return tables.Table{Name: s.Path, Open: func() (matrix.Matrix, error) {
		m, err := matrix.Open(t.fs, s)
		if err != nil {
			return nil, err
		}
		return matrix.WithoutIDs(m)
	}}
}

// addTypes finds the tables of nodes, and the type with labels.
func (t *typedTables) addTypes(o *importer.Reading) error {
	labelled, err := t.labelled(o)
	if err != nil {
		return err
	}
	for i := range t.typed.Types {
		k := &t.typed.Types[i]
		n := tables.NodeType{Name: k.Name, Count: k.Nodes}
		if k.Nodes < 0 || k.Nodes > math.MaxInt64/2 {
			return badTyped("the type %.40q has %d nodes", k.Name, k.Nodes)
		}
		if k.Features == "" && (len(k.Columns) > 0 || len(k.Drop) > 0) {
			return badTyped("the type %.40q has columns, but no features", k.Name)
		}
		if k.Features != "" {
			s, err := t.spec(k.Features, k.Columns, k.Drop, &t.nodes)
			if err != nil {
				return fmt.Errorf("features of %.40q: %w", k.Name, err)
			}
			n.Features = tables.Features{t.table(s)}
			t.used = append(t.used, use{fmt.Sprintf("features of %.40q", k.Name), s, func() ([]int, error) { return t.columns(s) }})
			if n.Count == 0 {
				if n.Count, err = t.rows(s); err != nil {
					return err
				}
			}
		}
		if k.Name == labelled && o.Labelled() {
			if err := t.addLabels(i, &n); err != nil {
				return fmt.Errorf("the type %.40q: %w", k.Name, err)
			}
		}
		if n.Count == 0 {
			return badTyped("the number of nodes of the type %.40q is not known: give nodes", k.Name)
		}
		t.g.Types = append(t.g.Types, n)
	}
	return nil
}

// labelled returns the name of the type with labels: the only one, or the one that --task names.
func (t *typedTables) labelled(o *importer.Reading) (string, error) {
	var found []string
	for i, k := range t.typed.Types {
		if slices.ContainsFunc(t.typed.Types[:i], func(o nodeTables) bool { return o.Name == k.Name }) {
			return "", badTyped("the node type %.40q is listed twice", k.Name)
		}
		if k.Labels != "" {
			found = append(found, k.Name)
		}
		if k.Name == o.Task {
			t.g.Labelled = k.Name
		}
	}
	switch {
	case o.Task != "" && (t.g.Labelled == "" || o.Labelled() && !slices.Contains(found, o.Task)):
		return "", fault.New(fault.ErrUsage, "--task %s: types with labels are %.200s", o.Task, strings.Join(found, ", "))
	case o.Task != "":
		t.g.Shape.Reading = map[string]string{"task": o.Task}
	case len(found) == 1:
		t.g.Labelled = found[0]
	case !o.Labelled():
	case len(found) == 0:
		return "", badTyped("no type has labels")
	default:
		return "", badTyped("several types have labels (%.200s): choose one with --task", strings.Join(found, ", "))
	}
	return t.g.Labelled, nil
}

// rows counts the rows of a table.
func (t *typedTables) rows(s matrix.Spec) (n int64, err error) {
	err = importer.With(t.table(s).Open, func(m matrix.Matrix) error {
		if n = m.Rows(); n >= 0 {
			return nil
		}
		n = 0
		rows := max(importer.Chunk/m.Columns(), 1)
		values := make([]float64, rows*m.Columns())
		for {
			got, err := m.Doubles(values)
			if n += int64(got / m.Columns()); err != nil || got < len(values) {
				return err
			}
		}
	})
	return n, err
}

// addLabels finds labels and sets of type i.
func (t *typedTables) addLabels(i int, n *tables.NodeType) error {
	k := &t.typed.Types[i]
	var columns []string
	if k.LabelColumn != "" {
		columns = []string{k.LabelColumn}
	}
	s, err := t.spec(k.Labels, columns, nil, &t.nodes)
	if err != nil {
		return err
	}
	t.g.Labels, t.labels = t.table(s), &s
	if n.Count == 0 {
		if n.Count, err = t.rows(s); err != nil {
			return err
		}
	}
	for j, file := range []string{k.Train, k.Valid, k.Test} {
		if file == "" {
			continue
		}
		s, err := t.spec(file, nil, nil, &t.nodes)
		if err != nil {
			return err
		}
		t.g.Sets[j] = tables.Set{Table: tables.Table{Name: s.Path, Open: func() (matrix.Matrix, error) { return matrix.Open(t.fs, s) }}}
	}
	return nil
}

// addRelations finds the edges.
func (t *typedTables) addRelations(*importer.Reading) error {
	for _, k := range t.typed.Relations {
		name := fmt.Sprintf("the relation %.40q from %.40q to %.40q", k.Name, k.Source, k.Destination)
		if k.Edges == "" {
			return badTyped("%s has no edges: give a file", name)
		}
		s, err := t.spec(k.Edges, k.Columns, nil, &t.edges)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r := tables.Relation{Source: k.Source, Name: k.Name, Destination: k.Destination, Edges: tables.Edges{Name: s.Path}}
		if err := t.addEdges(&r, s); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		t.used = append(t.used, use{name, s, func() ([]int, error) { return matrix.EndColumns(t.fs, s) }})
		t.g.Relations = append(t.g.Relations, r)
	}
	return nil
}

// columns returns the columns that a table of nodes chooses.
func (t *typedTables) columns(s matrix.Spec) ([]int, error) {
	d, err := matrix.Describe(t.fs, s)
	if err != nil {
		return nil, err
	}
	return d.Select(s)
}

// resolved returns a path without symbolic links.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// checkFill refuses to fill types where features, or the ends of edges, are in the column with the labels: they
// would become features of other nodes.
func (t *typedTables) checkFill(o *importer.Reading) error {
	if o.Fill == "" || t.labels == nil {
		return nil
	}
	var labels []int
	for _, u := range t.used {
		if resolved(u.spec.Path) != resolved(t.labels.Path) || u.spec.Key != t.labels.Key {
			continue
		}
		columns, err := u.columns()
		if err == nil && labels == nil {
			labels, err = t.columns(*t.labels)
		}
		if err != nil {
			return err
		}
		for _, c := range labels {
			if slices.Contains(columns, c) {
				return badTyped("%s: column %d of %s, counted from 0, has the labels: with --fill %s they would become features of other nodes; leave the column out", u.name, c, u.spec.Path, o.Fill)
			}
		}
	}
	return nil
}

// addEdges opens edges: a matrix, the rows of which are sources, or a table.
func (t *typedTables) addEdges(r *tables.Relation, s matrix.Spec) error {
	m, err := matrix.OpenSparse(t.fs, s)
	if err != nil {
		return err
	}
	if m != nil {
		if len(s.Columns) > 0 {
			return badTyped("%s is a matrix, which has no columns to choose", s.Path)
		}
		weighted, err := m.Weighted()
		if err != nil {
			return err
		}
		if weighted {
			t.g.Shape.DropEdgeData(s.Path, []string{"the values of the matrix"})
		}
		r.Edges.Open, r.AtMost = func() (stream.Pairs, error) { return m.Pairs(false) }, strings.Contains(s.Path, ".mtx") // which may be symmetric
		r.Edges.Count, err = m.Count()
		return err
	}
	e := &table{fs: t.fs, spec: s}
	if r.Edges.Count, err = e.count(); err != nil {
		return err
	}
	if r.Edges.Count < 0 {
		r.Edges.Count, r.Lines = 0, filesOf(t.fs, s)
	}
	ends := e.columns()
	if ends.Note != "" {
		t.g.Shape.Notes = append(t.g.Shape.Notes, ends.Note)
	}
	t.g.Shape.DropEdgeData(s.Path, ends.Dropped)
	r.Edges.Open = e.open
	return nil
}
