package trace

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// counted counts the locks that are held, and calls before, if it is set, ahead of each.
type counted struct {
	vfs.FS
	before func()
	held   int
}

func (c *counted) Lock(name string) (io.Closer, error) {
	if c.before != nil {
		c.before()
	}
	l, err := c.FS.Lock(name)
	if err == nil {
		c.held++
		l = counting{l, c}
	}
	return l, err
}

type counting struct {
	io.Closer
	of *counted
}

func (c counting) Close() error {
	c.of.held--
	return c.Closer.Close()
}

// TestOneRecordingAtATime: a trace that another process writes is left to it, and no lock outlives
// its recording, however that ends.
func TestOneRecordingAtATime(t *testing.T) {
	name := filepath.Join(t.TempDir(), "trace")
	h := Header{RowBytes: 8, Nodes: 9, InFlight: 1, LongestRead: 4096}
	fail := &vfs.FailAt{N: -1}
	fsys := &counted{FS: vfs.Inject(vfs.OS, fail)}
	state := func(held int, partials bool) {
		t.Helper()
		if _, err := os.Stat(name + partial); (err == nil) != partials || fsys.held != held {
			t.Errorf("%d locks are held, want %d; %s: %v", fsys.held, held, name+partial, err)
		}
	}
	begin := func() *Recording {
		t.Helper()
		r, err := Begin(fsys, name, h)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := begin()
	if _, err := Begin(fsys, name, h); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("beside another: %v", err)
	}
	state(1, true)
	if err := first.Abandon(nil); err != nil {
		t.Fatal(err)
	}
	state(0, false)
	// Whatever fails of the end, nothing is left.
	for n := 0; ; n++ {
		r := begin()
		*fail = vfs.FailAt{N: n, Err: os.ErrInvalid}
		err := r.Finish()
		fired := fail.Fired()
		*fail = vfs.FailAt{N: -1}
		if !fired {
			if err != nil || n < 4 {
				t.Errorf("after %d failures: %v", n, err)
			}
			break
		}
		if err == nil {
			t.Errorf("failure %d was not reported", n)
		}
		state(0, false)
	}
	state(0, false)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	// The other one finishes between the look at the name and the lock.
	first = begin()
	fsys.before = func() {
		if err := first.Finish(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Begin(fsys, name, h); !errors.Is(err, fault.ErrExists) {
		t.Errorf("after another: %v", err)
	}
	state(0, false)
}
