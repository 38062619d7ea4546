package shard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// flip replaces a file by one with another byte: whoever has the file by another name
// keeps what it was.
func flip(t *testing.T, name string, at int) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Clone(b)
	b[at%len(b)] ^= 1 << (at % 8)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestFlippedBytes interrupts a merging at every operation, by links and by copies,
// changes a byte in each file that is there, and merges again: the whole is what one run
// makes, or there is an error that says what to do.
func TestFlippedBytes(t *testing.T) {
	spec := specFor(1, "d")
	want := whole(t, spec)
	dir := vfstest.TempDir(t)
	dirs := shards(t, filepath.Join(dir, "X"), spec, 2)
	before := []map[string]string{bytesOf(t, dirs[0]), bytesOf(t, dirs[1])}
	for way, fsys := range []vfs.FS{disk, linkless{disk, unix.EXDEV, 1 << 40}} {
		for n := 0; ; n++ {
			out := filepath.Join(dir, fmt.Sprint("Y", way, n))
			interrupted := func() bool {
				in := &vfs.FailAt{N: n, After: true, Err: errors.New("boom")}
				_, _ = merge(vfs.Inject(fsys, in), out, dirs...)
				return in.Fired()
			}
			if !interrupted() {
				break
			}
			left, err := os.ReadDir(out + ".partial")
			if err != nil {
				continue // the name was given
			}
			for _, e := range left {
				if info, err := e.Info(); err != nil || info.Size() == 0 {
					continue
				}
				for at := n; at < n+400; at += 80 {
					if err := os.RemoveAll(out + ".partial"); err != nil {
						t.Fatal(err)
					}
					interrupted()
					flip(t, filepath.Join(out+".partial", e.Name()), at)
					_, err := merge(fsys, out, dirs...)
					if err != nil {
						if e.Name() != "journal.json" || !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "--force discards it") {
							t.Fatalf("operation %d, %s: %v", n, e.Name(), err)
						}
						o := mergeOptions(out, dirs)
						o.Force = true
						if _, err := Merge(t.Context(), fsys, o, progress.Discard); err != nil {
							t.Fatalf("operation %d, %s: with force: %v", n, e.Name(), err)
						}
					}
					if d := cmp.Diff(want, bytesOf(t, out)); d != "" {
						t.Fatalf("operation %d, %s: another directory: %.300s", n, e.Name(), d)
					}
					if err := os.RemoveAll(out); err != nil {
						t.Fatal(err)
					}
					if e.Name() != "journal.json" {
						break
					}
				}
			}
		}
	}
	for i, d := range dirs {
		if d := cmp.Diff(before[i], bytesOf(t, d)); d != "" {
			t.Errorf("shard %d changed: %.500s", i, d)
		}
	}
}

// TestDamagedShards merges shards with another byte, by links and by copies: the file is
// named, and how the shard is made again. Once it is, the merging goes on.
func TestDamagedShards(t *testing.T) {
	spec := specFor(1, "d")
	want := whole(t, spec)
	for way, fsys := range []vfs.FS{disk, linkless{disk, unix.EXDEV, 1 << 40}} {
		dir := vfstest.TempDir(t)
		dirs := shards(t, filepath.Join(dir, "X"), spec, 2)
		for i, name := range []string{"a", "b", "c"} {
			at := filepath.Join(dirs[min(i, 1)], name)
			good, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			flip(t, at, 3)
			out := filepath.Join(dir, "M")
			_, err = merge(fsys, out, dirs...)
			if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), at) || !strings.Contains(err.Error(), filepath.Dir(at)+" is damaged: make it again") {
				t.Errorf("way %d, %s: %v", way, name, err)
			}
			if _, err := os.Stat(out); err == nil {
				t.Errorf("way %d, %s: published", way, name)
			}
			if err := errors.Join(os.Remove(at), os.WriteFile(at, good, 0o666)); err != nil {
				t.Fatal(err)
			}
			state := "resumed"
			if _, err := os.Stat(out + ".partial"); err != nil { // nothing was copied
				state = "new"
			}
			if r, err := merge(fsys, out, dirs...); err != nil || r.State != state {
				t.Errorf("way %d, %s: mended, %s: %+v, %v", way, name, state, r, err)
			}
			if d := cmp.Diff(want, bytesOf(t, out)); d != "" {
				t.Errorf("way %d, %s: %.300s", way, name, d)
			}
			if err := os.RemoveAll(out); err != nil {
				t.Fatal(err)
			}
		}
		// Cut between the opening of the shards and the taking of their files.
		m, err := stage.ReadMeta(disk, dirs[0], "shard")
		if err != nil {
			t.Fatal(err)
		}
		f, _ := m.File("a")
		if err := os.Truncate(filepath.Join(dirs[0], "a"), f.Size-1); err != nil {
			t.Fatal(err)
		}
		if _, err := merge(fsys, filepath.Join(dir, "M"), dirs...); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("way %d, cut: %v", way, err)
		}
	}
}
