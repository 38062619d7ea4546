package datasettest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"diskgnn/dataset"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/stage/stagetest"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// Same fails unless two directories hold the same files with the same bytes, but for
// run.json, which no fingerprint covers.
func Same(t *testing.T, a, b string) {
	t.Helper()
	fa, fb := stagetest.Files(t, a), stagetest.Files(t, b)
	for n, content := range fa {
		if fb[n] != content {
			t.Errorf("%s differs between %s and %s", n, a, b)
		}
	}
	if len(fa) != len(fb) {
		t.Errorf("%d files in %s, %d in %s", len(fa), a, len(fb), b)
	}
}

// Verified opens a dataset and checks its every byte.
func Verified(t TB, dir string) *dataset.Dataset {
	t.Helper()
	d, err := dataset.OpenAny(FS, dir)
	if err == nil {
		err = d.Verify(context.Background(), progress.Discard, 2)
	}
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return d
}

// IDs returns the original ids of all nodes, as text.
func IDs(t testing.TB, d *dataset.Dataset) []string {
	t.Helper()
	return EachID(t, d, func(ids *dataset.IDs) string { return string(ids.Append(nil)) })
}

// EachID returns the result of of for the original id of each node.
func EachID[T any](t testing.TB, d *dataset.Dataset, of func(ids *dataset.IDs) T) []T {
	t.Helper()
	ids, err := d.IDs()
	if err != nil {
		t.Fatal(err)
	}
	defer ids.Close()
	var all []T
	for v := range d.Facts().Nodes {
		if err := ids.To(v); err != nil {
			t.Fatal(err)
		}
		all = append(all, of(ids))
	}
	return all
}

// FreeSpace is a file system that claims this number of free bytes.
type FreeSpace struct {
	vfs.FS
	Bytes int64
}

func (f FreeSpace) Free(string) (int64, error) { return f.Bytes, nil }

// CancelAt cancels a context at the N-th write. Its method is safe for concurrent use.
type CancelAt struct {
	N      int
	Cancel context.CancelFunc
	mu     sync.Mutex // of N
}

func (c *CancelAt) Before(op vfs.Op, _ string) error {
	if op != vfs.OpWrite {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.N--; c.N == 0 {
		c.Cancel()
	}
	return nil
}

// EveryFailure runs a stage that makes a directory with a failure at every
// operation, alone or with all later ones, and again without.
func EveryFailure(t *testing.T, after []bool, make func(fsys vfs.FS, out string) error) {
	t.Helper()
	dir := vfstest.TempDir(t)
	ref := filepath.Join(dir, "ref")
	if err := make(FS, ref); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	for _, after := range after {
		for n := 0; ; n++ {
			out := filepath.Join(dir, fmt.Sprint(n, after))
			in := &vfs.FailAt{N: n, After: after, Err: boom}
			err := make(vfs.Inject(FS, in), out)
			if !in.Fired() {
				if err != nil {
					t.Fatalf("no failure injected, yet %v", err)
				}
				break
			}
			if !errors.Is(err, boom) {
				t.Errorf("%v: %v", in, err)
			}
			if err := make(FS, out); err != nil {
				t.Fatalf("after %v: %v", in, err)
			}
			Same(t, ref, out)
		}
	}
}

// SameFeatures compares a dataset with a compressed one of the same graph.
func SameFeatures(t *testing.T, raw, compressed string) {
	t.Helper()
	fr, fc := stagetest.Files(t, raw), stagetest.Files(t, compressed)
	if len(fr) != len(fc) {
		t.Errorf("%d files, compressed %d", len(fr), len(fc))
	}
	for name, content := range fr {
		if name != stage.MetaFile && !strings.HasPrefix(name, "features.") && fc[name] != content {
			t.Errorf("%s differs", name)
		}
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if b, err := d.DecodeAll([]byte(fc["features.zst"]), nil); err != nil || string(b) != fr["features.bin"] {
		t.Errorf("features.zst holds %d bytes, %v: other than features.bin", len(b), err)
	}
}

// FlippedBytes tests that a stage that makes datasets meets the contract of interrupted stages.
func FlippedBytes(t *testing.T, make func(fsys vfs.FS, out string, force bool) error) {
	t.Helper()
	dir := vfstest.TempDir(t)
	ref := filepath.Join(dir, "ref")
	if err := make(FS, ref, false); err != nil {
		t.Fatal(err)
	}
	stagetest.FlippedBytes(t, FS, dir, stagetest.Files(t, ref), 100, make)
	Verified(t, ref)
}
