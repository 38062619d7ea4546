package matrix

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/internal/torchfile"
	"diskgnn/internal/vfs"
)

// contents reads a file in every way in which importers do, and returns all that it has. Errors that do
// not tell errBoom, or a damaged archive, are part of the result.
func contents(t *testing.T, fsys vfs.FS, s Spec) (found []any, err error) {
	keep := func(v any, failed error) {
		if failed != nil && (strings.Contains(failed.Error(), errBoom.Error()) || strings.Contains(failed.Error(), "not a valid zip file")) {
			err = errors.Join(err, failed)
		}
		found = append(found, v, failed == nil)
	}
	rows := func(m Matrix, err error) {
		if err != nil {
			keep(nil, err)
			return
		}
		x := make([]float64, 300*m.Columns())
		n, err := m.Doubles(x)
		keep(x[:n], errors.Join(err, m.Close()))
	}
	rows(Open(fsys, s))
	if isTorch(s.Path) {
		keep(Keys(fsys, s))
		rows(OpenTorch(fsys, s.Path, "", torchfile.Only))
	} else {
		m, _, err := OpenEdges(fsys, s)
		rows(m, err)
		keep(all(OpenColumn(fsys, s)))
		keep(all(OpenKeys(fsys, s)))
		keep(Held(fsys, s, 0))
	}
	if p, err := OpenSparse(fsys, s); err == nil && p != nil {
		edges, err := edgesOf(t, p, true)
		keep(edges, err)
	} else {
		keep(nil, err)
	}
	return found, err
}

var errBoom = errors.New("boom")

// TestFilesFail fails each opening and each reading of files of all forms in turn: each failure is an
// error of the reader, or makes no difference, and no file stays open.
func TestFilesFail(t *testing.T) {
	dir := t.TempDir()
	importertest.Tree{
		"a.npy": importertest.NPY("(3, 2)", []int32{1, 2, 3, 4, 5, 6}), "z.npz/k": importertest.NPY("(3, 2)", []int64{1, 2, 3, 4, 5, 6}),
		"t.csv": []byte("a,b\n1,2\n3,4\n"), "t.tsv.gz": gzipped(t, "1\t2\n3\t4\n"),
		"few.parquet": nil, "parts/1.csv": []byte("1,2\n"), "parts/2.csv": []byte("3,4\n"),
	}.Write(t, dir)
	writeParquet(t, filepath.Join(dir, "few.parquet"), 2, []struct{ A, B int64 }{{1, 2}, {3, 4}, {5, 6}})
	at := func(name string) Spec { return Spec{Path: filepath.Join(dir, name)} }
	pyg := func(name string) Spec { return Spec{Path: filepath.Join("../../pyg/testdata", name)} }
	for _, s := range []Spec{
		at("a.npy"), {Path: filepath.Join(dir, "z.npz"), Key: "k"}, at("t.csv"), at("t.tsv.gz"), at("few.parquet"), at("parts"),
		{Path: fixture("a_coo.npz")}, {Path: fixture("x_csr.npz")}, {Path: fixture("graph.mtx")}, {Path: fixture("column.mtx")}, {Path: fixture("few.feather")},
		pyg("x.pt"), pyg("x_csr.pt"),
	} {
		good, err := contents(t, vfs.OS, s)
		if err != nil {
			t.Fatal(s, err)
		}
		for fail := range importertest.Failures(t, vfs.OS, errBoom, vfs.OpOpen, vfs.OpRead) {
			got, err := contents(t, fail, s)
			if err == nil && !reflect.DeepEqual(got, good) {
				t.Errorf("%s, %v: it makes a difference, and no error", s.Path, fail)
			}
		}
	}
}

// TestKeys lists the values of files of torch and of archives.
func TestKeys(t *testing.T) {
	for name, want := range map[string]string{"../../../pyg/testdata/split_idx.pt": "split_idx", "../../../pyg/testdata/x.pt": "", "a_csr.npz": "data"} {
		keys, err := Keys(vfs.OS, Spec{Path: fixture(name)})
		if err != nil || slices.Contains(keys, want) != (want != "") {
			t.Errorf("%s: %q, %v", name, keys, err)
		}
	}
}

// TestCountTexts counts words up to one that is cut.
func TestCountTexts(t *testing.T) {
	word := func(size byte, letters string) string { return string([]byte{size, 0, 0, 0}) + letters }
	for text, want := range map[string]int{
		"": 0, "abc": 0, word(0, ""): 1, word(1, ""): 0, word(1, "a"): 1, word(2, "a"): 0, word(1, "a") + word(0, "") + word(2, "bc"): 3,
		word(1, "a") + word(1, ""): 1, word(1, "a") + word(2, "b"): 1, word(1, "a") + "bcd": 1, "\xff\xff\xff\xff" + strings.Repeat("a", 9): 0,
	} {
		if got := countTexts([]byte(text)); got != want {
			t.Errorf("%q: %d words, want %d", text, got, want)
		}
	}
}
