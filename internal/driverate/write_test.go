package driverate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

func TestWrite(t *testing.T) {
	ctx := context.Background()
	fsys := vfs.Unsynced(vfs.OS)
	path := filepath.Join(t.TempDir(), "scratch")
	for _, size := range []int64{1, 4096, chunk, 2*chunk + 5} {
		for _, e := range []Effort{{}, {Drain: time.Millisecond, For: 2 * time.Millisecond}} {
			rate, err := Write(ctx, fsys, path, Writes{Bytes: size, Load: e})
			if err != nil || rate.PerSecond <= 0 || rate.Seconds < e.For.Seconds() {
				t.Errorf("%d bytes, %+v: rate %+v, %v", size, e, rate, err)
			}
		}
		if info, err := os.Stat(path); err != nil || info.Size() != size {
			t.Errorf("%d bytes: %v, %v", size, info, err)
		}
	}
	// However short the effort, a whole file has no page that was not written.
	if _, err := Write(ctx, fsys, path, Writes{Bytes: 40*chunk + 5, Load: Effort{For: 1}, Whole: true}); err != nil {
		t.Error(err)
	}
	content, err := os.ReadFile(path)
	if err != nil || len(content) != 40*chunk+5 {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	for at := 0; at < len(content); at += page {
		if !slices.ContainsFunc(content[at:min(at+page, len(content))], func(b byte) bool { return b != 0 }) {
			t.Fatalf("the page at %d was not written", at)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Write(cancelled, fsys, path, Writes{Bytes: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Write(ctx, fsys, path, Writes{}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("no bytes: %v", err)
	}
	for i := 0; ; i++ {
		in := &vfs.FailAt{N: i, Err: unix.ENOSPC}
		_, err := Write(ctx, vfs.Inject(fsys, in), path, Writes{Bytes: 2 * chunk})
		if !in.Fired() {
			if err != nil || i < 4 { // create, two writes, sync
				t.Errorf("%d operations were failed, then: %v", i, err)
			}
			break
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%v: %v", in, err)
		}
	}
}
