package pread

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/iostacktest"
)

func TestOpenModes(t *testing.T) {
	path, content := iostacktest.WriteFile(t, 10000)
	empty, _ := iostacktest.WriteFile(t, 0)

	s := newStack(t, iostack.Options{Direct: iostack.DirectNever})
	f := iostacktest.OpenFile(t, s, path)
	if direct, reason := f.Direct(); direct || reason != "buffered reads were asked for" {
		t.Errorf("never: direct %v, %q", direct, reason)
	}

	s = newStack(t, iostack.Options{Direct: iostack.DirectAlways})
	if direct, reason := iostacktest.OpenFile(t, s, empty).Direct(); direct || reason != "the file is empty" {
		t.Errorf("an empty file: direct %v, %q", direct, reason)
	}
	_, err := s.Open(path)
	auto := newStack(t, iostack.Options{})
	direct, reason := iostacktest.OpenFile(t, auto, path).Direct()
	switch {
	case direct && err != nil:
		t.Errorf("auto reads directly, but always fails: %v", err)
	case !direct && !errors.Is(err, fault.ErrUsage):
		t.Errorf("auto does not read directly (%s), but always does: %v", reason, err)
	}

	// An empty file may have grown since: it is read buffered.
	f = iostacktest.OpenFile(t, auto, empty)
	if err := os.WriteFile(empty, content, 0o644); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 5000)
	if err := iostacktest.Read(auto, iostack.Request{File: f, Offset: 123, Buf: buf}); err != nil || !bytes.Equal(buf, content[123:5123]) {
		t.Errorf("a file that was empty when opened: %v", err)
	}
}

// TestOpenRefusesOtherThanFiles does not wait for a pipe's other end either.
func TestOpenRefusesOtherThanFiles(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	s := newStack(t, iostack.Options{Workers: 1})
	for _, path := range []string{pipe, "/dev/zero", t.TempDir()} {
		if _, err := s.Open(path); !errors.Is(err, fault.ErrInput) {
			t.Errorf("Open(%s): %v", path, err)
		}
	}
	if os.Geteuid() == 0 {
		return // may read everything
	}
	path, _ := iostacktest.WriteFile(t, 10)
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(path); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("an unreadable file: %v", err)
	}
}

// TestFilesBelongToTheirStack: a file's pieces are cut for its own stack's
// bounce buffers.
func TestFilesBelongToTheirStack(t *testing.T) {
	path, _ := iostacktest.WriteFile(t, 9000)
	f := iostacktest.OpenFile(t, newStack(t, iostack.Options{}), path)
	other := newStack(t, iostack.Options{MaxIO: 4096})
	if err := iostacktest.Read(other, iostack.Request{File: f, Offset: 1, Buf: make([]byte, 8000)}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("a file of another stack: %v", err)
	}
}
