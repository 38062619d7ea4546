package pyg_test

import (
	"os"
	"path/filepath"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/dataset/importer/pyg"
	"diskgnn/internal/dtype"
)

// TestFixtures compares what is imported with what PyTorch Geometric loads from its files.
func TestFixtures(t *testing.T) {
	for name, edges := range map[string]int64{"data": 60, "tuple": 60, "object": 60, "many": 60, "arrays": 60} {
		t.Run(name, func(t *testing.T) {
			out, res := importertest.Imported(t, pyg.Format, filepath.Join("testdata", name+".pt"), importer.Reading{})
			if res.Edges != edges || res.Nodes != 20 || res.Dim != 4 || (res.DType == dtype.Float16) != (name == "many") {
				t.Errorf("%+v", res)
			}
			golden := name
			if name == "object" { // the graph of tuple
				golden = "tuple"
			}
			importertest.SameNodes(t, out, filepath.Join("testdata", golden+".txt"))
		})
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "processed"), 0o777); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, "has no processed/data.pt and no data.pt")
	if err := os.Mkdir(filepath.Join(dir, "raw"), 0o777); err != nil {
		t.Fatal(err)
	}
	pickles := filepath.Join(dir, "raw", "ind.cora.x")
	importertest.Save(t, pickles, nil)
	refused(t, dir, "import the processed/data.pt that it writes")
	refused(t, filepath.Join(dir, "raw"), "Planetoid's pickles")
	if pyg.Format.Detect(datasettest.FS, []string{dir}) != "it has Planetoid's files" {
		t.Error("Planetoid's files are not found")
	}
	content, err := os.ReadFile(filepath.Join("testdata", "data.pt"))
	if err != nil {
		t.Fatal(err)
	}
	importertest.Save(t, filepath.Join(dir, "processed", "data.pt"), content)
	importertest.Imported(t, pyg.Format, dir, importer.Reading{})
	if pyg.Format.Detect(datasettest.FS, []string{dir}) == "" || pyg.Format.Detect(datasettest.FS, []string{t.TempDir()}) != "" {
		t.Error("a data set's directory is not found, or an empty one is")
	}
}

func TestRefuses(t *testing.T) {
	for name, says := range map[string]string{
		"hetero.pt": "a graph of several types (HeteroData)",
		"two.pt":    "several graphs",
		"none.pt":   "none.pt is missing",
		"make.py":   "no archive of torch.save",
		"../../internal/torchfile/testdata/one-2.2.1.pt":     "it holds no graph of PyTorch Geometric",
		"../../internal/torchfile/testdata/tensors-2.2.1.pt": "its graph has no x, but int64, int32",
	} {
		refused(t, filepath.Join("testdata", name), says)
	}
}

func refused(t *testing.T, source, says string) {
	t.Helper()
	importertest.Refused(t, pyg.Format, source, importer.Reading{}, says)
}
