package driverate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

func TestWrite(t *testing.T) {
	ctx := context.Background()
	fsys := vfs.Unsynced(vfs.OS)
	path := filepath.Join(t.TempDir(), "scratch")
	for _, size := range []int64{1, 4096, chunk, 2*chunk + 5} {
		rate, err := Write(ctx, fsys, path, size)
		if err != nil || rate <= 0 {
			t.Errorf("%d bytes: rate %v, %v", size, rate, err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != size {
			t.Errorf("%d bytes: %v, %v", size, info, err)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Write(cancelled, fsys, path, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Write(ctx, fsys, path, 0); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("no bytes: %v", err)
	}
	for i := 0; ; i++ {
		in := &vfs.FailAt{N: i, Err: unix.ENOSPC}
		_, err := Write(ctx, vfs.Inject(fsys, in), path, 2*chunk)
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
