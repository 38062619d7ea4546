package frontend

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

// deviceFile is a stack that takes device memory, its queue, an open file of 12 KiB and
// 8 KiB of a device.
func deviceFile(t *testing.T) (*Stack, *Queue, *File, cuda.Buffer) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "content.bin")
	if err := os.WriteFile(path, make([]byte, 12<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	s, q, err := New("test", iostack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.AcceptDevice()
	f, err := s.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := cudatest.Open(t)
	t.Cleanup(func() { f.Close() })
	arena, err := d.NewArena(8 << 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(arena.Free)
	b, err := arena.Take(8 << 10)
	if err != nil {
		t.Fatal(err)
	}
	return s, q, f, b
}

// TestRequestsThatNoReadCouldServe are bugs of the caller's.
func TestRequestsThatNoReadCouldServe(t *testing.T) {
	s, q, f, device := deviceFile(t)
	const most = math.MaxInt64 - 10 - iostack.Align // where ten bytes and the page around them have an end
	for _, r := range []iostack.Request{
		{File: f, Offset: -1, Buf: make([]byte, 10)},
		{File: f, Offset: most + 1, Buf: make([]byte, 10)},
		{File: f, Buf: make([]byte, 10), Device: device},
		{File: f, Buf: []byte{}, Device: device},
		{Buf: make([]byte, 10)},
	} {
		if err := s.Submit(new(iostack.Group), []iostack.Request{r}); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%d bytes at %d: %v", len(r.Buf), r.Offset, err)
		}
	}
	if n := q.Len(); n != 0 {
		t.Errorf("%d requests are queued", n)
	}
	var g iostack.Group
	if err := s.Submit(&g, []iostack.Request{{File: f, Offset: most, Buf: make([]byte, 10)}}); err != nil || q.Len() != 1 {
		t.Errorf("at the last offset: %v, %d queued", err, q.Len())
	}
	q.Close()
	if err := s.Wait(context.Background(), &g); !errors.Is(err, iostack.ErrClosed) {
		t.Error(err)
	}
}

// TestReadsHaveOneDestination: of a read into host memory nothing lies in a device's, and
// what a drive gives for a read into a device's is whole pages.
func TestReadsHaveOneDestination(t *testing.T) {
	s, q, f, device := deviceFile(t)
	var g iostack.Group
	host := make([]byte, 5000)
	if err := s.Submit(&g, []iostack.Request{{File: f, Offset: 101, Device: device.Slice(0, 4999)}, {File: f, Buf: host}}); err != nil {
		t.Fatal(err)
	}
	var r Read
	bounce := make([]byte, s.BounceBytes())
	if !q.TryTake(&r, bounce) {
		t.Fatal("nothing to take")
	}
	if to, offset := r.Device(); to != device.Slice(0, 4999) || offset != 101 {
		t.Errorf("%d bytes of the device from %d on", to.Bytes(), offset)
	}
	defer AlterReads(func(string, int64, []byte) (int, error) {
		t.Error("a read into device memory is altered")
		return 0, nil
	})()
	if done, err := r.Advance(4999); !done || err != nil {
		t.Error(done, err)
	}
	alter.Store(nil)
	r.End(nil)
	want := int64(4999)
	if direct, _ := f.Direct(); direct {
		want = 8192 // bytes 101 to 5099 lie in two pages
	}
	if got := s.Stats(); got.BytesRead != want || got.DeviceReads != 1 {
		t.Errorf("%d bytes in %d reads, want %d in 1", got.BytesRead, got.DeviceReads, want)
	}
	for q.TryTake(&r, bounce) {
		if to, offset := r.Device(); to != (cuda.Buffer{}) || offset != 0 {
			t.Errorf("a read into host memory has %d bytes of a device, from %d on", to.Bytes(), offset)
		}
		if err := r.Serve(func(_ int, p []byte, _ int64) (int, error) { return len(p), nil }); err != nil {
			t.Error(err)
		}
		r.End(nil)
	}
	if err := s.Wait(context.Background(), &g); err != nil {
		t.Error(err)
	}
}

// TestFlight runs while one read or several are under way, by a clock of the test's.
func TestFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flight
		for _, c := range []struct {
			call  func()
			want  time.Duration // in all, after another second
			reads int
		}{
			{func() {}, 0, 0},
			{f.begin, 1, 1},
			{f.begin, 2, 2},
			{f.end, 3, 1},
			{f.end, 3, 0},
			{func() {}, 3, 0},
			{f.begin, 4, 1},
			{f.end, 4, 0},
		} {
			c.call()
			time.Sleep(time.Second) // of the test's clock, which does not wait
			if got, reads := f.now(); got != c.want*time.Second || reads != c.reads {
				t.Fatalf("%v and %d reads, want %d s and %d", got, reads, c.want, c.reads)
			}
		}
	})
}
