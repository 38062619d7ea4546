package dataset_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// TestReadNumbersChecks reads the ids that were written, and refuses them once a bit is another:
// Begin has checked the file, and others may have written to it since.
func TestReadNumbersChecks(t *testing.T) {
	out := filepath.Join(t.TempDir(), "D")
	w, _, err := dataset.Begin(t.Context(), datasettest.FS, out, struct{}{}, dataset.Form{OriginalIDs: true}, false, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.End(nil) }()
	want := []int64{2, 0, 1}
	w.Facts().Nodes, w.Facts().OriginalIDs = 3, dataset.IDNumbers
	a, err := w.Create(dataset.NodeIDsFile)
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Write(binio.Bytes(want))
	if err := errors.Join(err, a.Finish(), w.Save()); err != nil {
		t.Fatal(err)
	}
	read := func() ([]int64, error) {
		var got []int64
		err := w.ReadNumbers(t.Context(), dataset.NodeIDsFile, func(_ int64, some []int64) { got = append(got, some...) })
		return got, err
	}
	if got, err := read(); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v, %v", got, err)
	}
	name := filepath.Join(w.Path(), dataset.NodeIDsFile)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[3] ^= 1
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
	if got, err := read(); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a flipped bit: %v, %v", got, err)
	}
}
