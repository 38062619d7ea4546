package matrix

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/internal/text"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// numbersOf returns all numbers of a matrix, rows in brackets.
func numbersOf(m Matrix, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var b strings.Builder
	row := make([]float64, m.Columns())
	for {
		n, err := m.Doubles(row)
		if err != nil || n == 0 {
			return b.String(), errors.Join(err, m.Close())
		}
		fmt.Fprint(&b, row)
	}
}

// TestSelect chooses columns by names, numbers, ranges and patterns, by hand.
func TestSelect(t *testing.T) {
	named := Description{Columns: 6, Names: []string{"id", "f0", "f1", "a/b", "f0", "2"}}
	plain := Description{Columns: 4}
	for _, c := range []struct {
		d               Description
		columns, except string // with blanks
		want            string
		says            string
	}{
		{named, "", "", "[0 1 2 3 4 5]", ""},
		{named, "f1 id", "", "[2 0]", ""},
		{named, "f0", "", "[1 4]", ""}, // a list has a name for each element
		{named, "f*", "", "[1 2 4]", ""},
		{named, "f* id f1", "", "[1 2 4 0]", ""},
		{named, "f?", "f1", "[1 4]", ""},
		{named, "", "id f*", "[3 5]", ""},
		{named, "a*", "", "[3]", ""}, // slashes are letters
		{named, "2", "", "[5]", ""},  // the name comes before the number
		{named, "0 3", "", "[0 3]", ""},
		{named, "1-3", "", "[1 2 3]", ""},
		{named, "3-3", "", "[3]", ""},
		{named, "id-f1", "", "[0 1 2]", ""},
		{named, "f9", "", "", `no column is "f9"; it has the columns ["id" "f0" "f1" "a/b" "f0" "2"]`},
		{named, "6", "", "", `no column is "6"`},
		{named, "-1", "", "", `no column is "-1"`},
		{named, "+1", "", "", `no column is "+1"`},
		{named, "3-1", "", "", `no column is "3-1"`},
		{named, "id", "f9", "", `no column is "f9"`},
		{named, "id", "i*", "", "no column is left"},
		{named, "[", "", "", `"[" is not a pattern`},
		{plain, "3 0", "", "[3 0]", ""},
		{plain, "0-3", "2", "[0 1 3]", ""},
		{plain, "id", "", "", "it has columns without names, 0-3"},
		{Description{Columns: 1}, "x", "", "", "it has one column without a name, 0"},
		{Description{Columns: 30, Names: slices.Repeat([]string{"c"}, 30)}, "x", "", "", `"c"] and 10 more`},
	} {
		got, err := c.d.Select(Spec{Path: "x.csv", Columns: strings.Fields(c.columns), Except: strings.Fields(c.except)})
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) || !errors.Is(err, fault.ErrInput) && c.columns != "[" {
				t.Errorf("%q but %q: %v, want %q", c.columns, c.except, err, c.says)
			}
		} else if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%q but %q: %v, want %s; %v", c.columns, c.except, got, c.want, err)
		}
	}
}

// TestDescribeAndChoose describes one table in several forms, and reads columns of it.
func TestDescribeAndChoose(t *testing.T) {
	dir := t.TempDir()
	importertest.Tree{
		"comma.csv":   []byte("\xef\xbb\xbfid,\"na,me\",x,n\r\n7,\"a \"\"b\"\"\",.5,3\r\n8,c,,4\r\n"),
		"semi.csv":    []byte("id;na,me;x;n\n7;\"a \"\"b\"\"\";.5;3\n8;c;;4\n"),
		"tab.tsv":     []byte("id\t\"na,me\"\tx\tn\n7\t\"a \"\"b\"\"\"\t.5\t3\n8\tc\t\t4\n"),
		"pipe.txt":    []byte("id|na,me|x|n\n7|\"a \"\"b\"\"\"|.5|3\n8|c||4\n"),
		"comma2.csv":  []byte("id,\"na,me\",x,n\n7,\"a \"\"b\"\"\",0.5,3.0\n8.0,c,,4\n"),
		"comment.txt": []byte("# id na,me x n\n7 a .5 3\n"),
		"pandas.csv":  []byte("id,0,1,label\n9,.5,.25,1\n"),
		"index.csv":   []byte(",0,1\n0,.5,.25\n"),
		"a.npy":       importertest.NPY("(2, 3)", []int64{1, 2, 3, 4, 5, 6}),
	}.Write(t, dir)
	x := .5
	writeParquet(t, filepath.Join(dir, "p.parquet"), 1, []struct {
		ID   int32    `parquet:"id"`
		Name string   `parquet:"name"`
		X    *float64 `parquet:"x,optional"`
		N    int64    `parquet:"n"`
	}{{7, `a "b"`, &x, 3}, {8, "c", nil, 4}})
	for _, name := range []string{"comma.csv", "semi.csv", "tab.tsv", "pipe.txt", "comma2.csv", "p.parquet"} {
		s := Spec{Path: filepath.Join(dir, name)}
		d, err := Describe(vfs.OS, s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rows := int64(-1)
		if name == "p.parquet" {
			rows = 2
			d.Names[1] = "na,me"
		}
		if d.Columns != 4 || !slices.Equal(d.Names, []string{"id", "na,me", "x", "n"}) || fmt.Sprint(d.Text, d.Integer) != "[false true false false] [true false false true]" || d.Rows != rows {
			t.Errorf("%s: %+v", name, d)
		}
		for columns, want := range map[string]string{"n,id": "[3 7][4 8]", "n": "[3][4]", "x,0": "[0.5 7][NaN 8]"} {
			s.Columns = strings.Split(columns, ",")
			if got, err := numbersOf(Open(vfs.OS, s)); got != want || err != nil {
				t.Errorf("%s: columns %s: %s, want %s; %v", name, columns, got, want, err)
			}
		}
		s.Columns, s.Except = nil, []string{"1"}
		if got, err := numbersOf(Open(vfs.OS, s)); got != "[7 0.5 3][8 NaN 4]" || err != nil {
			t.Errorf("%s: all but the second: %s, %v", name, got, err)
		}
		s.Except = nil
		for column, want := range map[string]string{"id": "7;8", "1": `a "b";c`, "x": "0.5;", "n": "3;4"} {
			s.Columns = []string{column}
			got, err := all(OpenColumn(vfs.OS, s))
			if strings.HasPrefix(got, ".5") {
				got = "0" + got
			}
			if name == "comma2.csv" && (column == "n" || column == "id") { // as they are written
				got = strings.ReplaceAll(got, ".0", "")
			}
			if got != want || err != nil {
				t.Errorf("%s: column %s: %q, want %q; %v", name, column, got, want, err)
			}
		}
		s.Columns = []string{"n", "id"}
		if got, err := all(OpenWords(vfs.OS, s, 2, true)); strings.ReplaceAll(got, ".0", "") != "3 7;4 8" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		s.Columns, s.IDs = []string{"n", "x"}, "1"
		if got, err := all(OpenKeys(vfs.OS, s)); got != `a "b";c` || err != nil {
			t.Errorf("%s: keys %q, %v", name, got, err)
		}
		if got, err := numbersOf(OpenKeyed(vfs.OS, s)); got != "[3 0.5][4 NaN]" || err != nil {
			t.Errorf("%s: keyed %s, %v", name, got, err)
		}
	}
	for _, c := range []struct{ name, columns, want string }{
		{"comment.txt", "n,id", "[3 7]"}, {"pandas.csv", "1,0", "[0.25 0.5]"}, {"index.csv", "0,1", "[0.5 0.25]"}, {"a.npy", "2,0", "[3 1][6 4]"}, {"a.npy", "0-1", "[1 2][4 5]"}, {"a.npy", "0-2", "[1 2 3][4 5 6]"},
	} {
		if got, err := numbersOf(Open(vfs.OS, Spec{Path: filepath.Join(dir, c.name), Columns: strings.Split(c.columns, ",")})); got != c.want || err != nil {
			t.Errorf("%s: %s, want %s; %v", c.name, got, c.want, err)
		}
	}
	for name, says := range map[string]string{"comma.csv": `no column is "q"; it has the columns ["id" "na,me" "x" "n"]`, "p.parquet": `no column is "q"; it has the columns ["id" "name" "x" "n"]`, "a.npy": `no column is "q"; it has columns without names, 0-2`} {
		if _, err := Open(vfs.OS, Spec{Path: filepath.Join(dir, name), Columns: []string{"q"}}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
}

// TestHeaders: whether the first of two lines has names.
func TestHeaders(t *testing.T) {
	for lines, want := range map[string]bool{
		"a,b\n1,2": true, "id,0,1\n0,5,6": true, ",0,1\n0,5,6": true, ",0,2\n0,5,6": false, "1,2\n3,4": false, "x,1\ny,2": false, "x,1\n3,2": true,
		"na,1\n3,2": false, "?,1\n3,2": false, ",x\n1,2": true, "1,\n2,3": false, "a,b\nc,d": false, "src,b\nc,d": true, "a,x\n1": true, "label,b\nc,d": true, "rowid,b\nc,d": true, ",b\nc,d": false,
	} {
		var rows [][]string
		for line := range strings.SplitSeq(lines, "\n") {
			rows = append(rows, strings.Split(line, ","))
		}
		if got := isHeader(rows, lookOptions{words: true, key: -1}); got != want {
			t.Errorf("%q: %v", lines, got)
		}
	}
}

// TestOpenEdges reads the edges 7→1, 8→2 from tables with other columns.
func TestOpenEdges(t *testing.T) {
	dir := t.TempDir()
	importertest.Tree{
		"named.csv":   []byte("id,dst,w,src\n0,1,.5,7\n1,2,.5,8\n"),
		"weights.csv": []byte("7,1,.5\n8,2,.5\n"),
		"first.txt":   []byte("0.5 7 1\n0.5 8 2\n"),
		"nx.edgelist": []byte("7 1 {}\n8 2 {}\n"),
		"nx.txt":      []byte("7 1 {'weight': 3, 'time': 'x y'}\n8 2 {'weight': 3}\n"),
		"nx.csv":      []byte("7,1,{'a': 3}\n8,2,{}\n"),
		"two.csv":     []byte("dst,src\n1.0,7.0\n2,8\n"),
		"savetxt.txt": []byte("7.000e+00 1.000e+00 5.000e-01\n8.000e+00 2.000e+00 5.000e-01\n"),
		"semi.csv":    []byte("source;target\n7;1\n8;2\n"),
		"comment.txt": []byte("# dst src w\n1 7 .5\n2 8 .5\n"),
		"other.csv":   []byte("u,v,w\n7,1,.5\n8,2,.5\n"),
		"many.csv":    []byte("src,source,dst\n7,1,2\n"),
		"only.csv":    []byte("7,.5,.5\n"),
	}.Write(t, dir)
	writeParquet(t, filepath.Join(dir, "p.parquet"), 1, []struct {
		W   float32 `parquet:"w"`
		To  int32   `parquet:"target"`
		N   string  `parquet:"n"`
		Src int64   `parquet:"source"`
	}{{.5, 1, "x", 7}, {.5, 2, "y", 8}})
	for _, c := range []struct {
		name, columns string
		dropped       string
		says          string
	}{
		{"named.csv", "", `["id" "w"]`, ""},
		{"named.csv", "src dst", `["id" "w"]`, ""},
		{"named.csv", "3 1", `["id" "w"]`, ""},
		{"weights.csv", "", `["column 2"]`, ""},
		{"first.txt", "", `["column 0"]`, ""},
		{"nx.edgelist", "", `[]`, ""},
		{"nx.txt", "", `["weight" "time"]`, ""},
		{"nx.csv", "", `["a"]`, ""},
		{"two.csv", "", `[]`, ""},
		{"savetxt.txt", "", `["column 2"]`, ""},
		{"semi.csv", "", `[]`, ""},
		{"comment.txt", "", `["w"]`, ""},
		{"p.parquet", "", `["w" "n"]`, ""},
		{"other.csv", "u v", `["w"]`, ""},
		{"other.csv", "", "", `give --edge-columns; it has the columns ["u" "v" "w"]`},
		{"many.csv", "", "", "give --edge-columns"},
		{"many.csv", "s*", "", ""},
		{"only.csv", "", "", "edges need two columns, sources and destinations; it has columns without names, 0-2"},
		{"named.csv", "src", "", "1 columns are chosen as the ends of edges"},
	} {
		s := Spec{Path: filepath.Join(dir, c.name), Columns: strings.Fields(c.columns)}
		m, e, err := OpenEdges(vfs.OS, s)
		if c.says != "" {
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %q", c.name, err, c.says)
			}
			continue
		}
		if c.name == "many.csv" {
			if err != nil || m.Close() != nil {
				t.Error(err)
			}
			continue
		}
		var got []int64
		if err == nil {
			got = make([]int64, 6)
			var n int
			n, err = m.Ints(got)
			got = got[:n]
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		if !slices.Equal(got, []int64{7, 1, 8, 2}) || fmt.Sprintf("%q", e.Dropped) != c.dropped || err != nil {
			t.Errorf("%s: %v without %q; %v", c.name, got, e.Dropped, err)
		}
		want := "7 1;8 2"
		words, e, err := OpenEnds(vfs.OS, s)
		if got, err := all(words, err); c.name != "two.csv" && c.name != "savetxt.txt" && c.name != "first.txt" && (got != want || fmt.Sprintf("%q", e.Dropped) != c.dropped || err != nil) {
			t.Errorf("%s: %q without %q, %v", c.name, got, e.Dropped, err)
		}
	}
}

// TestFirstLines reads tables with first lines of several meanings.
func TestFirstLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.csv")
	for text, want := range map[string]string{
		// pandas' names of columns without names; whole numbers below them are rows as well
		"0,1\n0.5,1.0\n2.0,1e-05\n": `["0" "1"] [0.5 1][2 1e-05]`,
		"0,1\n0.5,1\n":              "[] [0 1][0.5 1]",
		"0,1\n0.5\n":                "",
		"0\n0.5\n":                  "[] [0][0.5]",
		"1,0\n0.5,1.0\n":            "[] [1 0][0.5 1]",
		"0.0,1.0\n0.5,1.0\n":        "[] [0 1][0.5 1]",
		"0,1\n0.5,nan\n":            "[] [0 1][0.5 NaN]",
		",0,1\n0,1,1\n":             `["" "0" "1"] [0 1 1]`,
		// truths
		"True,False\nFalse,True\n":  "[] [1 0][0 1]",
		"a,b\ntrue,FALSE\n1,TRUE\n": `["a" "b"] [1 0][1 1]`,
		// comments, which may name the columns
		"# a\n1,2\n# b\n3,4\n":     "[] [1 2][3 4]",
		"# one, two, three\n1,2\n": "[] [1 2]",
		"# one,two\n1,2\n":         `["# one" "two"] [1 2]`,
		"# a\n":                    `["# a"] `,
	} {
		importertest.Save(t, name, []byte(text))
		m, err := Open(vfs.OS, Spec{Path: name})
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		names := m.Names()
		got, err := numbersOf(m, nil)
		if got = fmt.Sprintf("%q %s", names, got); err != nil != (want == "") || err == nil && got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	// Truths are no ids.
	importertest.Save(t, name, []byte("src,dst\nTrue,1\n"))
	m, _, err := OpenEdges(vfs.OS, Spec{Path: name})
	if err == nil {
		_, err = m.Ints(make([]int64, 2))
		err = errors.Join(err, m.Close())
	}
	if !errors.Is(err, fault.ErrInput) {
		t.Errorf("edges of truths: %v", err)
	}
}

// TestNotNumbers says why lines are not rows.
func TestNotNumbers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.csv")
	for text, says := range map[string]string{
		"a;b\n1,5;2,5\n":        `line 2 is "1,5;2,5" instead of 2 numbers; a decimal point must be a point, not a comma`,
		"1,5;2,5\n3,5;1,5\n":    "a decimal point must be a point, not a comma",
		"src,dst\n1,2\n3.5,1\n": `line 3 is "3.5,1" instead of 2 integers`,
		"src,dst\n1,2\n,1\n":    `line 3 is ",1" instead of 2 integers`,
		"src,dst\n1,2\n1,2,3\n": "instead of 2 integers",
		"src,dst\n1,2\n\"1,2\n": `line 3 is "\"1,2" instead of 2 integers; its quotes do not close: a field may have no line break`,
		"src,dst\n" + strings.Repeat("1,2\n", 60) + "\"1,2\n": `line 62 is "\"1,2" instead of 2 integers; its quotes do not close`,
		"src,dst\n9e15,2\n1e16,3\n":                           `line 3 is "1e16,3" instead of 2 integers`,
	} {
		importertest.Save(t, name, []byte(text))
		m, err := Open(vfs.OS, Spec{Path: name})
		if err == nil {
			if strings.HasPrefix(text, "src") {
				_, err = m.Ints(make([]int64, 200))
			} else {
				_, err = m.Doubles(make([]float64, 10))
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// TestOpenTextOfColumns: lines have the number of fields that is asked for, and lines that are too long
// are errors, also if they are skipped.
func TestOpenTextOfColumns(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.csv")
	importertest.Save(t, name, []byte("1,2,3\n"))
	m, err := OpenText(vfs.OS, name, text.Format{Columns: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Ints(make([]int64, 4)); m.Columns() != 2 || !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "instead of 2 integers") {
		t.Errorf("%d columns, %v", m.Columns(), err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	importertest.Save(t, name, []byte("1,2\n"+strings.Repeat("1", 300<<10)))
	m, err = Open(vfs.OS, Spec{Path: name})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Skip(2); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "line 2 is too long") {
		t.Errorf("%v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
