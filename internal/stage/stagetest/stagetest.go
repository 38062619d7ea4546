// Package stagetest tests that stages keep the contract of package stage for interrupted runs.
package stagetest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Files returns the content of a directory's files by name, without run.json, which no fingerprint
// covers.
func Files(t testing.TB, dir string) map[string]string {
	t.Helper()
	names, err := vfs.OS.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, n := range names {
		b, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		if n != stage.RunFile {
			content[n] = string(b)
		}
	}
	return content
}

// Flip changes a bit of the file's byte at, modulo the size of the file.
func Flip(t testing.TB, name string, at int) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[at%len(b)] ^= 1 << (at % 8)
	if err := os.WriteFile(name, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// FlippedBytes interrupts a stage at every operation on fsys, changes a bit of one existing file, and
// resumes, for every file in turn. The resumed run must end with the files of want, or with an error that
// names the remedy. run makes the directory out, below dir. Fewer changes than least fail the test.
func FlippedBytes(t testing.TB, fsys vfs.FS, dir string, want map[string]string, least int, run func(fsys vfs.FS, out string, force bool) error) {
	t.Helper()
	tried := 0
	var last map[string]string // files after the previous interruption
	for n := 0; ; n++ {
		out := filepath.Join(dir, fmt.Sprint(n))
		in := &vfs.FailAt{N: n, After: true, Err: errors.New("boom")}
		_ = run(vfs.Inject(fsys, in), out, false)
		if !in.Fired() {
			break
		}
		partial, left := out+".partial", filepath.Join(dir, "left")
		if err := os.Rename(partial, left); err != nil {
			continue // the name was given already
		}
		there := Files(t, left)
		if maps.Equal(there, last) {
			there = nil
		} else {
			last = there
		}
		for _, name := range slices.Sorted(maps.Keys(there)) {
			if there[name] == "" {
				continue
			}
			tried++
			what := fmt.Sprintf("operation %d, change %d, of %s", n, tried, name)
			if err := os.CopyFS(partial, os.DirFS(left)); err != nil {
				t.Fatal(err)
			}
			Flip(t, filepath.Join(partial, name), n*31+tried*17)
			if err := run(fsys, out, false); err != nil {
				if name != "journal.json" || !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "--force discards it") {
					t.Fatalf("%s: %v", what, err)
				}
				if err := run(fsys, out, true); err != nil {
					t.Fatalf("%s: with force: %v", what, err)
				}
			}
			same(t, what, want, Files(t, out))
			if err := os.RemoveAll(out); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.RemoveAll(left); err != nil {
			t.Fatal(err)
		}
	}
	if tried < least {
		t.Errorf("only %d bytes were changed", tried)
	}
}

// same fails unless both have the same files with the same bytes.
func same(t testing.TB, what string, want, got map[string]string) {
	t.Helper()
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s: %s is another", what, name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: files %v, want %v", what, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	if t.Failed() {
		t.FailNow()
	}
}
