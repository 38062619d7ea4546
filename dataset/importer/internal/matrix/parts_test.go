package matrix

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// TestFiles: parts in the order of their numbers, without the files that tell about the table.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"p/part-10.csv": []byte("9\n"), "p/part-2.csv": []byte("2\n"), "p/part-02.csv": []byte("3\n"), "p/part-1.csv": []byte("1\n"), "p/part.csv": []byte("0\n"), "p/_SUCCESS": nil, "p/.part-1.csv.crc": nil, "p/_metadata": nil,
		"p/other.txt": []byte("7\n"), "empty/_SUCCESS": nil, "empty/part.csv": nil, "some/a.csv": nil, "some/b.csv": []byte("4\n"), "some/c.csv": nil, "hive/year=1/a.csv": []byte("1\n"), "deep/a/b.csv": []byte("1\n"), "[x].csv": []byte("5\n"),
		"forms/a.csv": []byte("1\n"), "forms/b.npy": []byte("1\n"), "odd/a.json": nil, "cols/a.csv": []byte("x\n1\n"), "cols/b.csv": []byte("x,y\n1,2\n"), "names/a.csv": []byte("x\n1\n"), "names/b.csv": []byte("y\n1\n"),
	} {
		if err := vfs.OS.MkdirAll(filepath.Join(dir, filepath.Dir(name))); err != nil {
			t.Fatal(err)
		}
		importertest.Save(t, filepath.Join(dir, name), content)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for pattern, want := range map[string]string{
		"p/*.csv": "part-1.csv part-02.csv part-2.csv part-10.csv part.csv", "p/part-?.csv": "part-1.csv part-2.csv", "[x].csv": "[x].csv", "p/part.csv": "part.csv", "none.csv": "none.csv",
	} {
		files, err := Files(vfs.OS, Spec{Path: at(pattern)})
		for i := range files {
			files[i] = filepath.Base(files[i])
		}
		if got := strings.Join(files, " "); got != want || err != nil {
			t.Errorf("%s: %s, want %s; %v", pattern, got, want, err)
		}
	}
	if got, err := numbersOf(Open(vfs.OS, Spec{Path: at("p/*.csv")})); got != "[1][3][2][9][0]" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := numbersOf(Open(vfs.OS, Spec{Path: at("some")})); got != "[4]" || err != nil {
		t.Errorf("parts without a byte: %s, %v", got, err)
	}
	for name, says := range map[string]string{
		"empty": "empty has no files with parts of a table", "p/x*": "x* has no files with parts of a table", "hive": "the directory year=1 has a column's value in its name", "deep": "a is a directory instead of a part", "none/*.csv": "none is missing",
		"forms": "b.npy is of another form than", "odd": "a.json is a part of", "cols": "b.csv has 2 columns, but ", "names": `b.csv has the columns ["y"], but `,
	} {
		s := Spec{Path: at(name)}
		_, err := Open(vfs.OS, s)
		_, err2 := Describe(vfs.OS, s)
		for _, err := range []error{err, err2} {
			if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", name, err, says)
			}
		}
	}
	if _, err := Files(vfs.OS, Spec{Path: at("p/[")}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("a pattern that is none: %v", err)
	}
	if files, err := Files(vfs.OS, Spec{Path: at("p"), DType: "u1"}); err != nil || !slices.Equal(files, []string{at("p")}) {
		t.Errorf("%q, %v", files, err)
	}
}

// TestParts cuts a table into parts of any length, of every form, and reads it in any pieces.
func TestParts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir, form := t.TempDir(), rapid.SampledFrom([]string{".csv", ".npy", ".parquet"}).Draw(r, "form")
		files := importertest.NewFiles(vfs.OS)
		var want []float64
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 5), 1, 5).Draw(r, "rows") {
			var rows []edge
			var flat []int64
			text := "src,dst\n"
			for range n {
				e := edge{int64(len(want)), int64(i)}
				rows, flat, want = append(rows, e), append(flat, e.Src, e.Dst), append(want, float64(e.Src), float64(e.Dst))
				text += fmt.Sprintf("%d,%d\n", e.Src, e.Dst)
			}
			name := filepath.Join(dir, fmt.Sprintf("part-%d%s", i, form))
			switch form {
			case ".csv":
				importertest.Save(t, name, []byte(text))
			case ".npy":
				importertest.Save(t, name, importertest.NPY(fmt.Sprintf("(%d, 2)", n), flat))
			default:
				writeParquet(t, name, 2, rows)
			}
		}
		m, err := Open(files, Spec{Path: dir})
		if err != nil {
			r.Fatal(err)
		}
		if rows := int64(len(want) / 2); m.Columns() != 2 || !m.Integer() || m.Half() || m.Mask() || m.Rows() != rows && (form != ".csv" || m.Rows() != -1) {
			r.Errorf("%d × %d", m.Rows(), m.Columns())
		}
		d, err := Describe(files, Spec{Path: filepath.Join(dir, "*"+form)})
		if err != nil || d.Columns != 2 || d.Rows != m.Rows() {
			r.Errorf("%+v, %v", d, err)
		}
		for at := 0; at < len(want); {
			skip := rapid.IntRange(0, (len(want)-at)/2).Draw(r, "skip")
			if err := m.Skip(int64(skip)); err != nil {
				r.Fatal(err)
			}
			at += 2 * skip
			dst := make([]float64, 2*rapid.IntRange(1, 4).Draw(r, "take")+1)
			n, err := m.Doubles(dst)
			if n != min(len(dst)-1, len(want)-at) || !slices.Equal(dst[:n], want[at:at+n]) || err != nil {
				r.Fatalf("%v at %d of %v; %v", dst[:n], at, want, err)
			}
			at += n
		}
		if err := errors.Join(m.End(), m.Close()); err != nil {
			r.Error(err)
		}
		if len(want) > 0 {
			m, err := Open(files, Spec{Path: dir})
			if err != nil {
				r.Fatal(err)
			}
			if err := m.End(); !errors.Is(err, fault.ErrInput) {
				r.Errorf("rows follow: %v", err)
			}
			if err := m.Close(); err != nil {
				r.Error(err)
			}
		}
		var words []string
		for i := 0; i < len(want); i += 2 {
			words = append(words, fmt.Sprint(want[i+1], " ", want[i]))
		}
		if got, err := all(OpenWords(files, Spec{Path: dir, Columns: []string{"1", "0"}}, 2, true)); form != ".npy" && (got != strings.Join(words, ";") || err != nil) {
			r.Errorf("%q, want %q; %v", got, words, err)
		}
		if n, err := Held(files, Spec{Path: dir}, 0); err != nil || (n.Bytes > 0) != (form == ".parquet") {
			r.Errorf("%+v, %v", n, err)
		}
		if left := files.StillOpen(); len(left) > 0 {
			r.Errorf("%q are open", left)
		}
	})
}

// TestKeyedParts reads ids and numbers of a table in two files.
func TestKeyedParts(t *testing.T) {
	dir := t.TempDir()
	importertest.Tree{"1.csv": []byte("id,x\na,1\n"), "2.csv": []byte("id,x\nb,2\n")}.Write(t, dir)
	s := Spec{Path: dir, IDs: "id"}
	if keys, err := all(OpenKeys(vfs.OS, s)); keys != "a;b" || err != nil {
		t.Errorf("%q, %v", keys, err)
	}
	if rows, err := numbersOf(OpenKeyed(vfs.OS, s)); rows != "[1][2]" || err != nil {
		t.Errorf("%s, %v", rows, err)
	}
}
