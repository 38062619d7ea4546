package raw_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/raw"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// TestParts imports edges, features and labels that lie in several files, and as one file: the datasets
// have the same content. All parts are in the list of files.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"e.csv": "src,dst\n0,1\n0,2\n3,0\n", "e/part-2.csv": "src,dst\n0,2\n", "e/part-1.csv": "src,dst\n0,1\n", "e/part-10.csv": "src,dst\n3,0\n", "e/_SUCCESS": "",
		"f.csv": "x,y\n.5,1\n1.5,2\n2.5,3\n3.5,4\n", "f/a.csv": "x,y\n.5,1\n", "f/b.csv": "x,y\n1.5,2\n2.5,3\n3.5,4\n",
		"l.csv": "0\n1\n0\n1\n", "l0.txt": "0\n1\n", "l1.txt": "0\n1\n", "s0.csv": "0\n1\n", "s1.csv": "2\n", "s2.csv": "3\n",
	} {
		if err := vfs.OS.MkdirAll(filepath.Dir(at(name))); err != nil {
			t.Fatal(err)
		}
		importertest.Save(t, at(name), []byte(text))
	}
	for _, ids := range []string{"", raw.ByEdges} {
		var want string
		for _, parts := range []bool{false, true} {
			files := []string{"e.csv", "f.csv", "l.csv", "s0.csv", "s1.csv", "s2.csv"}
			if parts {
				files = append([]string{"e", "f", "l?.txt"}, files[3:]...)
			}
			if ids != "" {
				files[1], files[2] = "random:2", "random:2"
			}
			o := importer.Options{Reading: reading(at, files[0], files[1], files[2], files[3:]...)}
			o.NodeIDs = ids
			out := filepath.Join(vfstest.TempDir(t), "D")
			if _, err := importer.Import(t.Context(), datasettest.FS, out, raw.Format, o, progress.Discard); err != nil {
				t.Fatalf("%q: %v", files, err)
			}
			got := importertest.Nodes(t, out)
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("%q: %s, want %s", files, got, want)
			}
		}
	}
	s, err := opened(reading(at, "e", "f", "l?.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range s.Files() {
		names = append(names, filepath.Base(file))
	}
	if got := strings.Join(names, " "); got != "part-1.csv part-2.csv part-10.csv a.csv b.csv l0.txt l1.txt" {
		t.Errorf("%s", got)
	}
	if n := s.CountEdges(map[string]int64{at("e/part-1.csv"): 2, at("e/part-2.csv"): 2, at("e/part-10.csv"): 2}); n != 6 {
		t.Errorf("at most %d edges", n)
	}
	var edges []int64
	if err := s.Edges(t.Context(), func(dst, src []int64) error {
		for i := range dst {
			edges = append(edges, src[i], dst[i])
		}
		return nil
	}); err != nil || !slices.Equal(edges, []int64{0, 1, 0, 2, 3, 0}) {
		t.Errorf("%v, %v", edges, err)
	}
}
