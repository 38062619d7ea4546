package stage

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/binio"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// dying makes the directory of a run that died just before the rename.
func dying(t *testing.T, seed int) (out string) {
	t.Helper()
	out = filepath.Join(vfstest.TempDir(t), "X")
	in := &vfs.FailAt{Err: errBoom, Match: func(op vfs.Op, name string) bool {
		return op == vfs.OpRename && strings.HasPrefix(filepath.Base(name), "X")
	}}
	if _, _, err := runStage(vfs.Inject(disk, in), out, seed, false); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	return out
}

// A complete directory is published for its own parameters alone, without any work.
func TestComplete(t *testing.T) {
	for _, c := range []struct {
		seed  int
		state State
	}{{1, StateDone}, {2, -1}} {
		out := dying(t, 1)
		_, state, err := runStage(disk, out, c.seed, false)
		if (err == nil) != (c.seed == 1) || err == nil && state != c.state || exists(t, out) != (c.seed == 1) {
			t.Errorf("seed %d: state %v, %v", c.seed, state, err)
		}
	}
	// It is not published unless its meta.json could be written anew.
	out := dying(t, 1)
	in := &vfs.FailAt{Err: errBoom, Match: func(op vfs.Op, name string) bool {
		return op == vfs.OpCreate && strings.HasPrefix(filepath.Base(name), MetaFile)
	}}
	if _, _, err := runStage(vfs.Inject(disk, in), out, 1, false); !errors.Is(err, errBoom) || exists(t, out) {
		t.Errorf("without a new meta.json: %v", err)
	}
	// A damaged one is noted.
	out = dying(t, 1)
	write(t, filepath.Join(out+partialSuffix, "a.bin"), []byte("xy"))
	spec := specOf(1)
	spec.Check = func(dir string, m *Meta, look Look) error { return checkFiles(disk, dir, m.Files, look) }
	d, _, err := Begin(disk, out, spec, false)
	if err != nil || !strings.Contains(d.Note(), "was complete, and is damaged (") {
		t.Fatalf("damaged: note %q, %v", d.Note(), err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// A directory that was replaced, and cannot be removed, is an error.
func TestReplacedStays(t *testing.T) {
	out := filepath.Join(vfstest.TempDir(t), "X")
	if _, _, err := runStage(disk, out, 1, false); err != nil {
		t.Fatal(err)
	}
	in := &vfs.FailAt{Err: errBoom, Match: func(op vfs.Op, name string) bool {
		return op == vfs.OpRemove && strings.HasSuffix(name, ".replaced") && exists(t, name)
	}}
	if _, _, err := runStage(vfs.Inject(disk, in), out, 2, true); !errors.Is(err, errBoom) {
		t.Errorf("%v", err)
	}
}

// unlisted lists no directory of the given name.
type unlisted struct {
	vfs.FS
	base string
	late *bool // from then on
}

func (u unlisted) List(name string) ([]string, error) {
	if *u.late && filepath.Base(name) == u.base {
		return nil, errBoom
	}
	return u.FS.List(name)
}

// Without a list of the files, scratch files would be published.
func TestSweepNeedsList(t *testing.T) {
	late := false
	out := filepath.Join(vfstest.TempDir(t), "X")
	d, _, err := Begin(unlisted{disk, "X" + partialSuffix, &late}, out, specOf(1), false)
	if err != nil {
		t.Fatal(err)
	}
	late = true
	if _, err := d.Commit([]File{}, nil, nil); !errors.Is(err, errBoom) || exists(t, out) {
		t.Errorf("committed: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// A directory with anything but the lock keeps it.
func TestLeave(t *testing.T) {
	out := filepath.Join(vfstest.TempDir(t), "X")
	d, _, err := Begin(disk, out, specOf(1), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.fs.Remove(d.File(journalFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	write(t, d.File("scratch"), nil)
	if err := d.leave(); err != nil || !exists(t, d.File(lockFile)) {
		t.Errorf("the lock is gone; %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Progress is the latest that was saved, also by this process.
func TestProgress(t *testing.T) {
	d, _, err := Begin(disk, filepath.Join(vfstest.TempDir(t), "X"), specOf(1), false)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := d.SaveProgress("half"); err != nil {
		t.Fatal(err)
	}
	if there, err := d.Progress(&got); !there || err != nil || got != "half" {
		t.Errorf("%q, %t, %v", got, there, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// refusing is a checker that takes nothing, and finds nothing wrong at the end.
type refusing struct{ binio.Checker }

func (refusing) Write([]byte) (int, error) { return 0, errBoom }
func (refusing) End() error                { return nil }

// CheckFile reads a mebibyte at a time, and reports a drive that fails.
func TestCheckFileReads(t *testing.T) {
	name := filepath.Join(vfstest.TempDir(t), "f")
	content := make([]byte, 3<<20+5)
	write(t, name, content)
	check := func(fsys vfs.FS) (longest int, err error) {
		err = CheckFile(context.Background(), fsys, name, int64(len(content)), binio.CheckHash(name, binio.Hash(content)), func(p []byte) error {
			longest = max(longest, len(p))
			return nil
		})
		return longest, err
	}
	if longest, err := check(disk); err != nil || longest != 1<<20 {
		t.Errorf("pieces of up to %d bytes, %v", longest, err)
	}
	in := &vfs.FailAt{Err: errBoom, Match: func(op vfs.Op, _ string) bool { return op == vfs.OpRead }}
	if _, err := check(vfs.Inject(disk, in)); !errors.Is(err, errBoom) {
		t.Errorf("a drive that fails: %v", err)
	}
	for _, of := range []string{"checker", "reader"} {
		c := binio.CheckHash(name, binio.Hash(content))
		if of == "checker" {
			c = refusing{c}
		}
		err := CheckFile(context.Background(), disk, name, int64(len(content)), c, func([]byte) error {
			if of == "reader" {
				return errBoom
			}
			return nil
		})
		if !errors.Is(err, errBoom) {
			t.Errorf("a %s that fails: %v", of, err)
		}
	}
}

// Values of parameters, as messages have them, and the keys of two maps.
func TestWords(t *testing.T) {
	for value, want := range map[string]string{"": "not given", "null": "not given", "false": "not given", "true": "given", `"a b"`: "a b",
		"[]": "none", `["a",1,null]`: "a,1,not given", "1.5": "1.5", `{"a":1}`: `{"a":1}`} {
		if got := plainText(json.RawMessage(value)); got != want {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
	}
	for _, m := range [][2]map[string]int{{nil, {"a": 1, "b": 2}}, {{"a": 1}, {"b": 2}}, {{"a": 1, "b": 2}, nil}} {
		if u := union(m[0], m[1]); len(u) != 2 || u["a"] != 1 || u["b"] != 2 {
			t.Errorf("%v: %v", m, u)
		}
	}
	if u := union[int](nil, nil); u == nil || len(u) != 0 {
		t.Errorf("%v", u)
	}
}
