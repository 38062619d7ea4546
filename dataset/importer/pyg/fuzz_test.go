package pyg_test

import (
	"os"
	"path/filepath"
	"testing"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/pyg"
)

// FuzzPickle fuzzes what the file says that its tensors are.
func FuzzPickle(f *testing.F) { fuzz(f, "testdata/data.pt") }

// FuzzSparse fuzzes the description of sparse tensors of torch.
func FuzzSparse(f *testing.F) { fuzz(f, "testdata/adj_csr.pt") }

// FuzzLibrary fuzzes the description of sparse tensors of torch_sparse.
func FuzzLibrary(f *testing.F) { fuzz(f, "testdata/library.pt") }

func fuzz(f *testing.F, fixture string) { fuzzAs(f, pyg.Format, fixture) }

func fuzzAs(f *testing.F, format importer.Format, fixture string) {
	seed, pack := importertest.Pickle(f, fixture)
	content, err := os.ReadFile(fixture)
	if err != nil {
		f.Fatal(err)
	}
	tree := f.TempDir()
	importertest.Save(f, filepath.Join(tree, "data.pt"), content)
	importertest.Fuzz(f, format, tree, "data.pt", seed, pack)
}
