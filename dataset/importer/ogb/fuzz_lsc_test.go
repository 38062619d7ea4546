package ogb_test

import (
	"archive/zip"
	"errors"
	"io"
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

// FuzzLSC checks that no meta.pt and split_dict.pt make a graph of anything but the arrays beside
// them.
func FuzzLSC(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "set")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "testdata", "ogb", "mag240m_kddcup2021"))); err != nil {
		f.Fatal(err)
	}
	pickle := func(name string) string {
		z, err := zip.OpenReader(filepath.Join(dir, name+".pt"))
		if err != nil {
			f.Fatal(err)
		}
		defer z.Close()
		r, err := z.Open(name + "/data.pkl")
		if err != nil {
			f.Fatal(err)
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil {
			f.Fatal(err)
		}
		return string(b)
	}
	f.Add(pickle("meta"), pickle("split_dict"))
	f.Fuzz(func(t *testing.T, meta, split string) {
		importertest.Save(t, filepath.Join(dir, "meta.pt"), importertest.Torch(t, meta))
		importertest.Save(t, filepath.Join(dir, "split_dict.pt"), importertest.Torch(t, split))
		s, err := ogb.Format.Open(datasettest.FS, []string{dir}, &importer.Reading{})
		if err != nil {
			if !errors.Is(err, fault.ErrInput) || strings.Contains(err.Error(), "\n") {
				t.Fatal(err)
			}
			return
		}
		for _, name := range s.Files() {
			if !strings.HasPrefix(name, dir+string(filepath.Separator)) {
				t.Fatalf("it reads %s", name)
			}
		}
		if sh := s.Shape(); sh.Nodes < 13 || sh.Dim != 6 || sh.Edges != 51 {
			t.Fatalf("%+v", sh)
		}
	})
}
