package igb

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
)

// tree writes the files of processed, named as they are there; the names of empty directories end in a
// slash.
func tree(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, "processed", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if content != nil {
			importertest.Save(t, path, content)
		}
	}
	return dir
}

// zeros is an array of float16 or of bytes, whose file has no blocks but that of its header.
func zeros(t *testing.T, dir, name string, header []byte, bytes int64) {
	t.Helper()
	path := filepath.Join(dir, "processed", filepath.FromSlash(name))
	importertest.Save(t, path, header)
	if err := os.Truncate(path, int64(len(header))+bytes); err != nil {
		t.Fatal(err)
	}
}

// three is a graph of three papers of two features, the last of which are in the tail.
func three() map[string][]byte {
	return map[string][]byte{
		"paper/node_feat.npy":                importertest.NPY("(3, 2)", []float32{1, 2, 3, 4, 0, 0}),
		"paper/node_feat_5M_tail.npy":        importertest.NPY("(1, 2)", []float32{5, 6}),
		"paper/node_label_19.npy":            importertest.Vector([]float32{0, 18, 3}),
		"paper__cites__paper/edge_index.npy": importertest.NPY("(1, 2)", []int64{0, 1}),
	}
}

func opened(t *testing.T, dir string) importer.Source {
	t.Helper()
	s, err := Format.Open(datasettest.FS, []string{dir}, &importer.Reading{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPatchedRows reads features of two files from every node on, so many rows at a time.
func TestPatchedRows(t *testing.T) {
	short := three()
	short["paper/node_feat.npy"] = importertest.NPY("(2, 2)", []float32{1, 2, 3, 4})
	for _, files := range []map[string][]byte{three(), short} {
		readPatched(t, opened(t, tree(t, files)))
	}
}

func readPatched(t *testing.T, s importer.Source) {
	t.Helper()
	all := []float32{1, 2, 3, 4, 5, 6}
	for first := range int64(3) {
		for at := 1; at <= 3-int(first); at++ {
			rows, err := s.Features(first)
			if err != nil {
				t.Fatal(err)
			}
			var got []float32
			for left := 3 - int(first); left > 0; left -= at {
				values := make([]float32, 2*min(at, left))
				if err := rows.Next(values); err != nil {
					t.Fatal(err)
				}
				got = append(got, values...)
			}
			if want := all[2*first:]; !slices.Equal(got, want) {
				t.Errorf("from %d, %d at a time: %v, want %v", first, at, got, want)
			}
			if err := rows.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestFilesGo reads features and edges of files that are not there any more.
func TestFilesGo(t *testing.T) {
	for _, name := range []string{featFile, "node_feat_5M_tail.npy"} {
		dir := tree(t, three())
		s := opened(t, dir)
		if err := os.Remove(filepath.Join(dir, "processed", paper, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Features(0); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), name+" is missing") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestRefuses changes one file of a graph. The format is the homogeneous one's unless several types of
// edges need the other.
func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		what, file string
		content    []byte
		says       string
	}{
		{"a tail of more", "paper/node_feat_5M_tail.npy", importertest.NPY("(4, 2)", make([]float32, 8)), "tail.npy has 4 rows of 2 elements, which cannot be the last of 3 rows of 2 elements"},
		{"a wider tail", "paper/node_feat_5M_tail.npy", importertest.NPY("(1, 3)", make([]float32, 3)), "tail.npy has 1 rows of 3 elements, which cannot be the last of 3 rows of 2 elements"},
		{"a short table", "paper/node_feat.npy", importertest.NPY("(1, 2)", make([]float32, 2)), "node_feat.npy has features of 1 nodes, plus 1 in node_feat_5M_tail.npy, but there are labels of 3 nodes"},
		{"an empty table", "paper/node_feat.npy", []byte{}, "node_feat.npy has no header, and its 0 bytes are not whole rows of 1024 × float32"},
		{"no labels", "paper/node_label_19.npy", importertest.Vector([]float32{}), "node_label_19.npy"},
		{"two columns of labels", "paper/node_label_19.npy", importertest.NPY("(3, 2)", make([]float32, 6)), "labels have the shape (3, 2) instead of one column with at least 1 row"},
	} {
		files := three()
		files[c.file] = c.content
		_, err := Format.Open(datasettest.FS, []string{tree(t, files)}, &importer.Reading{})
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "problems") {
			t.Errorf("%s: %v, want %q alone", c.what, err, c.says)
		}
	}
	// Without labels nothing is said of how many features there are.
	files := three()
	delete(files, "paper/node_feat_5M_tail.npy")
	files["paper/node_label_19.npy"] = []byte("x")
	if _, err := Format.Open(datasettest.FS, []string{tree(t, files)}, &importer.Reading{}); !errors.Is(err, fault.ErrInput) || strings.Contains(err.Error(), "problems") || strings.Contains(err.Error(), "features of") {
		t.Errorf("labels of no shape: %v", err)
	}
	files = three()
	files["paper__paper/edge_index.npy"] = files["paper__cites__paper/edge_index.npy"]
	if _, err := Heterogeneous.Open(datasettest.FS, []string{tree(t, files)}, &importer.Reading{}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), `"paper__paper" is not HEAD__RELATION__TAIL`) {
		t.Errorf("two parts: %v", err)
	}
	if _, err := Format.Open(datasettest.FS, []string{tree(t, three())}, &importer.Reading{Task: "20"}); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--task 20: IGB has the tasks 19 and 2983") {
		t.Errorf("another task: %v", err)
	}
}

// TestFull opens a set as large as the full one, whose first papers have labels and a split by their
// order.
func TestFull(t *testing.T) {
	const nodes = 269_346_174
	files := three()
	delete(files, "paper/node_feat_5M_tail.npy")
	files["paper/node_label_2K.npy"] = nil
	dir := tree(t, files)
	for _, name := range []string{"paper/node_label_19.npy", "paper/node_label_2K.npy"} {
		zeros(t, dir, name, importertest.NPY("(269346174,)", []int8{}), nodes)
	}
	zeros(t, dir, "paper/node_feat.npy", importertest.NPY("(269346174, 1)", []uint16{}), 2*nodes)
	for task, want := range map[string]int64{"19": 227_130_858, "2983": 157_675_969} {
		s, err := Format.Open(datasettest.FS, []string{dir}, &importer.Reading{Task: task})
		if err != nil {
			t.Fatal(err)
		}
		if got, sh := s.(*source).prefix, s.Shape(); got != want || sh.NoSplit || sh.Split != nil || sh.Nodes != nodes {
			t.Errorf("task %s: the first %d are labelled, want %d; %+v", task, got, want, sh)
		}
	}
	small := opened(t, tree(t, three())).(*source)
	if !small.sh.NoSplit || small.prefix != 0 {
		t.Errorf("%+v", small)
	}
}

// TestDetect looks at a directory, at none and at two.
func TestDetect(t *testing.T) {
	dir := tree(t, three())
	for _, c := range []struct {
		sources []string
		want    string
	}{{[]string{dir}, "it has processed/paper__cites__paper/edge_index.npy"}, {nil, ""}, {[]string{dir, dir}, ""}, {[]string{filepath.Join(dir, "processed")}, ""}} {
		if got := detect(datasettest.FS, c.sources); got != c.want {
			t.Errorf("%v: %q, want %q", c.sources, got, c.want)
		}
	}
}
