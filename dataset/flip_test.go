package dataset_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// flippedBytes interrupts a stage at every operation, changes a byte of each file that is
// there, one at a time, and resumes: the dataset is what an uninterrupted run makes, or
// there is an error that says what to do.
func flippedBytes(t *testing.T, make func(fsys vfs.FS, out string, force bool) error) {
	t.Helper()
	dir := vfstest.TempDir(t)
	ref := filepath.Join(dir, "ref")
	if err := make(datasettest.FS, ref, false); err != nil {
		t.Fatal(err)
	}
	tried := 0
	var last map[string]string // what the interruption before left
	for n := 0; ; n++ {
		out := filepath.Join(dir, fmt.Sprint(n))
		in := &vfs.FailAt{N: n, After: true, Err: errors.New("boom")}
		_ = make(vfs.Inject(datasettest.FS, in), out, false)
		if !in.Fired() {
			break
		}
		partial, left := out+".partial", filepath.Join(dir, "left")
		if err := os.Rename(partial, left); err != nil {
			continue // the name was given already
		}
		there := files(t, left)
		if maps.Equal(there, last) {
			there = nil
		} else {
			last = there
		}
		for name, content := range there {
			if content == "" {
				continue
			}
			tried++
			if err := os.CopyFS(partial, os.DirFS(left)); err != nil {
				t.Fatal(err)
			}
			at := (n*31 + tried*17) % len(content)
			bad := []byte(content)
			bad[at] ^= 1 << (n % 8)
			save(t, filepath.Join(partial, name), bad)
			if err := make(datasettest.FS, out, false); err != nil {
				if name != "journal.json" || !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "--force discards it") {
					t.Fatalf("operation %d, byte %d of %s: %v", n, at, name, err)
				}
				if err := make(datasettest.FS, out, true); err != nil {
					t.Fatalf("operation %d, byte %d of %s: with force: %v", n, at, name, err)
				}
			}
			if got := files(t, out); len(got) != len(files(t, ref)) || !bytes.Equal([]byte(got["meta.json"]), []byte(files(t, ref)["meta.json"])) {
				t.Errorf("operation %d, byte %d of %s: another dataset", n, at, name)
			}
			same(t, ref, out)
			if t.Failed() {
				t.Fatalf("operation %d, byte %d of %s", n, at, name)
			}
			if err := os.RemoveAll(out); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.RemoveAll(left); err != nil {
			t.Fatal(err)
		}
	}
	if tried < 100 {
		t.Errorf("only %d bytes were changed", tried)
	}
	verified(t, ref)
}

func TestGenerateFlippedBytes(t *testing.T) {
	for _, compress := range []bool{false, true} {
		flippedBytes(t, func(fsys vfs.FS, out string, force bool) error {
			o := dataset.GenerateOptions{Nodes: 60, AvgDegree: 2, Dim: 4, Classes: 2, Seed: 8, Compress: compress, MultiLabel: compress}
			o.Force = force
			_, err := dataset.Generate(t.Context(), fsys, out, o, progress.Discard)
			return err
		})
	}
}

func TestImportFlippedBytes(t *testing.T) {
	dir := vfstest.TempDir(t)
	benchmarkTree().write(t, dir)
	boltTree().write(t, dir)
	for _, o := range []dataset.ImportOptions{boltOptions(dir), benchmarkOptions(dir)} {
		flippedBytes(t, func(fsys vfs.FS, out string, force bool) error {
			o.Force = force
			_, err := dataset.Import(t.Context(), fsys, out, o, progress.Discard)
			return err
		})
	}
}
