package rowfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

var disk = vfs.Unsynced(vfs.OS)

// files returns a set of files in a directory that is being made.
func files(t *testing.T) *Set {
	t.Helper()
	dir, _, err := stage.Begin(disk, filepath.Join(t.TempDir(), "D"), stage.Spec{}, false)
	if err != nil {
		t.Fatal(err)
	}
	set := NewSet(dir, 0)
	t.Cleanup(func() {
		set.Close()
		_ = dir.Close()
	})
	return set
}

// TestWindows puts rows in any order, in windows of any size, and gets them in order; no
// scratch file stays.
func TestWindows(t *testing.T) {
	set := files(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 50).Draw(t, "rows")
		rowBytes := rapid.IntRange(1, 9).Draw(t, "bytes")
		w, err := NewWindows(set, n, rowBytes, rapid.Int64Range(1, 60).Draw(t, "window"), 1)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		places := make([]int64, n)
		var want []byte
		for i := range places {
			places[i] = int64(i)
			want = append(want, bytes.Repeat([]byte{byte(i)}, rowBytes)...)
		}
		for _, p := range rapid.Permutation(places).Draw(t, "order") {
			if err := w.Put(p, want[int(p)*rowBytes:int(p+1)*rowBytes]); err != nil {
				t.Fatal(err)
			}
		}
		var got []byte
		if err := w.Each(func(rows []byte) error { got = append(got, rows...); return nil }); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v, want %v: %v", got, want, err)
		}
		if left, _ := filepath.Glob(set.Dir.File("hot-*")); len(left) > 0 {
			t.Fatalf("left behind: %v", left)
		}
	})
}

// TestWindowsDamage changes a byte of a window on the disk.
func TestWindowsDamage(t *testing.T) {
	set := files(t)
	for at := range int64(7) { // four bytes of place, three of row
		w, err := NewWindows(set, 2, 3, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		for p := range int64(2) {
			if err := w.Put(p, []byte("abc")); err != nil {
				t.Fatal(err)
			}
		}
		err = w.Each(func([]byte) error {
			w.out[1].Finish()
			return flip(set.Dir.File(windowFile(1)), at)
		})
		if !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("byte %d: %v", at, err)
		}
		w.Close()
	}
}

// flip changes a byte of a file.
func flip(name string, at int64) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	b[at] ^= 1
	return os.WriteFile(name, b, 0o666)
}

// TestLists reads lists back, before and after the file was closed, and damaged.
func TestLists(t *testing.T) {
	want := [][]uint32{{1, 2, 3}, {}, {4}, {5, 6}}
	start := []int64{0, 3, 3, 4, 6}
	name := filepath.Join(t.TempDir(), "lists")
	l, err := NewLists(disk, name, start)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{2, 0, 3, 1} {
		if err := l.Write(i, want[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Write(1, []uint32{9}); err == nil {
		t.Error("a list of another length was written")
	}
	read := func(l *Lists) {
		t.Helper()
		for i := range want {
			if got, err := l.Read(i, nil); err != nil || !slices.Equal(got, want[i]) {
				t.Errorf("list %d: %v, want %v: %v", i, got, want[i], err)
			}
		}
	}
	read(l)
	sums, err := l.Finish()
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenLists(disk, sums)
	if err != nil {
		t.Fatal(err)
	}
	read(again)
	if err := flip(name, 13); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Read(2, nil); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a byte was changed: %v", err)
	}
	if err := again.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
	if err := l.Remove(); err != nil {
		t.Errorf("removed by another: %v", err)
	}
}
