//go:build gpu && cgo && linux && amd64

package cufile

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed testdata/libcufile.c
var fakeSource []byte

// compileFake returns the path of a libcufile that reads into host memory, or skips the
// test where there is no C compiler.
func compileFake(t *testing.T) string {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("no C compiler: %v", err)
	}
	dir := t.TempDir()
	source, lib := filepath.Join(dir, "libcufile.c"), filepath.Join(dir, "libcufile.so")
	if err := os.WriteFile(source, fakeSource, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", lib, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return lib
}

// opener opens copies of a library, as each of them has its own state.
func opener(t *testing.T, lib string) func() library {
	content, err := os.ReadFile(lib)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	return func() library {
		t.Helper()
		n++
		path := fmt.Sprintf("%s.%d", lib, n)
		if err := os.WriteFile(path, content, 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := openLibrary(path)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// TestBinding calls a libcufile in C as the real one is called.
func TestBinding(t *testing.T) {
	lib := compileFake(t)
	open := opener(t, lib)
	t.Run("conformance", func(t *testing.T) { conformance(t, openEmulated(t), open) })
	t.Run("faults", func(t *testing.T) { faults(t, open) })
	t.Run("every read", func(t *testing.T) { everyRead(t, open) })
	t.Run("probe", func(t *testing.T) {
		t.Setenv(realVariable, "library")
		t.Setenv("DISKGNN_CUFILE", lib)
		probes(t)
	})
	p, err := open().properties()
	if want := (properties{Major: 2, Minor: 26}); p != want || err != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestNoLibrary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libcufile.so")
	if _, err := openLibrary(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a missing library: %v", err)
	}
	t.Setenv("DISKGNN_CUFILE", "elsewhere.so")
	if paths := libraryPaths(); len(paths) != 1 || paths[0] != "elsewhere.so" {
		t.Errorf("looks in %q", paths)
	}
}
