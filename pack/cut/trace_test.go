package cut

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/stage/stagetest"
	"diskgnn/internal/vfs"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

// Batches that were written with an input node twice, and the right checksums, are damage: a cache under policy min would
// hold the node twice.
func TestNodeTwice(t *testing.T) {
	dir, quiet := t.TempDir(), vfs.Unsynced(vfs.OS)
	ds, out := filepath.Join(dir, "D"), filepath.Join(dir, "S")
	if err := dataset.Create(quiet, ds, datasettest.Params{Nodes: 100, AvgDegree: 4, Dim: 4, Seed: 5}.Raw()); err != nil {
		t.Fatal(err)
	}
	if _, err := presample.Run(t.Context(), quiet, presample.Options{Dataset: ds, Out: out, BatchSize: 200, Fanout: []int{2}, Memory: 1 << 30}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	var m stage.Meta
	change := func(name string, do func(b []byte) string) {
		b, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		sum := do(b)
		for i := range m.Files {
			if m.Files[i].Name == name {
				m.Files[i].Checksum = sum
			}
		}
		if err := os.WriteFile(filepath.Join(out, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var crcs []uint32
	change(stage.MetaFile, func(b []byte) string {
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		return ""
	})
	// See the formats: 32 bytes precede the input nodes of a batch with a layer; a record of the index has the offset, the
	// size, the checksum and three counts.
	var data []byte
	change(mbfile.BatchesFile(0), func(b []byte) string {
		copy(b[36:40], b[32:36])
		data = b
		return ""
	})
	change(mbfile.IndexFile, func(b []byte) string {
		for r := b[24 : len(b)-4]; len(r) > 0; r = r[32:] {
			at := binary.LittleEndian.Uint64(r)
			crcs = append(crcs, binio.CRC(data[at:][:binary.LittleEndian.Uint64(r[8:])]))
			binary.LittleEndian.PutUint32(r[16:], crcs[len(crcs)-1])
		}
		binary.LittleEndian.PutUint32(b[len(b)-4:], binio.CRC(b[:len(b)-4]))
		return binio.Hash(b)
	})
	change(mbfile.BatchesFile(0), func([]byte) string { return binio.HashSums(crcs) })
	stagetest.WriteMeta(t, filepath.Join(out, stage.MetaFile), &m)

	samples, err := mbfile.Open(vfs.OS, out)
	if err != nil {
		t.Fatal(err)
	}
	defer samples.Close()
	if _, err = NewSimulator(t.Context(), quiet, dir, samples, 2); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "training batch 0 of the samples has the input node") {
		t.Errorf("a node twice: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.tmp")); len(left) > 0 || err != nil {
		t.Errorf("%v stay, %v", left, err)
	}
}
