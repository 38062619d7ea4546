package all_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/rng"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// meter is a file system that follows the bytes of the files that are written, and has
// room for so many.
type meter struct {
	vfs.FS
	free int64

	mu    sync.Mutex
	sizes map[string]int64
	most  int64
}

func (m *meter) Free(string) (int64, error) { return m.free, nil }

func (m *meter) note(name string, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sizes[name] = size; size < 0 {
		delete(m.sizes, name)
	}
	total := int64(0)
	for _, n := range m.sizes {
		total += n
	}
	m.most = max(m.most, total)
}

func (m *meter) Create(name string) (vfs.File, error) {
	f, err := m.FS.Create(name)
	if err == nil {
		m.note(name, 0)
	}
	return &metered{f, m, name, 0}, err
}

func (m *meter) Remove(name string) error {
	m.note(name, -1)
	return m.FS.Remove(name)
}

type metered struct {
	vfs.File
	m    *meter
	name string
	size int64
}

func (f *metered) Write(p []byte) (int, error) {
	f.size += int64(len(p))
	f.m.note(f.name, f.size)
	return f.File.Write(p)
}

// longCSV is a source whose edges are lines of text, some with node ids of seven digits,
// as real ones have, in which both directions are there or one.
func longCSV(nodes, edges, dim int, both bool) tree {
	src := rng.New(5)
	var lines bytes.Buffer
	for range edges {
		a, b := src.Uint32n(uint32(nodes)), src.Uint32n(uint32(nodes))
		fmt.Fprintf(&lines, "%07d,%07d\n", a, b)
		if both {
			fmt.Fprintf(&lines, "%07d,%07d\n", b, a)
		}
	}
	tr := boltTree()
	tr["metadata.yaml"] = []byte(strings.Replace(strings.Replace(string(tr["metadata.yaml"]), "num: 4", fmt.Sprint("num: ", nodes), 1), "{format: numpy, path: edges.npy}", "{format: csv, path: edges.csv}", 1))
	tr["edges.csv"] = lines.Bytes()
	tr["feat.npy"] = npyFile(fmt.Sprintf("(%d, %d)", nodes, dim), make([]float32, nodes*dim))
	return tr
}

// TestSpaceIsEstimated imports where there is exactly the room that is asked for: it is
// what the import takes at the most, and a little more.
func TestSpaceIsEstimated(t *testing.T) {
	for name, c := range map[string]struct {
		source     tree
		symmetrize bool
		least      float64 // of the estimate, in what is taken
	}{
		"csv":                  {longCSV(2000, 100_000, 2, false), false, 0.97},
		"csv, wide features":   {longCSV(20_000, 5000, 60, false), false, 0.97},
		"csv, one direction":   {longCSV(2000, 50_000, 2, false), true, 0.97},
		"csv, both directions": {longCSV(2000, 50_000, 2, true), true, 0.97},
		"numpy":                {largeBolt(), false, 0.97},
		"without a last line feed": {func() tree {
			tr := longCSV(9, 3000, 1, false)
			tr["edges.csv"] = bytes.TrimSpace(tr["edges.csv"])
			return tr
		}(), false, 0.9},
	} {
		t.Run(name, func(t *testing.T) {
			dir := vfstest.TempDir(t)
			c.source.Write(t, dir)
			o := boltOptions(dir)
			o.Symmetrize = c.symmetrize
			log := &messages{Reporter: progress.Discard}
			run := func(free int64) (int64, error) {
				m := &meter{FS: datasettest.FS, free: free, sizes: map[string]int64{}}
				log.lines = nil
				_, err := importAs(t.Context(), m, filepath.Join(dir, "D"), o, log)
				return m.most, err
			}
			if _, err := run(0); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "--skip-space-check") {
				t.Fatal(err)
			}
			lo, hi := int64(0), int64(1)<<40 // refused, not refused
			for hi-lo > 1 {
				mid := (lo + hi) / 2
				// Nothing is done: the source cannot be read beyond the estimate.
				_, err := importAs(t.Context(), stopAfterFree{&meter{FS: datasettest.FS, free: mid, sizes: map[string]int64{}}}, filepath.Join(dir, "D"), o, log)
				if errors.Is(err, fault.ErrBudget) {
					lo = mid
				} else {
					hi = mid
				}
			}
			most, err := run(hi)
			if err != nil {
				t.Fatal(err)
			}
			share := float64(most) / float64(hi)
			t.Logf("asked for %d bytes, took %d", hi, most)
			// What is noted as possible, not asked for, may be more.
			if share < c.least || share > 1.35 || share > 1.03 && len(log.lines) == 0 {
				t.Errorf("asked for %d bytes, took %d (%.3f): %q", hi, most, share, log.lines)
			}
		})
	}
}

// stopAfterFree fails whatever is written after the room was looked at.
type stopAfterFree struct{ *meter }

var errStop = errors.New("stop")

func (s stopAfterFree) Create(name string) (vfs.File, error) {
	if base := filepath.Base(name); strings.HasPrefix(base, "journal") {
		return s.meter.Create(name)
	}
	return nil, &fs.PathError{Op: "create", Path: name, Err: errStop}
}

// TestSpaceOfCompressed lets features be compressed where they may not fit as they are.
func TestSpaceOfCompressed(t *testing.T) {
	dir := vfstest.TempDir(t)
	longCSV(2000, 10, 500, false).Write(t, dir) // 4 MB of zeros
	o := boltOptions(dir)
	log := &messages{Reporter: progress.Discard}
	run := func() error {
		_, err := importAs(t.Context(), datasettest.FreeSpace{FS: datasettest.FS, Bytes: 100 << 10}, filepath.Join(dir, "D"), o, log)
		return err
	}
	if err := run(); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("4 MB into 100 kB: %v", err)
	}
	o.Compress = true
	if err := run(); err != nil || len(log.lines) == 0 || !strings.Contains(strings.Join(log.lines, "\n"), "may take up to") {
		t.Errorf("compressed: %v, %q", err, log.lines)
	}
}
