package array

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"diskgnn/iostack"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

const (
	pages   = 256 // of the file of failing tests
	timeout = time.Hour
)

// clock is one that tests move.
type clock struct{ minutes atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(60*c.minutes.Load(), 0) }

// failing is a stack on a drive whose commands meet fates, and a file that it has.
func failing(t *testing.T, workers int, c *clock, fate func(*spec.Command) soft.Fate) (s *Stack, f iostack.File, content []byte) {
	t.Helper()
	s = newStack(t, 1, Options{Options: iostack.Options{Workers: workers}, Timeout: timeout, Now: c.now}, soft.Options{Fate: fate})
	content = make([]byte, pages*4096)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(content)
	path := filepath.Join(t.TempDir(), "content.bin")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := s.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return s, f, content
}

// read reads every page by a request of its own, waits, and returns the pages.
func read(s *Stack, f iostack.File) (got []byte, err error) {
	got = make([]byte, pages*4096)
	var g iostack.Group
	reqs := make([]iostack.Request, pages)
	for i := range reqs {
		reqs[i] = iostack.Request{File: f, Offset: int64(i) * 4096, Buf: got[i*4096:][:4096]}
	}
	if err := s.Submit(&g, reqs); err != nil {
		return nil, err
	}
	return got, s.Wait(context.Background(), &g)
}

// once returns a fate that befalls one command, the nth, and what it does else.
func once(nth int, fate soft.Fate, then func()) func(*spec.Command) soft.Fate {
	n := 0
	return func(*spec.Command) soft.Fate {
		if n++; n == nth {
			if then != nil {
				then()
			}
			return fate
		}
		return soft.Fate{}
	}
}

// A completion that is lost fails its request alone, with what the queue knew; the others are
// carried out, and the drive goes on. So with one worker and with two, whose queues are both
// made anew.
func TestLostCompletion(t *testing.T) {
	for _, workers := range []int{16, 200} {
		c := &clock{}
		s, f, content := failing(t, workers, c, once(20, soft.Fate{Drop: true}, func() { c.minutes.Add(120) }))
		got, err := read(s, f)
		var read1 *iostack.ReadError
		if !errors.As(err, &read1) || !errors.Is(err, nvme.ErrTimeout) || !strings.Contains(err.Error(), "under way") || !strings.Contains(err.Error(), "soft:") {
			t.Fatalf("%d workers: %v", workers, err)
		}
		// Commands that were under way for two hours of the clock are lost as well; all others
		// were submitted again.
		wrong := 0
		for i := range pages {
			if !bytes.Equal(got[i*4096:][:4096], content[i*4096:][:4096]) {
				wrong++
			}
		}
		if wrong == 0 || wrong > workers {
			t.Errorf("%d workers: %d pages were not read", workers, wrong)
		}
		if got, err := read(s, f); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d workers: after the reset: %v", workers, err)
		}
	}
}

// What was under way beside a late command when the controller was reset is submitted again: of
// five commands that are lost, the first is late. All others of the first pages are completed
// before the clock moves, so that their age does not depend on the medium.
func TestOthersAreSubmittedAgain(t *testing.T) {
	const first = 60
	c := &clock{}
	n := 0
	fetched := make(chan struct{})
	s, f, content := failing(t, 16, c, func(*spec.Command) soft.Fate {
		switch n++; {
		case n == 1:
			close(fetched)
		case n == first+43:
			c.minutes.Add(20)
		}
		return soft.Fate{Drop: n == 1 || n >= first+40 && n <= first+43}
	})
	got := make([]byte, pages*4096)
	begin := func(g *iostack.Group, lo, hi int) {
		t.Helper()
		var reqs []iostack.Request
		for i := lo; i < hi; i++ {
			reqs = append(reqs, iostack.Request{File: f, Offset: int64(i) * 4096, Buf: got[i*4096:][:4096]})
		}
		if err := s.Submit(g, reqs); err != nil {
			t.Fatal(err)
		}
	}
	var late, before, after iostack.Group
	begin(&late, 0, 1)
	<-fetched
	begin(&before, 1, first)
	if err := s.Wait(t.Context(), &before); err != nil {
		t.Fatal(err)
	}
	c.minutes.Add(50)
	begin(&after, first, pages)
	if err := s.Wait(t.Context(), &after); err != nil {
		t.Error(err)
	}
	var lost *iostack.ReadError
	if err := s.Wait(t.Context(), &late); !errors.As(err, &lost) || !errors.Is(err, nvme.ErrTimeout) {
		t.Error(err)
	}
	if !bytes.Equal(got[4096:], content[4096:]) {
		t.Error("other bytes")
	}
	if n := s.drives[0].life.Load(); n != 1 {
		t.Errorf("the controller was reset %d times", n)
	}
}

// A command that is stuck is aborted after half of its time, which fails its request alone.
func TestAbort(t *testing.T) {
	c := &clock{}
	s, f, content := failing(t, 4, c, once(20, soft.Fate{Stuck: true}, nil))
	var users sync.WaitGroup
	var got []byte
	var err error
	users.Go(func() { got, err = read(s, f) })
	for s.Stats().DeviceReads < pages-1 { // all but one
		runtime.Gosched()
	}
	c.minutes.Add(40)
	users.Wait()
	if !errors.Is(err, nvme.ErrTimeout) || !errors.Is(err, spec.AbortRequested) {
		t.Fatal(err)
	}
	wrong := 0
	for i := range pages {
		if !bytes.Equal(got[i*4096:][:4096], content[i*4096:][:4096]) {
			wrong++
		}
	}
	if wrong != 1 || s.drives[0].life.Load() != 0 {
		t.Errorf("%d pages were not read, and the controller was reset %d times", wrong, s.drives[0].life.Load())
	}
}

// Statuses that permit it are tried again, a few times; others are the request's.
func TestStatuses(t *testing.T) {
	for _, c := range []struct {
		status spec.Status
		times  int
		fails  bool
	}{
		{spec.UnrecoveredReadError, maxTries - 1, false},
		{spec.UnrecoveredReadError, maxTries, true},
		{spec.UnrecoveredReadError | spec.DNR, 1, true},
		{spec.NamespaceNotReady, 1, false},
	} {
		n := 0
		s, f, content := failing(t, 1, &clock{}, func(*spec.Command) soft.Fate {
			if n++; n <= c.times {
				return soft.Fate{Status: c.status}
			}
			return soft.Fate{}
		})
		got, err := read(s, f)
		var first *iostack.ReadError
		switch {
		case !c.fails && (err != nil || !bytes.Equal(got, content)):
			t.Errorf("%v, %d times: %v", c.status, c.times, err)
		case c.fails && (!errors.As(err, &first) || first.Index != 0 || !errors.Is(err, c.status)):
			t.Errorf("%v, %d times: %v", c.status, c.times, err)
		}
	}
}

// Completions in any order, delayed by others, over many laps of small queues.
func TestShuffled(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s, f, content := failing(t, 3, &clock{}, func(*spec.Command) soft.Fate { return soft.Fate{Hold: rng.IntN(3)} })
	for range 4 {
		if got, err := read(s, f); err != nil || !bytes.Equal(got, content) {
			t.Fatal(err)
		}
	}
}

// deaf is a drive that does not become ready any more once it is deaf.
type deaf struct {
	*soft.Drive
	now atomic.Bool
}

func (d *deaf) Load32(offset int) uint32 {
	if d.now.Load() && offset == spec.CSTS {
		return spec.Ready // as if it were not disabled
	}
	return d.Drive.Load32(offset)
}

// A drive that cannot be reset fails its requests, those of then and those that follow, and is
// not waited for.
func TestDriveIsLost(t *testing.T) {
	var c clock
	var d *deaf
	name := filepath.Join(t.TempDir(), "drive")
	if err := os.WriteFile(name, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	fate := once(5, soft.Fate{Drop: true}, func() { d.now.Store(true); c.minutes.Add(120) })
	inner, err := soft.Open(osFS, name, soft.Options{Fate: fate})
	if err != nil {
		t.Fatal(err)
	}
	d = &deaf{Drive: inner}
	ticking := func() time.Time {
		if d.now.Load() {
			c.minutes.Add(60)
		}
		return c.now()
	}
	s, err := New(context.Background(), []nvme.Transport{d}, Options{Options: iostack.Options{Workers: 4}, Timeout: timeout, Now: ticking},
		func([]*nvme.Controller) (Table, error) { return &copying{unit: 4096, drives: []string{name}}, nil })
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Flat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(s, f); !errors.Is(err, nvme.ErrTimeout) || !strings.Contains(err.Error(), "it was given up") {
		t.Errorf("%v", err)
	}
	if _, err := read(s, f); !errors.Is(err, nvme.ErrTimeout) {
		t.Errorf("after: %v", err)
	}
	if err := errors.Join(f.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

// Blocks of all drives are one file: block i of drive j is block blocks × j + i. Each block of a
// request has a place of its own, and the request is one command.
func TestFlatAndScattered(t *testing.T) {
	dir := t.TempDir()
	var transports []nvme.Transport
	var all []byte
	for i, size := range []int{64 << 10, 80 << 10, 64 << 10} { // the smallest counts
		content := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(content)
		name := filepath.Join(dir, string(rune('a'+i)))
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := soft.Open(osFS, name, soft.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		transports = append(transports, d)
		all = append(all, content[:64<<10]...)
	}
	s, err := New(context.Background(), transports, Options{}, func([]*nvme.Controller) (Table, error) { return &copying{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, err := s.Flat()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const blocks = 64 << 10 / 512
	if f.Size() != 3*blocks*512 {
		t.Errorf("%d bytes", f.Size())
	}
	places := make([][]byte, 8)
	for k := range places {
		places[k] = make([]byte, 512)
	}
	var g iostack.Group
	before := s.Stats()
	request := iostack.Request{File: f, Offset: (2*blocks + 16) * 512, Scatter: places} // block 16 of drive 2
	if err := errors.Join(s.Submit(&g, []iostack.Request{request}), s.Wait(context.Background(), &g)); err != nil {
		t.Fatal(err)
	}
	if did := s.Stats().Sub(before); did.DeviceReads != 1 {
		t.Errorf("%+v for a request of 8 blocks", did)
	}
	for k, p := range places {
		if at := (2*blocks + 16 + k) * 512; !bytes.Equal(p, all[at:at+512]) {
			t.Errorf("block %d has other bytes", k)
		}
	}
	whole := make([]byte, len(all))
	if err := errors.Join(s.Submit(&g, []iostack.Request{{File: f, Buf: whole}}), s.Wait(context.Background(), &g)); err != nil || !bytes.Equal(whole, all) {
		t.Errorf("all drives: %v", err)
	}
}

// What is registered is read in place; what is not comes by way of the bounce buffers.
func TestRegisteredIsReadInPlace(t *testing.T) {
	var mu sync.Mutex // the controller's goroutine adds to prps
	var prps []uint64
	s, f, content := failing(t, 1, &clock{}, func(c *spec.Command) soft.Fate {
		mu.Lock()
		defer mu.Unlock()
		prps = append(prps, c.PRP1())
		return soft.Fate{}
	})
	seen := func() []uint64 {
		mu.Lock()
		defer mu.Unlock()
		list := prps
		prps = nil
		return list
	}
	m, err := nvmeMemory(64 << 10)
	if err != nil {
		t.Fatal(err)
	}
	get := func(registered bool) []uint64 {
		t.Helper()
		seen()
		clear(m)
		var g iostack.Group
		if err := errors.Join(s.Submit(&g, []iostack.Request{{File: f, Buf: m}}), s.Wait(context.Background(), &g)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(m, content[:len(m)]) {
			t.Error("other bytes")
		}
		return seen()
	}
	bounced := get(false)
	if err := s.Register(m); err != nil {
		t.Fatal(err)
	}
	x, _ := s.drives[0].maps.find(m)
	if x == nil {
		t.Fatal("registered memory is not mapped")
	}
	in := x.memory.Pages[0]
	if at := get(true); len(at) != 1 || at[0] != in || bounced[0] == in {
		t.Errorf("read to %x, and bounced to %x; the memory is at %x", at, bounced, in)
	}
	// Let go of while it is in use: freed by the last use.
	if err := s.Unregister(m[4096:8192]); err != nil {
		t.Fatal(err)
	}
	if y, _ := s.drives[0].maps.find(m); y != nil {
		t.Error("memory is mapped that was unregistered")
	}
	if inner := s.drives[0].maps.t.(*soft.Drive); inner.Free(x.memory) != nil {
		t.Error("memory in use was unmapped")
	}
	if at := get(false); at[0] != bounced[0] {
		t.Errorf("read to %x, want the bounce buffer at %x", at, bounced)
	}
}
