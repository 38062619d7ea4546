package ogb_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/ogb"
	"diskgnn/internal/fault"
)

func packed(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// changed copies a fixture and replaces files of it, or removes those without content.
func changed(t *testing.T, fixture string, files map[string][]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "set")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("../testdata/ogb", fixture))); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if content != nil {
			importertest.Save(t, path, content)
		}
	}
	return dir
}

func opened(dir string) (importer.Source, error) {
	return ogb.Format.Open(datasettest.FS, []string{dir}, &importer.Reading{})
}

// TestManyEdges has types of edges of which there are as many as a number can say.
func TestManyEdges(t *testing.T) {
	many := packed("9223372036854775807\n")
	for types := 1; types <= 3; types++ {
		files := map[string][]byte{}
		for _, name := range []string{"author___writes___paper", "paper___cites___paper", "paper___in___venue"}[:types] {
			files[fmt.Sprintf("raw/relations/%s/num-edge-list.csv.gz", name)] = many
		}
		s, err := opened(changed(t, "hetero", files))
		if err != nil {
			t.Fatal(err)
		}
		if n := s.Shape().Edges; n != importer.MaxEdges+1 {
			t.Errorf("%d types: %d edges", types, n)
		}
	}
}

// TestTypesAreWrong has a graph whose types are wrong: nothing is said of the split, whose place is not
// known.
func TestTypesAreWrong(t *testing.T) {
	for fixture, file := range map[string]string{"hetero": "raw/num-node-dict.csv.gz", "hetero-binary": "raw/num_nodes_dict.npz"} {
		_, err := opened(changed(t, fixture, map[string][]byte{file: []byte("x")}))
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), filepath.Base(file)) || strings.Contains(err.Error(), "problems") {
			t.Errorf("%s: %v", fixture, err)
		}
	}
}
