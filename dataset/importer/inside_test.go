package importer_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/importer"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

func TestInside(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "tree")
	for _, d := range []string{"tree/sub", "elsewhere"} {
		if err := os.MkdirAll(filepath.Join(outer, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"tree/sub/x", "elsewhere/x", "x"} {
		if err := os.WriteFile(filepath.Join(outer, f), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"tree/near": "sub/x", "tree/far": "../x", "tree/dir": "../elsewhere", "tree/back": "../tree/sub", "alias": "tree", "tree/twice": "far",
	} {
		if err := os.Symlink(to, filepath.Join(outer, link)); err != nil {
			t.Fatal(err)
		}
	}
	alias := filepath.Join(outer, "alias")
	for _, c := range []struct{ dir, name string }{
		{dir, "sub/x"}, {dir, "near"}, {dir, "back/x"}, {dir, "nosuch"}, {dir, "sub/../near"}, {alias, "sub/x"}, {alias, "near"},
	} {
		if got, err := importer.Inside(c.dir, c.name); err != nil || got != filepath.Join(c.dir, c.name) {
			t.Errorf("%s in %s: %q, %v", c.name, c.dir, got, err)
		}
	}
	for name, says := range map[string]string{
		"../x": "not inside", "/etc/passwd": "not inside", "": "not inside", "sub/../../x": "not inside",
		"x\x00": "control", "x\ny": "control", "\x1b[2J": "control", "x\u0085": "control",
		"far": "symbolic link", "twice": "symbolic link", "dir/x": "symbolic link",
	} {
		for _, d := range []string{dir, alias} {
			if _, err := importer.Inside(d, name); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s in %s: %v; want bad input that says %q", name, d, err, says)
			}
		}
	}
}

// TestNames has bad input of names that no file can be read by.
func TestFileNames(t *testing.T) {
	dir := t.TempDir()
	x, loop := filepath.Join(dir, "x"), filepath.Join(dir, "loop")
	if err := errors.Join(os.WriteFile(x, nil, 0o666), os.Symlink(loop, loop)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(dir, "nosuch"), filepath.Join(x, "y"), loop, filepath.Join(dir, strings.Repeat("x", 1000)), x + "\x00"} {
		if _, err := importer.StatFile(vfs.OS, name); !errors.Is(err, fault.ErrInput) {
			t.Errorf("%.80q: %v", name, err)
		}
		if _, err := importer.OpenFile(vfs.OS, name); !errors.Is(err, fault.ErrInput) {
			t.Errorf("%.80q: %v", name, err)
		}
	}
	if _, err := importer.OpenFile(vfs.OS, dir); !errors.Is(err, fault.ErrInput) {
		t.Errorf("a directory: %v", err)
	}
	f, err := importer.OpenFile(vfs.OS, x)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Error(err)
	}
}
