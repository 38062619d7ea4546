package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// leftovers runs a procedure on a fresh root and returns, for many crashes of some kinds,
// what is found below it then: "name=content" of files, each letter of which is followed by
// how often it comes, and names of directories.
func leftovers(t *testing.T, kinds []uint64, do func(v *Volatile, root string) error) map[string]int {
	t.Helper()
	found := make(map[string]int)
	root := filepath.Join(t.TempDir(), "root")
	for i := range uint64(120) {
		seed := i/uint64(len(kinds))*5 + kinds[i%uint64(len(kinds))]
		if err := errors.Join(os.RemoveAll(root), os.Mkdir(root, 0o777), os.WriteFile(filepath.Join(root, "old"), []byte("o"), 0o666)); err != nil {
			t.Fatal(err)
		}
		v, err := NewVolatile(root)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(do(v, root), v.Crash(seed)); err != nil {
			t.Fatal(err)
		}
		found[look(t, root)]++
	}
	return found
}

func look(t *testing.T, root string) string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if d.IsDir() {
			list = append(list, name+"/")
			return nil
		}
		b, err := os.ReadFile(path)
		text := ""
		for len(b) > 0 {
			n := 1
			for n < len(b) && b[n] == b[0] {
				n++
			}
			text += fmt.Sprintf("%q%d", b[0], n)
			b = b[n:]
		}
		list = append(list, name+"="+strings.ReplaceAll(text, "'", ""))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, " ")
}

var any5 = []uint64{0, 1, 2, 3, 4}

func ofKind(k uint64) []uint64 { return []uint64{k} }

func expect(t *testing.T, what string, got map[string]int, want ...string) {
	t.Helper()
	for _, w := range want {
		if got[w] == 0 {
			t.Errorf("%s: never %q, found: %v", what, w, got)
		}
	}
	for g := range got {
		if !slices.Contains(want, g) {
			t.Errorf("%s: %q is left", what, g)
		}
	}
}

// write makes a file of so many letters, synced or not.
func write(v *Volatile, name string, letter byte, n int, sync bool) error {
	f, err := v.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(bytes.Repeat([]byte{letter}, n))
	if sync {
		err = errors.Join(err, f.Sync())
	}
	return errors.Join(err, f.Close())
}

// TestVolatileContents: what was synced stays; of the rest, each sector is old or new.
func TestVolatileContents(t *testing.T) {
	synced := func(v *Volatile, root string) error {
		return errors.Join(write(v, root+"/a", 'x', 600, true), v.SyncDir(root))
	}
	expect(t, "synced", leftovers(t, any5, synced), "a=x600 old=o1")
	not := func(v *Volatile, root string) error {
		return errors.Join(write(v, root+"/a", 'x', 600, false), v.SyncDir(root))
	}
	expect(t, "not synced, nothing kept", leftovers(t, ofKind(0), not), "a= old=o1")
	expect(t, "not synced, names kept", leftovers(t, ofKind(1), not), "a= old=o1")
	expect(t, "not synced, contents kept", leftovers(t, ofKind(2), not), "a=x600 old=o1")
	expect(t, "not synced, torn", leftovers(t, ofKind(4), not),
		"a= old=o1", "a=x600 old=o1", `a=\x00600 old=o1`, `a=x512\x0088 old=o1`, `a=\x00512x88 old=o1`, "a=x512 old=o1", `a=\x00512 old=o1`)
	over := func(v *Volatile, root string) error {
		f, err := v.OpenReadWrite(root + "/a")
		if err != nil {
			return err
		}
		_, err = f.WriteAt(bytes.Repeat([]byte("x"), 1024), 0)
		err = errors.Join(err, f.Sync(), v.SyncDir(root))
		_, werr := f.WriteAt([]byte("yy"), 511)
		return errors.Join(err, werr, f.Truncate(1025), f.Close())
	}
	expect(t, "written over", leftovers(t, ofKind(3), over), "a=x1024 old=o1", "a=x511y2x511 old=o1", "a=x511y1x512 old=o1", "a=x512y1x511 old=o1",
		`a=x1024\x001 old=o1`, `a=x511y2x511\x001 old=o1`, `a=x511y1x512\x001 old=o1`, `a=x512y1x511\x001 old=o1`)
	cut := func(v *Volatile, root string) error {
		f, err := v.OpenReadWrite(root + "/old")
		if err != nil {
			return err
		}
		return errors.Join(f.Truncate(0), f.Close())
	}
	expect(t, "cut off", leftovers(t, any5, cut), "old=o1", "old=")
}

// TestVolatileNames: entries that were not synced may be there or not; a rename happens
// whole, or not at all.
func TestVolatileNames(t *testing.T) {
	made := func(v *Volatile, root string) error { return write(v, root+"/a", 'x', 1, true) }
	expect(t, "made", leftovers(t, any5, made), "old=o1", "a=x1 old=o1")
	moved := func(v *Volatile, root string) error {
		return errors.Join(write(v, root+"/a", 'x', 1, true), v.SyncDir(root), v.Rename(root+"/a", root+"/old"))
	}
	expect(t, "renamed", leftovers(t, any5, moved), "a=x1 old=o1", "old=x1")
	replaced := func(v *Volatile, root string) error { return ReplaceFile(v, root+"/old", []byte("x")) }
	expect(t, "replaced", leftovers(t, any5, replaced), "old=x1")
	speaks := func(v *Volatile, root string) error {
		err := write(v, root+"/a", 'x', 1, true)
		v.CutAt(5) // the rename is the last that happens
		if rerr := ReplaceFile(v, root+"/old", []byte("a")); !errors.Is(rerr, ErrPower) {
			err = errors.Join(err, fmt.Errorf("cut: %v", rerr))
		}
		return err
	}
	expect(t, "replaced by what speaks of a file", leftovers(t, any5, speaks), "a=x1 old=a1", "a=x1 old=o1 old.tmp=a1")
	removed := func(v *Volatile, root string) error { return v.Remove(root + "/old") }
	expect(t, "removed", leftovers(t, any5, removed), "old=o1", "")
	linked := func(v *Volatile, root string) error {
		return errors.Join(v.Link(root+"/old", root+"/new"), v.SyncDir(root), write(v, root+"/old", 'x', 1, true))
	}
	expect(t, "linked", leftovers(t, any5, linked), "new=x1 old=x1")
	directory := func(v *Volatile, root string) error {
		return errors.Join(v.MkdirAll(root+"/d"), write(v, root+"/d/a", 'x', 1, true), v.Rename(root+"/d", root+"/e"))
	}
	expect(t, "a directory", leftovers(t, any5, directory), "old=o1", "d/ old=o1", "d/ d/a=x1 old=o1", "e/ old=o1", "e/ e/a=x1 old=o1")
	whole := func(v *Volatile, root string) error {
		return errors.Join(directory(v, root), v.SyncDir(root+"/e"), v.SyncDir(root), v.RemoveAll(root+"/e"))
	}
	expect(t, "removed with all that is in it", leftovers(t, any5, whole), "old=o1", "e/ old=o1", "e/ e/a=x1 old=o1")
	locked := func(v *Volatile, root string) error {
		l, err := v.Lock(root + "/lock")
		return errors.Join(err, l.Close())
	}
	expect(t, "locked", leftovers(t, any5, locked), "old=o1", "lock= old=o1")
	order := func(v *Volatile, root string) error {
		return errors.Join(write(v, root+"/a", 'x', 1, true), write(v, root+"/b", 'y', 1, true))
	}
	expect(t, "of a journal, the first", leftovers(t, ofKind(3), order), "old=o1", "a=x1 old=o1", "a=x1 b=y1 old=o1")
	expect(t, "in any order", leftovers(t, ofKind(4), order), "old=o1", "a=x1 old=o1", "b=y1 old=o1", "a=x1 b=y1 old=o1")
}

// TestVolatileCut: all fails from the operation on at which the power is cut, and what was
// done stays visible until then.
func TestVolatileCut(t *testing.T) {
	for n := 0; ; n++ {
		root := t.TempDir()
		v, err := NewVolatile(root)
		if err != nil {
			t.Fatal(err)
		}
		v.CutAt(n)
		err = exercise(v, root)
		if err == nil {
			if n != v.Changes() || n < 12 {
				t.Errorf("%d operations, %d counted", n, v.Changes())
			}
			break
		}
		if !errors.Is(err, ErrPower) || v.Changes() != n {
			t.Errorf("cut at %d: %v after %d operations", n, err, v.Changes())
		}
		for what, err := range map[string]error{
			"read": func() error { _, err := v.Open(root + "/sub/a"); return err }(),
			"list": func() error { _, err := v.List(root); return err }(),
			"stat": func() error { _, err := v.Stat(root); return err }(),
			"lock": func() error { _, err := v.Lock(root + "/lock"); return err }(),
			"make": v.MkdirAll(root + "/other"),
		} {
			if !errors.Is(err, ErrPower) {
				t.Errorf("cut at %d, then %s: %v", n, what, err)
			}
		}
	}
	v, err := NewVolatile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Create(filepath.Join(t.TempDir(), "elsewhere")); err == nil {
		t.Error("a file was made outside the root")
	}
}

// TestVolatileReads: what was written is read, through it and around it.
func TestVolatileReads(t *testing.T) {
	root := t.TempDir()
	v, err := NewVolatile(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(WriteFile(v, root+"/a", []byte("one")), v.Rename(root+"/a", root+"/b")); err != nil {
		t.Fatal(err)
	}
	through, err := ReadFile(v, root+"/b")
	around, aerr := os.ReadFile(root + "/b")
	if err = errors.Join(err, aerr); err != nil || string(through) != "one" || string(around) != "one" {
		t.Errorf("%q, %q (%v)", through, around, err)
	}
	names, err := v.List(root)
	if err != nil || !slices.Equal(names, []string{"b"}) {
		t.Errorf("%q (%v)", names, err)
	}
	if free, err := v.Free(root); err != nil || free <= 0 {
		t.Errorf("%d bytes free (%v)", free, err)
	}
	if f, err := OpenDirect(v, root+"/b"); err == nil {
		_ = f.Close()
	} else if !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
