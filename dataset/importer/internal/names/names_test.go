package names

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/fault"
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

// onDisk returns a Dict that has no room in memory.
func onDisk(t *testing.T, fsys vfs.FS) *Dict {
	t.Helper()
	d, err := New(fsys, in(vfstest.TempDir(t)), Least)
	if err != nil {
		t.Fatal(err)
	}
	d.held = d.memory
	return d
}

func TestNeedsMemory(t *testing.T) {
	if _, err := New(vfs.OS, in(""), Least-1); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "at least 2.0 MiB") {
		t.Errorf("a byte too little: %v", err)
	}
}

// TestHeld holds three names of four bytes in memory to the byte, and one more on disk.
func TestHeld(t *testing.T) {
	d, err := New(vfs.OS, in(vfstest.TempDir(t)), Least)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.memory = 3 * 100
	for i, want := range []int64{100, 200, 300, 0} {
		for range 2 { // the second time it is known
			if err := d.Add(fmt.Appendf(nil, "n%03d", i)); err != nil {
				t.Fatal(err)
			}
		}
		if d.Held() != want {
			t.Errorf("%d names take %d bytes, want %d", i+1, d.Held(), want)
		}
	}
}

// TestBucketTooLarge needs room for the names of a bucket, in half of the memory.
func TestBucketTooLarge(t *testing.T) {
	name := make([]byte, 1000)
	for _, memory := range []int64{2 * 1096, 2*1096 - 2} {
		d := onDisk(t, vfs.OS)
		d.memory = memory
		if err := d.Add(name); err != nil {
			t.Fatal(err)
		}
		err := d.Done(t.Context())
		if memory == 2*1096 && err != nil {
			t.Errorf("what fits: %v", err)
		}
		if memory < 2*1096 && (!errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "one of 64 parts of the nodes' names takes more than the 1.1 KiB")) {
			t.Errorf("a byte too little: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTooMany gives names the last number that is none, and the one after.
func TestTooMany(t *testing.T) {
	for _, disk := range []bool{false, true} {
		for before, bad := range map[int64]bool{None - 1: false, None: true} {
			d := onDisk(t, vfs.OS)
			if !disk {
				d.held = 0
			}
			if err := d.Add([]byte("a")); err != nil {
				t.Fatal(err)
			}
			d.n += before
			if err := d.Done(t.Context()); bad != errors.Is(err, fault.ErrInput) || !bad && err != nil || bad && !strings.Contains(err.Error(), "more than 4294967295 names") {
				t.Errorf("on disk %v, after %d names: %v", disk, before, err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// whole numbers ten names, asks for seven of them, and yields all.
func whole(ctx context.Context, d *Dict) (found, named int, err error) {
	for i := range 10 {
		if err := d.Add(fmt.Appendf(nil, "n%d", i)); err != nil {
			return 0, 0, err
		}
	}
	if err := d.Done(ctx); err != nil {
		return 0, 0, err
	}
	i := 0
	if err := d.Find(ctx, func() ([]byte, error) {
		if i++; i > 7 {
			return nil, io.EOF
		}
		return fmt.Appendf(nil, "n%d", i), nil
	}, func(n uint32) error {
		if found++; int(n) != found {
			return fmt.Errorf("%d instead of %d", n, found)
		}
		return nil
	}); err != nil {
		return 0, 0, err
	}
	err = d.Names(ctx, func([]byte) error { named++; return nil })
	return found, named, err
}

// TestFailures fails every operation on files in turn: its error is returned, and no file stays open.
func TestFailures(t *testing.T) {
	boom := errors.New("boom")
	for fail := range importertest.Failures(t, vfs.OS, boom) {
		d := onDisk(t, fail)
		found, named, err := whole(t.Context(), d)
		err = errors.Join(err, d.Close())
		if !fail.Fired() && (err != nil || found != 7 || named != 10 || fail.N < 50) {
			t.Errorf("%d found, %d named after %d operations, %v", found, named, fail.N, err)
		}
		if fail.Fired() && !errors.Is(err, boom) {
			t.Errorf("%v: %v", fail, err)
		}
	}
}

// stuck is a file system whose files cannot be closed.
type stuck struct {
	vfs.FS
	err error
}

type stuckFile struct {
	vfs.File
	err error
}

func (s stuck) Create(name string) (vfs.File, error) {
	f, err := s.FS.Create(name)
	return stuckFile{f, s.err}, err
}

func (s stuckFile) Close() error { return errors.Join(s.File.Close(), s.err) }

// TestCloseFails returns what closing a file returns.
func TestCloseFails(t *testing.T) {
	boom := errors.New("boom")
	d := onDisk(t, stuck{vfs.OS, boom})
	if err := d.Add([]byte("a")); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); !errors.Is(err, boom) {
		t.Errorf("names: %v", err)
	}
	l, err := NewList(stuck{vfs.OS, boom}, filepath.Join(vfstest.TempDir(t), "x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); !errors.Is(err, boom) {
		t.Errorf("a list: %v", err)
	}
}

// TestStops ends with the context, and with the errors of what is called.
func TestStops(t *testing.T) {
	boom := errors.New("boom")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, disk := range []bool{false, true} {
		d := onDisk(t, vfs.OS)
		if !disk {
			d.held = 0
		}
		if _, _, err := whole(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		one := func() func() ([]byte, error) {
			n := 0
			return func() ([]byte, error) {
				if n++; n > 1 {
					return nil, io.EOF
				}
				return []byte("n1"), nil
			}
		}
		for what, err := range map[string]error{
			"names": d.Names(t.Context(), func([]byte) error { return boom }),
			"next":  d.Find(t.Context(), func() ([]byte, error) { return nil, boom }, func(uint32) error { return nil }),
			"emit":  d.Find(t.Context(), one(), func(uint32) error { return boom }),
		} {
			if !errors.Is(err, boom) {
				t.Errorf("%s, on disk %v: %v", what, disk, err)
			}
		}
		for what, err := range map[string]error{
			"names": d.Names(done, func([]byte) error { return nil }),
			"find":  d.Find(done, one(), func(uint32) error { return nil }),
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s, on disk %v: %v", what, disk, err)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	d := onDisk(t, vfs.OS)
	defer d.Close()
	if _, _, err := whole(done, d); !errors.Is(err, context.Canceled) {
		t.Errorf("done: %v", err)
	}
}

// TestBuffers has buffers of a quarter of the memory, none less than 16 KiB or more than 1 MiB,
// which never grow.
func TestBuffers(t *testing.T) {
	for memory, want := range map[int64]int{Least: 16 << 10, 16 << 20: 64 << 10, 1 << 30: 1 << 20} {
		d := onDisk(t, vfs.OS)
		d.memory, d.held = memory, memory
		if err := d.Add([]byte("a")); err != nil {
			t.Fatal(err)
		}
		if d.defined.size != want {
			t.Errorf("%d bytes of memory: buffers of %d, want %d", memory, d.defined.size, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
