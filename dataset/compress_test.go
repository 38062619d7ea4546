package dataset_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/internal/stage/stagetest"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// TestGenerateCompressed checks that compression changes no byte of a graph, and
// that its own bytes depend neither on workers nor on memory.
func TestGenerateCompressed(t *testing.T) {
	o := dataset.GenerateOptions{Nodes: 35_000, AvgDegree: 3, Dim: 33, Classes: 5, DType: dtype.BFloat16, Seed: 11}
	dir := t.TempDir()
	raw, ref := filepath.Join(dir, "raw"), filepath.Join(dir, "ref")
	was := generate(t, datasettest.FS, raw, o)
	o.Compress = true
	res := generate(t, datasettest.FS, ref, o)
	datasettest.Verified(t, ref)
	if res.Compression != "zstd" || res.FeatureBytes >= was.FeatureBytes || was.Compression != "" || res.Fingerprint == was.Fingerprint {
		t.Errorf("compressed %+v, raw %+v", res, was)
	}
	for i, use := range []dataset.Resources{{Workers: 1}, {Workers: 7, Memory: 256 << 20}, {Workers: 3, Memory: 48 << 20}} {
		o.Resources = use
		out := filepath.Join(dir, fmt.Sprint(i))
		generate(t, datasettest.FS, out, o)
		datasettest.Same(t, ref, out)
	}
	datasettest.SameFeatures(t, raw, ref)
}

// TestCompressedTwice checks that one form is never taken for the other.
func TestCompressedTwice(t *testing.T) {
	raw := datasettest.Tiny(t)
	d := datasettest.Create(t, t.TempDir(), raw)
	raw.Compress = true
	if err := dataset.Create(datasettest.FS, d.Dir(), raw); !errors.Is(err, fault.ErrExists) {
		t.Errorf("compressed over raw: %v", err)
	}
	c := datasettest.Create(t, t.TempDir(), raw)
	if d.Meta().Format != dataset.Format || c.Meta().Format != dataset.CompressedFormat || c.Fingerprint() == d.Fingerprint() {
		t.Errorf("formats %v and %v", d.Meta().Format, c.Meta().Format)
	}
	// What a reader does that knows version 1 alone.
	if _, err := stage.Open(datasettest.FS, c.Dir(), "dataset", dataset.Format); !errors.Is(err, fault.ErrVersion) {
		t.Errorf("opened as version 1: %v", err)
	}
	buf := make([]byte, len(raw.Features))
	if err := c.ReadFeatures(t.Context(), 0, 8, buf); err != nil || !bytes.Equal(buf, raw.Features) {
		t.Errorf("features % x, %v", buf, err)
	}
}

// TestFutureVersions checks that versions and compressions to come are refused as
// such.
func TestFutureVersions(t *testing.T) {
	facts := func(compression string) map[string]any {
		return map[string]any{"label_kind": "class", "node_id_bytes": 4, "nodes": 1, "dim": 1, "dtype": "float32", "classes": 1, "metric": "accuracy", "compression": compression}
	}
	for _, c := range []struct {
		version     int
		compression string
		want        error
	}{
		{6, "", fault.ErrVersion}, {5, "", fault.ErrCorrupt}, {3, "", fault.ErrCorrupt}, {4, "zstd", fault.ErrCorrupt}, {2, "brotli", fault.ErrVersion}, {1, "zstd", fault.ErrCorrupt}, {2, "", fault.ErrCorrupt},
	} {
		out := filepath.Join(t.TempDir(), "D")
		dir, _, err := stage.Begin(datasettest.FS, out, stage.Spec{Format: stage.Format{Name: dataset.Format.Name, Version: c.version}, Params: "test"}, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dir.Commit(nil, facts(c.compression), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := dataset.Open(datasettest.FS, out); !errors.Is(err, c.want) {
			t.Errorf("version %d, compression %q: %v", c.version, c.compression, err)
		}
	}
}

func TestCompressedFailures(t *testing.T) {
	o := dataset.GenerateOptions{Nodes: 300, AvgDegree: 2, Dim: 4, Classes: 2, Seed: 8, Compress: true}
	datasettest.EveryFailure(t, []bool{true}, func(fsys vfs.FS, out string) error {
		_, err := dataset.Generate(t.Context(), fsys, out, o, progress.Discard)
		return err
	})
}

// TestCompressedShrinks checks that frames that are gone are errors.
func TestCompressedShrinks(t *testing.T) {
	raw := datasettest.Params{Nodes: 4000, Dim: 100, Seed: 3}.Raw()
	raw.Compress = true
	d := datasettest.Create(t, t.TempDir(), raw)
	r, err := d.Features()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := os.Truncate(filepath.Join(d.Dir(), "features.zst"), 100); err != nil {
		t.Fatal(err)
	}
	if err := r.ReadRows(t.Context(), 0, 4000, make([]byte, 4000*400)); !errors.Is(err, fault.ErrCorrupt) {
		t.Error(err)
	}
}

// TestCompressedByValue reads the files of a tiny table as doc.go describes them.
func TestCompressedByValue(t *testing.T) {
	raw := datasettest.Tiny(t)
	raw.Compress = true
	d := datasettest.Create(t, t.TempDir(), raw)
	f := stagetest.Files(t, d.Dir())
	frame := []byte(f["features.zst"])
	want := append([]byte("DGNNFRM1"), binio.Bytes([]uint64{1 << 20, 96})...)
	want = append(want, binio.Bytes([]uint32{uint32(len(frame)), binio.CRC(frame)})...)
	want = append(want, binio.Bytes([]uint32{binio.CRC(want)})...)
	if got := []byte(f["features.zst.frames"]); !bytes.Equal(got, want) {
		t.Errorf("table of frames % x, want % x", got, want)
	}
	if file, _ := d.Meta().File("features.zst"); file.Checksum != binio.HashSums([]uint32{binio.CRC(frame)}) || file.Size != int64(len(frame)) {
		t.Errorf("listed as %+v", file)
	}
}
