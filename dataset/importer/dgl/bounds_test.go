package dgl_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/dgl"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/vfs"
)

// TestMost reads a file with the longest name, the most dimensions, and the most arrays in a list.
func TestMost(t *testing.T) {
	f := tiny("coo")
	g := &f.graphs[0]
	g.types[0] = strings.Repeat("x", 1<<10)
	g.data[0] = append(g.data[0], datum{name: "deep", values: make([]int8, 3), shape: []int64{3, 1, 1, 1, 1, 1, 1, 1}})
	for i := len(g.data[0]); i < 1<<12; i++ {
		g.data[0] = append(g.data[0], datum{name: fmt.Sprint("d", i), values: []int8{}})
	}
	checkFeatures(t, filepath.Join(t.TempDir(), "g.bin"), f, []float32{1, 2, 3, 4, 5, 6})
}

// TestHeld compares the memory that a layout takes for its arrays: 256 bytes for each and its name.
func TestHeld(t *testing.T) {
	f := tiny("coo")
	path := filepath.Join(t.TempDir(), "g.bin")
	f.labels = []datum{{name: "glabel", values: []int64{1}}}
	s, err := opened(t, path, f.bytes())
	if err != nil {
		t.Fatal(err)
	}
	const letters = int64(len("glabel" + "feat" + "label" + "train_mask" + "val_mask" + "test_mask" + "w"))
	if got := s.Shape().Held; got != 7*256+letters {
		t.Errorf("%d bytes, want %d", got, 7*256+letters)
	}
}

// TestManyFiles finds a file of DGL among the first 100 files NAME.bin of a directory, and not behind
// them.
func TestManyFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 99 {
		importertest.Save(t, filepath.Join(dir, fmt.Sprintf("part%02d.bin", i)), nil)
	}
	importertest.Save(t, filepath.Join(dir, "whole.bin"), tiny("coo").bytes())
	if sign := dgl.Format.Detect(datasettest.FS, []string{dir}); sign != "dgl.save_graphs wrote whole.bin" {
		t.Errorf("the hundredth file: %q", sign)
	}
	importertest.Save(t, filepath.Join(dir, "part99.bin"), nil)
	if sign := dgl.Format.Detect(datasettest.FS, []string{dir}); sign != "" {
		t.Errorf("behind a hundred files: %q", sign)
	}
}

// unlisted is a file system in which directories cannot be listed.
type unlisted struct{ vfs.FS }

var errBoom = errors.New("boom")

func (unlisted) List(string) ([]string, error) { return nil, errBoom }

// TestFails fails each opening and each reading of a file, and listing its directory. Every failure is
// the error of the source, and no file stays open.
func TestFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "g.bin")
	importertest.Save(t, path, tiny("csr").bytes())
	if _, err := dgl.Format.Open(unlisted{datasettest.FS}, []string{dir}, &importer.Reading{}); !errors.Is(err, errBoom) {
		t.Errorf("a directory that cannot be listed: %v", err)
	}
	read := func(fsys vfs.FS) error {
		s, err := dgl.Format.Open(fsys, []string{path}, &importer.Reading{})
		if err != nil {
			return err
		}
		if err := s.Edges(t.Context(), func(_, _ []int64) error { return nil }); err != nil {
			return err
		}
		rows, err := s.Features(0)
		if err != nil {
			return err
		}
		return errors.Join(rows.Next(make([]float32, 6)), rows.Close())
	}
	for fail := range importertest.Failures(t, datasettest.FS, errBoom, vfs.OpOpen, vfs.OpRead) {
		err := read(fail)
		if !fail.Fired() && (err != nil || fail.N < 10) {
			t.Errorf("%d operations: %v", fail.N, err)
		}
		if fail.Fired() && !errors.Is(err, errBoom) {
			t.Errorf("%v: %v", fail, err)
		}
	}
}
