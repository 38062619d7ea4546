package importertest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Edit changes a tree of files.
type Edit func(t testing.TB, dir string)

// Edited returns a copy of a tree with the edits applied.
func Edited(t testing.TB, tree string, edits ...Edit) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "tree")
	if err := os.CopyFS(dir, os.DirFS(tree)); err != nil {
		t.Fatal(err)
	}
	for _, edit := range edits {
		edit(t, dir)
	}
	return dir
}

// Put returns an Edit that replaces a file, or removes it if content is nil.
func Put(name string, content []byte) Edit {
	return func(t testing.TB, dir string) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if content != nil {
			Save(t, path, content)
		}
	}
}

// Replace returns an Edit that replaces all occurrences of a text in a file.
func Replace(name, old, new string) Edit {
	return func(t testing.TB, dir string) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(b, []byte(old)) {
			t.Fatalf("no %q in %s", old, path)
		}
		Save(t, path, bytes.ReplaceAll(b, []byte(old), []byte(new)))
	}
}
