package frontend

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// TestOpenWithoutDirectIO opens a file on a file system that refuses O_DIRECT.
func TestOpenWithoutDirectIO(t *testing.T) {
	const path = "/sys/kernel/mm/transparent_hugepage/enabled"
	if _, err := os.Stat(path); err != nil {
		t.Skip("no file system here is known to refuse O_DIRECT")
	}
	f, err := open(path, iostack.DirectAuto)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.direct || f.reason == "" {
		t.Errorf("direct %v, %q", f.direct, f.reason)
	}
	if f, err := open(path, iostack.DirectAlways); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("always: %v, %v", f, err)
	}
}

// TestCloseAwaitsReads lets a descriptor go only when no read uses it, lest the
// read finds another file under its number.
func TestCloseAwaitsReads(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 256)
	path := filepath.Join(t.TempDir(), "content.bin")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	s, q, err := New("test", iostack.Options{Direct: iostack.DirectNever})
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	released := false
	f.OnClose = func() { released = true }

	var g iostack.Group
	buf := make([]byte, 4096)
	reqs := []iostack.Request{{File: f, Buf: buf[:100]}, {File: f, Offset: 100, Buf: buf[100:]}}
	if err := s.Submit(&g, reqs); err != nil {
		t.Fatal(err)
	}
	var r Read
	if !q.TryTake(&r, nil) {
		t.Fatal("nothing to take")
	}
	closed := make(chan error, 1)
	go func() { closed <- f.Close() }()
	for f.use.TryRLock() { // until Close waits for its turn
		f.use.RUnlock()
		select {
		case err := <-closed:
			t.Fatalf("the file was closed in the middle of a read: %v", err)
		default:
		}
	}
	if released {
		t.Error("the file was released in the middle of a read")
	}
	if q.TryTake(&Read{}, nil) {
		t.Error("a read of a file that is being closed was handed out")
	}
	_, rest, offset := r.Rest()
	if done, err := r.Advance(copy(rest, content[offset:])); !done || err != nil {
		t.Error(done, err)
	}
	r.End(nil)
	if err := <-closed; err != nil || !released {
		t.Errorf("closed: %v, released: %t", err, released)
	}
	var failed *iostack.ReadError
	if err := s.Wait(context.Background(), &g); !errors.As(err, &failed) || failed.Index != 1 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("Wait: %v, want the second request's os.ErrClosed", err)
	}
	if !bytes.Equal(buf[:100], content[:100]) {
		t.Error("wrong bytes")
	}
}
