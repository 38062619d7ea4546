package vfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"diskgnn/internal/vfs"
)

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	if err := os.WriteFile(name, []byte("here"), 0o666); err != nil {
		t.Fatal(err)
	}
	r := vfs.ReadOnly(vfs.OS)
	if b, err := vfs.ReadFile(r, name); err != nil || string(b) != "here" {
		t.Errorf("%q, %v", b, err)
	}
	other := filepath.Join(dir, "b")
	_, create := r.Create(other)
	_, open := r.OpenReadWrite(name)
	_, lock := r.Lock(other)
	for op, err := range map[string]error{
		"create": create, "open": open, "lock": lock, "rename": r.Rename(name, other), "link": r.Link(name, other),
		"remove": r.Remove(name), "remove all": r.RemoveAll(name), "mkdir": r.MkdirAll(other), "sync": r.SyncDir(dir),
	} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v", op, err)
		}
	}
	if names, err := r.List(dir); err != nil || len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
}

func TestNearest(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "out"): dir, filepath.Join(dir, "a", "b", "out"): dir, filepath.Join(dir, "a", "out") + "/": dir,
		"out": ".", "a/b/out": ".", "/": "/",
	} {
		if got, err := vfs.Nearest(vfs.OS, name); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
	if _, err := vfs.Nearest(vfs.OS, filepath.Join(dir, "file", "a", "out")); err == nil {
		t.Error("below a file")
	}
}
