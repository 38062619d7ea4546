package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

func TestText(t *testing.T) {
	path := func(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: syscall.EFBIG} }
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.Join(errors.New("a"), errors.New("b")), "a; b"},
		{errors.Join(errors.New("a"), errors.New("b"), errors.New("a")), "a; b"},
		{fmt.Errorf("write %s: %w", "d/x", path("write", "d/x")), "write d/x: file too large"},
		{fmt.Errorf("read %s: %w", "d/x", path("open", "d/x")), "open d/x: file too large"},
		{fmt.Errorf("write x: %w", fmt.Errorf("write x: %w", path("write", "a b/x"))), "write a b/x: file too large"},
		{fmt.Errorf("write x: %w (and then: %w)", path("write", "x"), fmt.Errorf("write y: %w", path("write", "y"))), "write x: file too large (and then: write y: file too large)"},
		// Different files, and words that are no files.
		{fmt.Errorf("write x: %w", path("write", "x.tmp")), "write x: write x.tmp: file too large"},
		{fmt.Errorf("write x: %w", path("write", "ax")), "write x: write ax: file too large"},
		{errors.New("batch 1: batch 1: y"), "batch 1: batch 1: y"},
		{errors.New("write: write: y"), "write: write: y"},
		{errors.New("write x"), "write x"},
	} {
		if got := Text(c.err); got != c.want {
			t.Errorf("%q: %q, want %q", c.err, got, c.want)
		}
	}
}

func TestStarved(t *testing.T) {
	for err, want := range map[error]bool{syscall.EMFILE: true, syscall.ENFILE: true, syscall.ENOMEM: true, syscall.EIO: false, fs.ErrNotExist: false} {
		if got := Starved(fmt.Errorf("open: %w", err)); got != want {
			t.Errorf("%v: %t", err, got)
		}
	}
	if Starved(nil) {
		t.Error("nil")
	}
}
