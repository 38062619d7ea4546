package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/dataset/importer/internal/file"
	"diskgnn/internal/fault"
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
		if got, err := file.Inside(c.dir, c.name); err != nil || got != filepath.Join(c.dir, c.name) {
			t.Errorf("%s in %s: %q, %v", c.name, c.dir, got, err)
		}
	}
	for name, says := range map[string]string{
		"../x": "not inside", "/etc/passwd": "not inside", "": "not inside", "sub/../../x": "not inside",
		"far": "symbolic link", "twice": "symbolic link", "dir/x": "symbolic link",
	} {
		for _, d := range []string{dir, alias} {
			if _, err := file.Inside(d, name); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s in %s: %v; want bad input that says %q", name, d, err, says)
			}
		}
	}
}
