package faultio

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/iostacktest"
	"diskgnn/iostack/pread"
)

// wrap returns a stack with faults over a fresh pread, and the path and content
// of a file.
func wrap(t *testing.T, injectors ...Injector) (s *Stack, f iostack.File, content []byte) {
	t.Helper()
	content = make([]byte, 100<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	path := filepath.Join(t.TempDir(), "cold-000.bin")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	s = Wrap(newPread(t), injectors...)
	t.Cleanup(func() { s.Close() })
	f, err := s.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return s, f, content
}

func newPread(t *testing.T) iostack.Stack {
	t.Helper()
	s, err := pread.New(iostack.Options{Workers: 4, MaxIO: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// requests returns n requests of 1000 bytes each, back to back.
func requests(f iostack.File, n int) []iostack.Request {
	reqs := make([]iostack.Request, n)
	for i := range reqs {
		reqs[i] = iostack.Request{File: f, Offset: int64(i) * 1000, Buf: make([]byte, 1000)}
	}
	return reqs
}

func read(t *testing.T, s iostack.Stack, reqs []iostack.Request) error {
	t.Helper()
	var g iostack.Group
	if err := s.Submit(&g, reqs); err != nil {
		t.Fatal(err)
	}
	return s.Wait(context.Background(), &g)
}

// wrong returns which requests hold something else than the file.
func wrong(reqs []iostack.Request, content []byte) (indices []int) {
	for i, r := range reqs {
		if !bytes.Equal(r.Buf, content[r.Offset:][:len(r.Buf)]) {
			indices = append(indices, i)
		}
	}
	return indices
}

func TestConformance(t *testing.T) {
	t.Run("no faults", func(t *testing.T) {
		iostacktest.Run(t, func(t *testing.T) iostack.Stack { return Wrap(newPread(t)) })
	})
	t.Run("faults elsewhere, an open gate", func(t *testing.T) {
		gate := NewGate()
		gate.Open()
		iostacktest.Run(t, func(t *testing.T) iostack.Stack {
			return Wrap(newPread(t), On(File("elsewhere"), Fail(syscall.EIO)), On(Always(), gate.Hold()))
		})
	})
}

func TestFailTheThirdRequest(t *testing.T) {
	s, f, content := wrap(t, On(Nth(2, File("cold-*")), Fail(syscall.EIO)))
	reqs := requests(f, 5)
	err := read(t, s, reqs)
	var readErr *iostack.ReadError
	if !errors.As(err, &readErr) || readErr.Index != 2 || readErr.Offset != 2000 || readErr.Length != 1000 || !errors.Is(err, syscall.EIO) {
		t.Errorf("%s: %v", s, err)
	}
	if w := wrong(reqs, content); len(w) != 1 || w[0] != 2 {
		t.Errorf("%s: wrong requests %v, want the one that failed", s, w)
	}
	if err := read(t, s, reqs); err != nil {
		t.Errorf("%s: only one request of all should fail: %v", s, err)
	}
	if s.Injected() != 1 {
		t.Errorf("%d injected", s.Injected())
	}
}

func TestFlipIsSilent(t *testing.T) {
	s, f, content := wrap(t, On(Covers(3007), Flip(7, 0x10)))
	reqs := requests(f, 5)
	if err := read(t, s, reqs); err != nil {
		t.Fatal(err)
	}
	if w := wrong(reqs, content); len(w) != 1 || w[0] != 3 || reqs[3].Buf[7] != content[3007]^0x10 {
		t.Errorf("%s: wrong requests %v", s, w)
	}
	reqs[3].Buf[7] ^= 0x10
	if w := wrong(reqs, content); w != nil {
		t.Errorf("%s: more than a bit is wrong in %v", s, w)
	}
}

func TestShortLooksTruncated(t *testing.T) {
	s, f, content := wrap(t, On(Nth(1, Always()), Short(300)))
	reqs := requests(f, 3)
	err := read(t, s, reqs)
	if !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("%s: %v", s, err)
	}
	if !bytes.Equal(reqs[1].Buf[:300], content[1000:1300]) || !bytes.Equal(reqs[1].Buf[300:], make([]byte, 700)) {
		t.Errorf("%s: not exactly 300 bytes were delivered", s)
	}
}

func TestEffectsAddUp(t *testing.T) {
	s, f, content := wrap(t,
		On(All(File("cold-*"), Nth(1, Always())), Flip(0, 0x01)),
		On(Always(), Flip(0, 0x02)))
	reqs := requests(f, 3)
	if err := read(t, s, reqs); err != nil {
		t.Fatal(err)
	}
	for i, mask := range []byte{2, 3, 2} {
		if reqs[i].Buf[0] != content[i*1000]^mask {
			t.Errorf("request %d: not flipped by %d", i, mask)
		}
	}
	if s.Injected() != 4 {
		t.Errorf("%d injected, want 4", s.Injected())
	}
}

// TestGateHoldsWaitAndOutlivesCancel: a read that the device has begun must end
// before Wait returns, context or not.
func TestGateHoldsWaitAndOutlivesCancel(t *testing.T) {
	gate := NewGate()
	s, f, content := wrap(t, On(Nth(1, Always()), gate.Hold()))
	reqs := requests(f, 3)
	var g iostack.Group
	if err := s.Submit(&g, reqs); err != nil {
		t.Fatal(err)
	}
	<-gate.Arrived()
	ctx, cancel := context.WithCancel(context.Background())
	waited := make(chan error, 1)
	go func() { waited <- s.Wait(ctx, &g) }()
	cancel()
	if err := read(t, s, requests(f, 3)); err != nil { // others pass meanwhile
		t.Error(err)
	}
	select {
	case err := <-waited:
		t.Errorf("Wait returned before the gate was open: %v", err)
	default:
	}
	gate.Open()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}

	if err := read(t, s, reqs); err != nil || wrong(reqs, content) != nil {
		t.Errorf("once open: %v", err)
	}
}

func TestHangEndsWithItsContext(t *testing.T) {
	s, f, content := wrap(t, On(Nth(0, Always()), Hang()))
	var g iostack.Group
	reqs := requests(f, 3)
	if err := s.Submit(&g, reqs); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go cancel()
	if err := s.Wait(ctx, &g); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	if err := s.Submit(&g, reqs); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(context.Background(), &g); err != nil || wrong(reqs, content) != nil {
		t.Errorf("after the cancelled group: %v", err)
	}
}

func TestHangEndsWithClose(t *testing.T) {
	s, f, _ := wrap(t, On(Nth(0, Always()), Hang()))
	var g iostack.Group
	if err := s.Submit(&g, requests(f, 1)); err != nil {
		t.Fatal(err)
	}
	go s.Close()
	if err := s.Wait(context.Background(), &g); !errors.Is(err, iostack.ErrClosed) {
		t.Errorf("Wait: %v", err)
	}
}

// TestEveryErrorPath is the loop that the package comment promises.
func TestEveryErrorPath(t *testing.T) {
	boom := errors.New("boom")
	runs := 0
	for ; ; runs++ {
		s, f, content := wrap(t, On(Nth(runs, Always()), Fail(boom)))
		reqs := requests(f, 4)
		err := errors.Join(read(t, s, reqs[:3]), read(t, s, reqs[3:]))
		if s.Injected() == 0 {
			if err != nil || wrong(reqs, content) != nil {
				t.Errorf("%s: %v", s, err)
			}
			break
		}
		if !errors.Is(err, boom) {
			t.Errorf("%s: %v", s, err)
		}
	}
	if runs != 4 {
		t.Errorf("%d faults for 4 requests", runs)
	}
}

func TestInjectorsPrint(t *testing.T) {
	s := Wrap(newPread(t),
		On(Nth(3, File("cold-*")), Fail(syscall.EIO)),
		On(All(Always(), Covers(4096)), Flip(17, 0x80)),
		On(Always(), Short(5)), On(Always(), Hang()), On(Always(), NewGate().Hold()))
	defer s.Close()
	want := `pread with fail(input/output error) on nth(3, file "cold-*"); flip(17, 0x80) on all(always, covers 4096); ` +
		`short(5) on always; hang on always; gate on always`
	if s.String() != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}
