package driverate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
			rate, err := Write(ctx, fsys, path, size, e)
			if err != nil || rate.PerSecond <= 0 || rate.Seconds < e.For.Seconds() {
				t.Errorf("%d bytes, %+v: rate %+v, %v", size, e, rate, err)
			}
		}
		if info, err := os.Stat(path); err != nil || info.Size() != size {
			t.Errorf("%d bytes: %v, %v", size, info, err)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Write(cancelled, fsys, path, 1, Effort{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Write(ctx, fsys, path, 0, Effort{}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("no bytes: %v", err)
	}
	for i := 0; ; i++ {
		in := &vfs.FailAt{N: i, Err: unix.ENOSPC}
		_, err := Write(ctx, vfs.Inject(fsys, in), path, 2*chunk, Effort{})
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
