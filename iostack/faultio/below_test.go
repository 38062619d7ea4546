package faultio

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/iostack/iostacktest"
)

// TestBelow: stacks see the results that alter gives to their reads of the drive, wherever the bytes land, and no
// others once it is over.
func TestBelow(t *testing.T) {
	path, content := iostacktest.WriteFile(t, 20000)
	for _, kind := range []string{"pread", "uring"} {
		t.Run(kind, func(t *testing.T) {
			s, _, err := all.Open(kind, iostack.Options{Workers: 2, MaxIO: 8192})
			if err != nil {
				t.Skipf("%s: %v", kind, err)
			}
			defer s.Close()
			f := iostacktest.OpenFile(t, s, path)
			read := func(offset int64, alter func(file string, offset int64, p []byte) (int, error)) (buf []byte, err error) {
				defer Below(alter)()
				buf = make([]byte, 10000)
				return buf, iostacktest.Read(s, iostack.Request{File: f, Offset: offset, Buf: buf})
			}

			var seen atomic.Int64
			buf, err := read(5000, func(file string, offset int64, p []byte) (int, error) {
				if file != path || !bytes.Equal(p, content[offset:][:len(p)]) {
					t.Errorf("%d bytes at %d of %s are others", len(p), offset, filepath.Base(file))
				}
				seen.Add(int64(len(p)))
				return len(p), nil
			})
			if err != nil || !bytes.Equal(buf, content[5000:15000]) || seen.Load() < 10000 {
				t.Errorf("unchanged: %d bytes were seen; %v", seen.Load(), err)
			}

			buf, err = read(0, func(_ string, offset int64, p []byte) (int, error) {
				if offset == 0 {
					slices.Reverse(p[:100])
				}
				return len(p), nil
			})
			slices.Reverse(buf[:100])
			if err != nil || !bytes.Equal(buf, content[:10000]) {
				t.Errorf("the first bytes reversed: %v", err)
			}

			var calls atomic.Int64
			before := s.Stats().DeviceReads
			buf, err = read(0, func(_ string, _ int64, p []byte) (int, error) {
				if calls.Add(1) > 6 {
					return len(p), nil
				}
				return len(p) / 2, nil
			})
			if reads := s.Stats().DeviceReads - before; err != nil || !bytes.Equal(buf, content[:10000]) || reads < 4 || reads != calls.Load() {
				t.Errorf("halves: %d reads of %d, %v", reads, calls.Load(), err)
			}

			_, err = read(0, func(_ string, offset int64, p []byte) (int, error) {
				if offset >= 4096 {
					return 0, syscall.EIO
				}
				return len(p), nil
			})
			if failed, ok := errors.AsType[*iostack.ReadError](err); !ok || !errors.Is(err, syscall.EIO) || failed.File != path {
				t.Errorf("an error of the drive: %v", err)
			}

			buf = make([]byte, 10000)
			if err := iostacktest.Read(s, iostack.Request{File: f, Buf: buf}); err != nil || !bytes.Equal(buf, content[:10000]) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}
