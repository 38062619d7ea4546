package dataset_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
)

// TestOffsetsAndPages: offsets are those of indptr, and the table of the indices' pages is made
// once, beside that of the features, and again where it does not agree with the dataset.
func TestOffsetsAndPages(t *testing.T) {
	raw := datasettest.Params{Nodes: 2000, AvgDegree: 9}.Raw()
	d := datasettest.Create(t, t.TempDir(), raw)
	o, err := d.Offsets(t.Context(), progress.Discard)
	if err != nil || o.NumNodes() != 2000 || o.NumEdges() != int64(len(raw.Indices)) {
		t.Fatal(o, err)
	}
	for v, p := range raw.Indptr {
		if o.Start(int64(v)) != p {
			t.Fatalf("node %d begins at %d, want %d", v, o.Start(int64(v)), p)
		}
	}
	want := pageSums(binio.Bytes(raw.Indices))
	name := filepath.Join(d.Dir(), "indices.bin.pages")
	for i, made := range []bool{true, false, true} {
		s, read, err := d.IndicesPageSums(t.Context(), progress.Discard, o)
		if err != nil || !slices.Equal(s.CRC, want) || (read == d.IndicesBytes()) != made || d.IndicesPageSumsBytes() != int64(4*len(want)) {
			t.Fatalf("%d: %d bytes read, %v", i, read, err)
		}
		if i == 1 {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			b[30] ^= 1
			if err := os.WriteFile(name, b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(d.Dir(), dataset.PageSumsFile)); err == nil {
		t.Error("a table of the features was made")
	}
	var got []uint32
	if err := d.ScanIndices(t.Context(), progress.Discard, "", func(first int64, sources []uint32) error {
		if first != int64(len(got)) {
			t.Errorf("edge %d follows %d", first, len(got))
		}
		got = append(got, sources...)
		return nil
	}); err != nil || !slices.Equal(got, raw.Indices) {
		t.Error("other indices", err)
	}
	b := binio.Bytes(raw.Indices)
	b[4097] ^= 1
	if err := os.WriteFile(d.IndicesPath(), b, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	_, _, err = d.IndicesPageSums(t.Context(), progress.Discard, o)
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "sum the pages of the indices: ") || !strings.Contains(err.Error(), "indices.bin: bytes 0 to ") || !strings.Contains(err.Error(), "make it again") {
		t.Error(err)
	}
}
