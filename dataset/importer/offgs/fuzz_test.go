package offgs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/offgs"
	"diskgnn/internal/fault"
)

// FuzzConf checks that no conf.json makes a graph of anything but the files beside it.
func FuzzConf(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "tree")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "dgl"))); err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"bolt", "dgl"} {
		text, err := os.ReadFile(filepath.Join("testdata", name, "conf.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(`{"num_nodes": 20, "features_shape": [20, 3], "features_dtype": "<f4", "num_classes": 1, "label_offset": 19}`)
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(filepath.Join(dir, "conf.json"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := offgs.Format.Open(datasettest.FS, []string{dir}, &importer.Reading{})
		if err != nil {
			if !errors.Is(err, fault.ErrInput) || strings.Contains(err.Error(), "\n") {
				t.Fatal(err)
			}
			return
		}
		sh := s.Shape()
		if sh.Nodes*int64(sh.Dim) > 240 || sh.Nodes < 15 || sh.Edges != 60 || sh.Classes < 1 {
			t.Fatalf("%q: %+v", text, sh)
		}
		rows, err := s.Features(0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(rows.Next(make([]float32, sh.Nodes*int64(sh.Dim))), rows.Close()); err != nil {
			t.Fatal(err)
		}
	})
}
