package mapped

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
)

func TestGuard(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, make([]byte, 3<<12), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Advise(Random)
	sum := 0
	read := func() error {
		for _, b := range f.Data() {
			sum += int(b)
		}
		return nil
	}
	if err := Guard(read, f); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 1<<12); err != nil {
		t.Fatal(err)
	}
	err = Guard(read, f)
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
		t.Errorf("reading a mapping whose file shrank: %v", err)
	}
}

// TestObserve changes a file at the last moment before it is read, after which its data does not leave Guard.
func TestObserve(t *testing.T) {
	name, f := old(t, []byte("abc"))
	var seen []string
	restore := Observe(func(files []*File) {
		for _, f := range files {
			seen = append(seen, f.Handle().Name())
		}
		if err := os.WriteFile(name, []byte("xyz"), 0o666); err != nil {
			t.Error(err)
		}
	})
	var read string
	err := Guard(func() error { read = string(f.Data()); return nil }, f)
	restore()
	if !errors.Is(err, fault.ErrCorrupt) || read != "xyz" || len(seen) != 1 || seen[0] != name {
		t.Errorf("read %q of %q: %v", read, seen, err)
	}
	if err := Guard(func() error { return nil }); err != nil || len(seen) != 1 {
		t.Errorf("once it is over: %v, %q", err, seen)
	}
}

// A page that cannot be read of a file that nobody changed is the disk's failure.
func TestUnreadable(t *testing.T) {
	name, f := old(t, make([]byte, 5000))
	if err := unix.Mprotect(f.data, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	sum := byte(0)
	err := Guard(func() error { sum += f.Data()[4097]; return nil }, f)
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name+": byte 4097 can no longer be read") {
		t.Errorf("%v", err)
	}
	_, other := old(t, make([]byte, 10))
	if err, panicked := guarded(func() error { sum += f.Data()[4097]; return nil }, other); err != nil || !panicked {
		t.Errorf("a fault elsewhere was swallowed: %v", err)
	}
}

// old makes a file of some bytes, and maps it: its time is past, for times are noted in steps.
func old(t *testing.T, content []byte) (string, *File) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	err := os.WriteFile(name, content, 0o666)
	if err == nil {
		err = os.Chtimes(name, time.Time{}, time.Unix(1e9, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return name, f
}

// write writes to a file in place.
func write(name string, b []byte, at int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, at)
	return errors.Join(err, f.Close())
}

// TestChanged changes a file while it is mapped, in ways that no memory fault shows. Guard sees a
// change of the content, of the second file too and whatever its function made of it; Unchanged
// sees that of the name as well.
func TestChanged(t *testing.T) {
	boom := errors.New("boom")
	for what, c := range map[string]struct {
		change  func(name string) error
		content bool
	}{
		"nothing":          {func(string) error { return nil }, false},
		"cut in its page":  {func(name string) error { return os.Truncate(name, 4999) }, true},
		"grown":            {func(name string) error { return os.Truncate(name, 5001) }, true},
		"cut, grown again": {func(name string) error { return errors.Join(os.Truncate(name, 4990), os.Truncate(name, 5000)) }, true},
		"written in place": {func(name string) error { return write(name, []byte{1}, 17) }, true},
		"removed":          {os.Remove, false},
		"replaced": {func(name string) error {
			return errors.Join(os.Remove(name), os.WriteFile(name, make([]byte, 5000), 0o666))
		}, false},
		"directory replaced": {func(name string) error { return os.Rename(filepath.Dir(name), filepath.Dir(name)+"-") }, false},
	} {
		name, f := old(t, make([]byte, 5000))
		_, other := old(t, make([]byte, 10))
		if err := errors.Join(Unchanged(other, f), Guard(func() error { return nil }, other, f)); err != nil {
			t.Fatal(err)
		}
		if err := Guard(func() error { return boom }, f); !errors.Is(err, boom) {
			t.Errorf("an ordinary error: %v", err)
		}
		if err := c.change(name); err != nil {
			t.Fatal(err)
		}
		err := Unchanged(other, f)
		if (err == nil) != (what == "nothing") || err != nil && (!errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name)) {
			t.Errorf("%s: Unchanged: %v", what, err)
		}
		index := []int{1}
		for made, fn := range map[string]func() error{
			"nil":      func() error { return nil },
			"an error": func() error { return boom },
			"a panic":  func() error { index[f.Data()[0]+7]++; return nil },
		} {
			err, recovered := guarded(fn, other, f)
			if c.content {
				if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) || recovered {
					t.Errorf("%s, and %s: %v", what, made, err)
				}
			} else if recovered != (made == "a panic") || errors.Is(err, boom) != (made == "an error") || errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s, and %s: %v", what, made, err)
			}
		}
		if err, recovered := guarded(func() error { panic("other") }, f); err != nil || !recovered {
			t.Errorf("%s: another panic was swallowed: %v", what, err)
		}
	}
}

// guarded reports whether the panic of a function went on.
func guarded(fn func() error, files ...*File) (err error, panicked bool) {
	defer func() { panicked = recover() != nil }()
	return Guard(fn, files...), false
}

func TestEmpty(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Open(name)
	if err != nil || len(f.Data()) != 0 {
		t.Errorf("an empty file: %d bytes, %v", len(f.Data()), err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.Handle().Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file of a closed mapping: %v", err)
	}
	if _, err := Open(name + "absent"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
}
