package all

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/matrix"
	"diskgnn/dataset/importer/internal/npy"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/raw"
	"diskgnn/internal/vfs"
)

// guess is a reading of a source that no format recognises.
type guess struct {
	is    string            // the kind of source that it seems to be
	flags map[string]string // of a command that takes it: --edges and other flags
	other string            // advice, in place of a command
}

// say returns the guess as the end of a message.
func (g *guess) say() string {
	if g.flags == nil {
		return fmt.Sprintf("%s: %s", g.is, g.other)
	}
	text := fmt.Sprintf("%s: diskgnn import --out D", g.is)
	for _, f := range []struct{ name, without string }{
		{"edges", "EDGES"}, {"node-ids", ""}, {"features", "FEATURES"}, {"labels", "LABELS"},
		{"id-column", ""}, {"label-column", ""}, {"split-column", ""}, {"drop", ""}, {"split-files", ""},
	} {
		value, given := g.flags[f.name]
		if f.name == "labels" && !given && g.flags["label-column"] != "" {
			continue
		}
		if !given {
			value = f.without
		}
		if value != "" {
			text += " --" + f.name + " " + quoted(value)
		}
	}
	if g.flags["split-column"] == "" && g.flags["split-files"] == "" {
		text += " --split 60/20/20"
	}
	var ways []string
	if strings.Contains(text, " FEATURES") {
		ways = append(ways, "random:128 for FEATURES")
	}
	if strings.Contains(text, " LABELS") {
		ways = append(ways, "random:10 for LABELS")
	}
	switch len(ways) {
	case 0:
		return text
	case 1:
		text += " (" + ways[0] + " shows time and memory"
	default:
		text += " (" + strings.Join(ways, " and ") + " show time and memory"
	}
	if strings.Contains(text, " LABELS") {
		text += "; with --for predict, no labels are needed"
	}
	return text + ")"
}

// quoted returns an argument as a shell takes it.
func quoted(arg string) string {
	if strings.ContainsAny(arg, " \t'\"$&|;<>()*?`\\#~") {
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return arg
}

// magics are beginnings of files that are no tables and no arrays, and the advice for each.
var magics = []struct{ begins, has, is, other string }{
	{"\x89HDF\r\n", "", "it is an HDF5 file, which is not read", "in Python, write each array of h5py.File(FILE) with numpy.save, and import these files with --edges, --features and --labels"},
	{"CDF", "", "it is a NetCDF file, which is not read", "write its arrays with numpy.save, and import these files with --edges, --features and --labels"},
	{"<", "<graphml", "it is GraphML", viaNetworkX("read_graphml")},
	{"<", "<gexf", "it is GEXF", viaNetworkX("read_gexf")},
	{"", "graph [", "it is GML", viaNetworkX("read_gml")},
	{"SQLite format 3", "", "it is a database of SQLite", "write its tables as CSV, and import these with --edges and --features"},
	{"{", "", "it is JSON", "write its edges and nodes as CSV tables, and import these with --edges and --features"},
	{"PK\x03\x04", "data.pkl", "it is a file of torch.save", "rename it to FILE.pt, and import looks for a graph in it"},
	{"\x80", "", "it is a pickle, which may hold any object", "write the edges, features and labels with numpy.save, or torch.save a Data object of PyTorch Geometric as FILE.pt"},
}

func viaNetworkX(reader string) string {
	return "networkx." + reader + " reads it, and networkx.write_edgelist(G, \"edges.txt\", data=False) writes edges for --edges edges.txt --node-ids edges"
}

// suggest returns the kind that a source seems to be which no format recognises, with the command that
// takes it or other advice, or "" if it has no idea. It looks at the beginnings of files.
func suggest(fsys vfs.FS, name string) string {
	g := look(fsys, name)
	if g == nil {
		return ""
	}
	return g.say()
}

func look(fsys vfs.FS, name string) *guess {
	st, err := fsys.Stat(name)
	if err != nil {
		return nil
	}
	if st.IsDir() {
		return lookInside(fsys, name)
	}
	head, err := beginning(fsys, name)
	if err != nil {
		return nil
	}
	switch ext := filepath.Ext(strings.TrimSuffix(name, ".gz")); {
	case bytes.HasPrefix(head, []byte(npy.Magic)):
		return lookAtArray(name, func() (*npz.Array, error) { return npz.Open(fsys, name) })
	case ext == ".npz":
		return lookAtArchive(fsys, name)
	case bytes.HasPrefix(head, []byte("%%MatrixMarket")):
		return lookAtMarket(fsys, name, head)
	}
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.begins)) && bytes.Contains(head, []byte(m.has)) {
			return &guess{is: m.is, other: m.other}
		}
	}
	if g := lookAtTable(fsys, name, name); g != nil {
		return g
	}
	if filepath.Ext(name) == ".bin" {
		return &guess{is: "it has numbers without a header, as it seems", other: fmt.Sprintf("name their type and shape, as in --features %s:float32:1000x128", quoted(name))}
	}
	return nil
}

// mostBeginning is the number of bytes that are looked at.
const mostBeginning = 4096

func beginning(fsys vfs.FS, name string) (_ []byte, err error) {
	f, err := importer.OpenFile(fsys, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	head := make([]byte, mostBeginning)
	n, err := io.ReadFull(f, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return head[:n], err
}

// roleOf returns the flag for an array by its type and shape, and a few words on the array; "" for no
// flag.
func roleOf(a *npz.Array) (flag, is string) {
	shape := a.Shape
	is = fmt.Sprintf("%s of shape %s", a.Type(), a.ShapeString())
	switch {
	case len(shape) == 2 && a.Integer() && (shape[0] == 2 || shape[1] == 2):
		return "edges", is
	case len(shape) == 2:
		return "features", is
	case len(shape) == 1 && a.Kind == 'b':
		return "mask", is
	case len(shape) == 1 && a.Integer():
		return "labels", is
	}
	return "", is
}

func lookAtArray(name string, open func() (*npz.Array, error)) *guess {
	a, err := open()
	if err != nil {
		return &guess{is: "it is an array of NumPy that cannot be read", other: err.Error()}
	}
	flag, is := roleOf(a)
	if err := a.Close(); err != nil {
		return nil
	}
	g := &guess{is: "it is one array, " + is}
	switch flag {
	case "":
		g.other = "edges are integers of shape (2, E) or (E, 2), features have a row for each node, labels are integers of shape (N,)"
	case "mask":
		g.is, g.flags = g.is+", which may be a set of nodes", map[string]string{"split-files": name + ",VALID,TEST"}
	default:
		g.is, g.flags = g.is+", which may be "+flag, map[string]string{flag: name}
	}
	return g
}

// lookAtArchive looks at the arrays of a .npz file.
func lookAtArchive(fsys vfs.FS, name string) *guess {
	z, err := npz.OpenArchive(fsys, name)
	if err != nil {
		return &guess{is: "it is an archive of NumPy that cannot be read", other: err.Error()}
	}
	defer func() { _ = z.Close() }() // it is only looked at
	keys := z.Keys()
	if z.Has("format") && z.Has("shape") && z.Has("data") {
		return lookAtSparse(fsys, z, name)
	}
	g := &guess{is: fmt.Sprintf("it is an archive with the arrays %.200s", strings.Join(keys, ", "))}
	flags := map[string]string{}
	for _, key := range keys[:min(len(keys), mostLooked)] {
		err := z.Header(key, func(a *npz.Array) error {
			flag, _ := roleOf(a)
			if _, has := flags[flag]; flag != "" && flag != "mask" && !has {
				flags[flag] = name + ":" + key
			}
			return nil
		})
		if err != nil {
			continue // other arrays may have a use
		}
	}
	if len(flags) == 0 {
		g.other = fmt.Sprintf("name the arrays, as in --edges %s:KEY", quoted(name))
		return g
	}
	g.flags = flags
	return g
}

// lookAtSparse looks at a matrix that SciPy saved.
func lookAtSparse(fsys vfs.FS, z *npz.Archive, name string) *guess {
	shape, err := z.All("shape", 2)
	if err != nil {
		return nil
	}
	return sparse(fsys, name, "a sparse matrix of SciPy", shape[0], shape[1])
}

// sparse is a guess by the shape of a matrix: a square one is an adjacency.
func sparse(fsys vfs.FS, name, is string, rows, columns int64) *guess {
	flag, may := "features", "features, a row for each node"
	if rows == columns {
		flag, may = "edges", "the adjacency of a graph"
	}
	g := &guess{is: fmt.Sprintf("it is %s of shape (%d, %d), which may be %s", is, rows, columns, may), flags: map[string]string{flag: name}}
	if !isRead(fsys, name) {
		g.flags, g.other = nil, "write numpy.stack(A.nonzero()) for --edges, or A.toarray() for --features, with numpy.save"
	}
	return g
}

// isRead reports whether a file or directory can be the value of --edges or --features.
func isRead(fsys vfs.FS, name string) bool {
	spec, err := matrix.ParseSpec(name)
	if err == nil {
		_, err = matrix.Describe(fsys, spec)
	}
	return err == nil
}

// lookAtMarket looks at a file of Matrix Market.
func lookAtMarket(fsys vfs.FS, name string, head []byte) *guess {
	for line := range bytes.Lines(head) {
		if bytes.HasPrefix(line, []byte("%")) || len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var rows, columns int64
		if _, err := fmt.Sscan(string(line), &rows, &columns); err != nil {
			return nil
		}
		return sparse(fsys, name, "a matrix of Matrix Market", rows, columns)
	}
	return nil
}

// lookInside looks at the files of a directory: tables in parts, or files that are named as parts of a
// graph.
func lookInside(fsys vfs.FS, dir string) *guess {
	names, err := fsys.List(dir)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") })
	if len(names) == 0 {
		return &guess{is: "it is an empty directory", other: "name a directory or file of one of the formats"}
	}
	flags := map[string]string{}
	for _, name := range names[:min(len(names), mostLooked)] {
		if flag := partOf(name); flag != "" && flags[flag] == "" {
			flags[flag] = filepath.Join(dir, name)
		}
	}
	if flags["edges"] != "" {
		g := &guess{is: "its files are named as parts of a graph", flags: map[string]string{}}
		for _, flag := range []string{"edges", "features", "labels"} {
			if flags[flag] != "" {
				g.flags[flag] = flags[flag]
			}
		}
		if flags["train"] != "" && flags["valid"] != "" && flags["test"] != "" {
			g.flags["split-files"] = flags["train"] + "," + flags["valid"] + "," + flags["test"]
		}
		return g
	}
	if first := filepath.Join(dir, names[0]); isTable(first) && sameForm(names) {
		if g := lookAtTable(fsys, first, dir); g != nil {
			if !isRead(fsys, dir) {
				g.flags, g.other = nil, "join them to one file"
			}
			g.is = fmt.Sprintf("it has %d files, of which the first is %s", len(names), strings.TrimPrefix(g.is, "it looks like "))
			return g
		}
	}
	return nil
}

// partOf returns the part of a graph that a file has by its name: a flag, or a set of nodes.
func partOf(name string) string {
	if !isTable(name) && filepath.Ext(name) != ".npy" && filepath.Ext(name) != ".npz" && filepath.Ext(name) != ".mtx" {
		return ""
	}
	name = strings.ToLower(name)
	for _, p := range []struct{ word, part string }{
		{"train", "train"}, {"valid", "valid"}, {"val", "valid"}, {"dev", "valid"}, {"test", "test"},
		{"edge", "edges"}, {"adj", "edges"}, {"label", "labels"}, {"target", "labels"}, {"feat", "features"}, {"node", "features"}, {"x.", "features"}, {"y.", "labels"},
	} {
		if strings.HasPrefix(name, p.word) || len(p.word) > 3 && strings.Contains(name, p.word) {
			return p.part
		}
	}
	return ""
}

// isTable reports whether a file is a table by its name.
func isTable(name string) bool {
	return slices.Contains([]string{".csv", ".tsv", ".txt", ".el", ".edges", ".edgelist", ".parquet", ".feather", ".arrow"}, filepath.Ext(strings.TrimSuffix(name, ".gz")))
}

// sameForm reports whether all names end alike.
func sameForm(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return filepath.Ext(name) != filepath.Ext(names[0]) })
}

// Usual names of columns, in lower case.
var (
	labelNames = []string{"label", "labels", "y", "class", "target", "category", "subject", "topic"}
	setNames   = []string{"split", "set", "fold", "mask", "subset", "partition"}
	idNames    = []string{"id", "ids", "node", "node_id", "nodeid", "nid", "vertex", "paper_id", "user_id", "item_id", "author_id", "key", "name", "user", "paper", "author", "index"}
	sources    = []string{"source", "src", "from", "u", "head", "fromnodeid"}
	targets    = []string{"target", "dst", "to", "v", "tail", "tonodeid", "destination", "dest"}
)

// columnNamed returns the first column that has one of the names, or "".
func columnNamed(d *matrix.Description, names []string) string {
	for _, c := range d.Names {
		if slices.Contains(names, strings.ToLower(c)) {
			return c
		}
	}
	return ""
}

// lookAtTable looks at a table. name is the argument of the command: the table, or its directory.
func lookAtTable(fsys vfs.FS, file, name string) *guess {
	if !isTable(file) {
		return nil
	}
	spec, err := matrix.ParseSpec(file)
	if err != nil {
		return nil
	}
	d, err := matrix.Describe(fsys, spec)
	if err != nil {
		return &guess{is: "it looks like a table that cannot be read", other: err.Error()}
	}
	columns := fmt.Sprintf("%d columns without names", d.Columns)
	if d.Names != nil {
		columns = fmt.Sprintf("the columns %.200s", strings.Join(d.Names, ", "))
	}
	if columnNamed(&d, sources) != "" && columnNamed(&d, targets) != "" || d.Names == nil && isEdges(&d) {
		g := &guess{is: "it looks like a table of edges with " + columns, flags: map[string]string{"edges": name}}
		if textEnds(&d) {
			g.flags["node-ids"] = raw.ByEdges
		}
		return g
	}
	return nodesIn(&d, name, columns)
}

// textEnds reports whether the ends of edges are names.
func textEnds(d *matrix.Description) bool {
	for i, c := range d.Names {
		if d.Text[i] && slices.Contains(slices.Concat(sources, targets), strings.ToLower(c)) {
			return true
		}
	}
	return d.Names == nil && d.Text[0]
}

// isEdges reports whether a table without names of columns may be edges: two integers, and one column
// more at most.
func isEdges(d *matrix.Description) bool {
	return (d.Columns == 2 || d.Columns == 3) && (d.Integer[0] && d.Integer[1] || d.Text[0] && d.Text[1])
}

// nodesIn is the guess for a table that is not of edges.
func nodesIn(d *matrix.Description, name, columns string) *guess {
	label, set, id := columnNamed(d, labelNames), columnNamed(d, setNames), columnNamed(d, idNames)
	var text, numbers []string
	for i := range d.Columns {
		column := strconv.Itoa(i)
		if d.Names != nil {
			column = d.Names[i]
		}
		switch {
		case d.Names != nil && (column == label || column == set || column == id):
		case d.Text[i]:
			text = append(text, column)
		default:
			numbers = append(numbers, column)
		}
	}
	g := &guess{is: "it looks like a table of nodes with " + columns, flags: map[string]string{"label-column": label, "split-column": set, "id-column": id}}
	switch {
	case len(numbers) == 0 && label == "":
		return nil
	case d.Columns == 1 && d.Integer[0]:
		g.is, g.flags = "it has one column of integers, which may be labels", map[string]string{"labels": name}
	case len(numbers) == 0:
		g.flags["labels"] = name
	default:
		g.flags["features"], g.flags["drop"] = name, strings.Join(text, ",")
	}
	return g
}
