package all

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/iostacktest"
	"diskgnn/iostack/pread"
)

// some is a stack that has every other file.
type some struct {
	*pread.Stack
	opened *atomic.Int64
}

func (s *some) Open(path string) (iostack.File, error) {
	if s.opened.Add(1)%2 == 0 {
		return nil, iostack.ErrElsewhere
	}
	return s.Stack.Open(path)
}

func open(t *testing.T) *joined {
	t.Helper()
	first, err := pread.New(iostack.Options{Workers: 3})
	if err != nil {
		t.Fatal(err)
	}
	second, err := pread.New(iostack.Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	return join(&some{first, new(atomic.Int64)}, second)
}

// holding is a stack that holds memory.
type holding struct{ *pread.Stack }

func (holding) Held() int64 { return 7 }

// What both hold is held.
func TestHeld(t *testing.T) {
	s := open(t)
	defer s.Close()
	if n := iostack.Held(s); n != 0 {
		t.Errorf("%d bytes", n)
	}
	p, err := pread.New(iostack.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	h := join(s.first, holding{p})
	defer p.Close()
	if n := iostack.Held(h); n != 7 {
		t.Errorf("%d bytes, not 7", n)
	}
}

func TestConformance(t *testing.T) {
	iostacktest.Run(t, func(t *testing.T) iostack.Stack { return open(t) })
}

// TestBothInOneGroup: requests of both stacks keep their places, and none is submitted if one
// is refused.
func TestBothInOneGroup(t *testing.T) {
	s := open(t)
	defer s.Close()
	dir := t.TempDir()
	var files [2]iostack.File
	for i := range files {
		path := filepath.Join(dir, string(rune('a'+i)))
		if err := os.WriteFile(path, []byte{byte('0' + i), byte('5' + i)}, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := s.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	if !s.first.Owns(files[0]) || !s.second.Owns(files[1]) || s.first.Owns(files[1]) {
		t.Fatal("both files are one stack's")
	}
	b := make([]byte, 4)
	var g iostack.Group
	reqs := []iostack.Request{
		{File: files[0], Buf: b[:1]}, {File: files[1], Buf: b[1:2]}, {File: files[1], Offset: 1, Buf: b[2:3]}, {File: files[0], Offset: 1, Buf: b[3:]},
	}
	if err := errors.Join(s.Submit(&g, reqs), s.Wait(context.Background(), &g)); err != nil || string(b) != "0165" {
		t.Errorf("%q, %v", b, err)
	}
	if did := s.Stats(); did.Requests != 4 || did.BytesAsked != 4 {
		t.Errorf("%+v", did)
	}
	reqs[2].Offset = 2 // beyond the end
	err := errors.Join(s.Submit(&g, reqs), s.Wait(context.Background(), &g))
	var read *iostack.ReadError
	if !errors.As(err, &read) || read.Index != 2 || read.File != files[1].Name() {
		t.Errorf("%v: want request 2", err)
	}
	reqs[3].Offset = -1
	if err := s.Submit(&g, reqs); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("a negative offset: %v", err)
	}
	if did := s.Stats(); did.Requests != 8 {
		t.Errorf("%+v: requests were submitted beside one that was refused", did)
	}
}
