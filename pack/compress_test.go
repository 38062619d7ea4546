package pack_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

// TestCompressedRows: compressed chunks have the rows of plain ones, in frames that shrink and frames that do not. Most
// frames begin inside a checksum granule of the scratch file, beyond the first.
func TestCompressedRows(t *testing.T) {
	dir := t.TempDir()
	ds, samples := filepath.Join(dir, "D"), filepath.Join(dir, "S")
	raw := datasettest.Params{Nodes: 300, AvgDegree: 4, Dim: 5000, Seed: 5}.Raw()
	x := binio.View[float32](raw.Features)
	for i := range len(x) / 2 { // the rows of these nodes shrink
		x[i] = float32(i / raw.Dim)
	}
	if err := dataset.Create(disk, ds, raw); err != nil {
		t.Fatal(err)
	}
	if _, err := presample.Run(t.Context(), disk, presample.Options{Dataset: ds, Out: samples, BatchSize: 90, Fanout: []int{3}, Memory: 1 << 30}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	o := options(ds, samples, "")
	o.Cache, o.Bands = &budget.Size{Unit: budget.UnitPercent}, []float64{}
	var want [][]byte // rows of the chunks, without compression
	for _, o.Compress = range []string{packfile.CodecNone, packfile.CodecS2, packfile.CodecZstd} {
		o.Out = filepath.Join(dir, o.Compress)
		if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
			t.Fatal(err)
		}
		chunks, pieces := rowsOfChunks(t, o.Out)
		if want == nil {
			want = chunks
		}
		for i := range want {
			if len(want[i]) == 0 || !bytes.Equal(chunks[i], want[i]) {
				t.Errorf("%s: batch %d has other rows", o.Compress, i)
			}
		}
		if len(chunks) != len(want) || pieces < 2*len(want) {
			t.Errorf("%s: %d chunks of %d pieces in all", o.Compress, len(chunks), pieces)
		}
	}
}

// rowsOfChunks decodes the chunks of a pack with one group.
func rowsOfChunks(t *testing.T, dir string) (chunks [][]byte, pieces int) {
	t.Helper()
	r, err := packfile.Open(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	var d *packfile.FrameDecoder
	if r.Form().Compressed() {
		if d, err = packfile.NewFrameDecoder(r.Form().Codec, 1); err != nil {
			t.Fatal(err)
		}
		defer d.Close()
	}
	name := r.Path(packfile.ColdFile(0))
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Index().Train {
		tr := &r.Index().Train[i]
		rows := make([]byte, tr.ColdRows(r.Index().Bands-1)*r.Facts().RowBytes)
		if err := tr.Pieces(r.Form(), r.Index().Bands-1, func(at packfile.Piece) error {
			pieces++
			return tr.LoadPiece(d, name, file[tr.ChunkOffset:], at, rows[at.Row:at.Row+int64(at.RowLen)])
		}); err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, rows)
	}
	return chunks, pieces
}
