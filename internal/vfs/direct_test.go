package vfs

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/device"
)

// TestDirect writes pages past the page cache between bytes that go through it.
func TestDirect(t *testing.T) {
	const page = device.PageSize
	boom := errors.New("boom")
	for _, fsys := range []FS{OS, Unsynced(OS), Inject(Unsynced(OS), &FailAt{N: 1000, Err: boom})} {
		name := filepath.Join(t.TempDir(), "f")
		f, err := fsys.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := Reserve(f, 3*page+5); err != nil {
			t.Fatal(err)
		}
		mem, err := device.NewHost(page)
		if err != nil {
			t.Fatal(err)
		}
		defer mem.Free()
		for i := range mem.Bytes() {
			mem.Bytes()[i] = byte(i%251) + 1
		}
		d, err := OpenDirect(fsys, name)
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		_, err = d.WriteAt(mem.Bytes(), page)
		if errors.Is(err, unix.EINVAL) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, off := range []int64{0, 2 * page, 3 * page} {
			if _, err := f.WriteAt([]byte("abcde"), off); err != nil {
				t.Fatal(err)
			}
		}
		want := make([]byte, 3*page+5)
		copy(want[page:], mem.Bytes())
		for _, off := range []int{0, 2 * page, 3 * page} {
			copy(want[off:], "abcde")
		}
		if got, err := ReadFile(fsys, name); err != nil || !bytes.Equal(got, want) {
			t.Error("the file is not what was written", err)
		}
	}
	name := filepath.Join(t.TempDir(), "f")
	if err := WriteFile(OS, name, nil); err != nil {
		t.Fatal(err)
	}
	for op, in := range map[Op]*FailAt{
		OpCreate: {Err: boom, Match: func(op Op, _ string) bool { return op == OpCreate }},
		OpWrite:  {Err: boom, Match: func(op Op, _ string) bool { return op == OpWrite }},
	} {
		d, err := OpenDirect(Inject(OS, in), name)
		if err == nil {
			_, err = d.WriteAt(make([]byte, device.PageSize), 0)
			_ = d.Close()
		}
		if !errors.Is(err, boom) {
			t.Errorf("%s was not seen: %v", op, err)
		}
	}
}
