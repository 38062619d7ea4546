package names

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/rng"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

func in(dir string) func(string) string {
	return func(what string) string { return filepath.Join(dir, what) }
}

// TestDict numbers names in memory and on disk, and compares with a list.
func TestDict(t *testing.T) {
	dir := vfstest.TempDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		d, err := New(vfs.OS, in(dir), Least)
		if err != nil {
			rt.Fatal(err)
		}
		if most := rapid.SampledFrom([]int64{0, 5000, 30_000}).Draw(rt, "memory"); most > 0 {
			d.memory = 1 << 20 // of buckets
			d.held = d.memory - most
		}
		src := rng.New(rapid.Uint64().Draw(rt, "seed"))
		kinds := rapid.Uint64Range(1, 2000).Draw(rt, "names")
		name := func() []byte { return fmt.Appendf(nil, "n%d", src.Uint64n(kinds)) }
		var list []string
		number := map[string]uint32{}
		twice, again, first := int64(0), "", -1
		for i := range rapid.IntRange(0, 3000).Draw(rt, "added") {
			b := name()
			if _, ok := number[string(b)]; ok {
				if twice++; first < 0 {
					again, first = string(b), i
				}
			} else {
				number[string(b)] = uint32(len(list))
				list = append(list, string(b))
			}
			if err := d.Add(b); err != nil {
				rt.Fatal(err)
			}
		}
		if err := d.Done(t.Context()); err != nil {
			rt.Fatal(err)
		}
		if n, name, at := d.Twice(); n != twice || n > 0 && (name != again || at != int64(first)) || d.Len() != int64(len(list)) {
			rt.Errorf("%d names, %d twice, first %q at %d: want %d, %d, %q, %d", d.Len(), n, name, at, len(list), twice, again, first)
		}
		var got []string
		bytes := int64(0)
		if err := d.Names(t.Context(), func(name []byte) error {
			got, bytes = append(got, string(name)), bytes+int64(len(name))
			return nil
		}); err != nil || !slices.Equal(got, list) || bytes != d.Bytes() {
			rt.Fatalf("%v, %q instead of %q", err, got, list)
		}
		kinds *= 2 // half of them unknown
		var want, found []uint32
		asked := rapid.IntRange(0, 3000).Draw(rt, "asked")
		err = d.Find(t.Context(), func() ([]byte, error) {
			if asked--; asked < 0 {
				return nil, io.EOF
			}
			b := name()
			n, ok := number[string(b)]
			if !ok {
				n = None
			}
			want = append(want, n)
			return b, nil
		}, func(n uint32) error {
			found = append(found, n)
			return nil
		})
		if err != nil || !slices.Equal(found, want) {
			rt.Fatalf("%v: %d instead of %d", err, found, want)
		}
		if err := d.Close(); err != nil {
			rt.Error(err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			rt.Errorf("%s was left", left[0].Name())
		}
	})
}

// TestTwiceOnDisk finds the first name that is added again, whichever bucket it is in.
func TestTwiceOnDisk(t *testing.T) {
	d, err := New(vfs.OS, in(vfstest.TempDir(t)), Least)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.held = d.memory // nothing more fits
	for i := range 400 {
		if err := d.Add(fmt.Appendf(nil, "n%d", i%200)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Done(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, name, at := d.Twice(); n != 200 || name != "n0" || at != 200 || d.Len() != 200 {
		t.Errorf("%d twice, the first %q at %d, of %d", n, name, at, d.Len())
	}
}
