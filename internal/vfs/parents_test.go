package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/fault"
)

func TestMakeParents(t *testing.T) {
	t.Chdir(t.TempDir())
	for range 2 {
		if err := MakeParents(OS, "a/b/../b/c/"); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := os.Stat("a/b"); err != nil || !st.IsDir() {
		t.Errorf("a/b: %v, %v", st, err)
	}
	if _, err := os.Stat("a/b/c"); err == nil {
		t.Error("what was named is made as well")
	}
	if err := MakeParents(OS, "c"); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile("file", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if ok, err := Exists(OS, "file/c"); ok || err != nil {
		t.Errorf("below a file: %v, %v", ok, err)
	}
	for name, want := range map[string]string{"file/c": "file is no directory", "file/b/c": "file is no directory"} {
		if err := MakeParents(OS, name); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if err := CheckParents(OS, name); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is checked: %v", name, err)
		}
	}
	for _, name := range []string{"d", "d/e/f", "a/b/c", "a/c/d"} {
		if err := CheckParents(OS, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat("d"); err == nil {
		t.Error("CheckParents makes directories")
	}
}

// The power may go as soon as MakeParents returns.
func TestMakeParentsIsDurable(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(root, 0o777); err != nil {
		t.Fatal(err)
	}
	v, err := NewVolatile(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := MakeParents(v, filepath.Join(root, "a", "b", "c")); err != nil {
		t.Fatal(err)
	}
	if n := len(v.pending); n != 0 {
		t.Errorf("%d changes are not durable", n)
	}
}

func TestCheckWritable(t *testing.T) {
	dir := t.TempDir()
	if err := CheckWritable(dir); err != nil {
		t.Error(err)
	}
	if err := CheckWritable(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if err := CheckWritable(dir); !errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		t.Errorf("not permitted: %v", err)
	}
}
