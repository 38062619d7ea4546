//go:build linux

package uring

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"diskgnn/device"
	"diskgnn/iostack"
	"diskgnn/iostack/iostacktest"
)

// TestReadsIntoRegisteredMemory reads around the edges of what is registered,
// and again where other memory has taken its addresses.
func TestReadsIntoRegisteredMemory(t *testing.T) {
	path, content := iostacktest.WriteFile(t, 256<<10)
	s := newStack(t, iostack.Options{Workers: 4})
	f := iostacktest.OpenFile(t, s, path)
	mem := iostacktest.HostBuffer(t, 256<<10)
	check := func(when string) {
		t.Helper()
		clear(mem)
		var reqs []iostack.Request
		for at := 0; at < len(mem); at += 20 << 10 { // some lie across an edge
			reqs = append(reqs, iostack.Request{File: f, Offset: int64(at), Buf: mem[at:min(at+20<<10, len(mem))]})
		}
		if err := iostacktest.Read(s, reqs...); err != nil || !bytes.Equal(mem, content) {
			t.Errorf("%s: %v, or wrong bytes", when, err)
		}
	}
	pieces := func() (n int) {
		s.rings[0].do(func() { n = len(s.rings[0].buffers.pieces) })
		return n - 1 // the bounce buffers
	}
	register := func(f func(...[]byte) error, bufs ...[]byte) {
		t.Helper()
		if err := f(bufs...); err != nil {
			t.Fatal(err)
		}
	}
	register(s.Register, mem[32<<10:64<<10], mem[128<<10:200<<10], nil)
	if why := mayPin(t); why != nil {
		t.Skipf("no memory may be pinned here: %v", why)
	}
	if n := pieces(); n != 2 {
		t.Errorf("%d pieces beside the bounce buffers, want 2", n)
	}
	check("two pieces")
	register(s.Register, mem[48<<10:160<<10])
	if n := pieces(); n != 1 {
		t.Errorf("%d pieces, want the new one in place of those it overlaps", n)
	}
	check("one over both")

	// Other memory at the same addresses, as after a buffer was freed and the
	// next one was made.
	register(s.Unregister, mem)
	if n := pieces(); n != 0 {
		t.Errorf("%d pieces after Unregister", n)
	}
	if err := unix.Madvise(mem, unix.MADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	check("unregistered, on new pages")
	register(s.Unregister, mem)

	for i := range bufferSlots + 10 { // more than the table holds
		register(s.Register, mem[i*128:i*128+64])
	}
	if n := pieces(); n != bufferSlots-1 {
		t.Errorf("%d pieces, want %d", n, bufferSlots-1)
	}
	check("a full table")
}

// mayPin tells whether a ring takes memory here, by the kernel's interface alone.
func mayPin(t *testing.T) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	q, err := newQueues(1)
	if err != nil {
		t.Fatal(err)
	}
	defer q.close()
	table := rsrcRegister{nr: 1, flags: registerSparse}
	if err := q.register(registerBuffers2, unsafe.Pointer(&table), unsafe.Sizeof(table)); err != nil {
		return err
	}
	mem := iostacktest.HostBuffer(t, 1<<20)
	q.iovecArg.Base = &mem[0]
	q.iovecArg.SetLen(len(mem))
	u := rsrcUpdate{data: uint64(uintptr(unsafe.Pointer(&q.iovecArg))), nr: 1}
	return q.register(registerBuffersUpdate, unsafe.Pointer(&u), unsafe.Sizeof(u))
}

// TestFindsRegisteredMemory compares the search with looking at every piece.
func TestFindsRegisteredMemory(t *testing.T) {
	mem := make([]byte, 1000)
	rapid.Check(t, func(t *rapid.T) {
		var b buffers
		for at, slot := 0, 0; ; slot++ {
			at += rapid.IntRange(0, 50).Draw(t, "gap")
			n := rapid.IntRange(1, 100).Draw(t, "length")
			if at+n > len(mem) {
				break
			}
			b.pieces = append(b.pieces, pinned{begin: address(mem[at:]), end: address(mem[at:]) + uintptr(n), slot: slot})
			at += n
		}
		at := rapid.IntRange(0, len(mem)-1).Draw(t, "at")
		buf := mem[at : at+rapid.IntRange(1, len(mem)-at).Draw(t, "n")]
		want := -1
		for _, p := range b.pieces {
			if p.begin <= address(buf) && address(buf)+uintptr(len(buf)) <= p.end {
				want = p.slot
			}
		}
		if slot, ok := b.find(buf); ok != (want >= 0) || ok && slot != want {
			t.Fatalf("found %d, %t, want %d", slot, ok, want)
		}
	})
}

// TestMoreFilesThanSlots: the rest is read by descriptor, and a slot that was
// given back stands for the next file.
func TestMoreFilesThanSlots(t *testing.T) {
	dir := t.TempDir()
	s := newStack(t, iostack.Options{Workers: 2, Direct: iostack.DirectNever})
	check := func(name int, f iostack.File) {
		t.Helper()
		buf := make([]byte, 3)
		if err := iostacktest.Read(s, iostack.Request{File: f, Buf: buf}); err != nil || string(buf) != fmt.Sprintf("%03d", name) {
			t.Errorf("file %d: %q, %v", name, buf, err)
		}
	}
	var files []iostack.File
	for i := range fileSlots + 3 {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(path, fmt.Appendf(nil, "%03d", i), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, iostacktest.OpenFile(t, s, path))
	}
	for i, f := range files {
		check(i, f)
	}
	if err := files[100].Close(); err != nil {
		t.Fatal(err)
	}
	check(7, iostacktest.OpenFile(t, s, filepath.Join(dir, "7")))
	check(fileSlots+1, files[fileSlots+1])
}

// TestClosedFilesAreLetGo: a file system must be free to be unmounted, and the
// space of removed files to be used again, while the stack lives.
func TestClosedFilesAreLetGo(t *testing.T) {
	path, _ := iostacktest.WriteFile(t, 8192)
	s := newStack(t, iostack.Options{Workers: 2})
	f := iostacktest.OpenFile(t, s, path)
	if err := iostacktest.Read(s, iostack.Request{File: f, Buf: iostacktest.HostBuffer(t, 8192)}); err != nil {
		t.Fatal(err)
	}
	lease := func() error {
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		_, err = unix.FcntlInt(w.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
		return err
	}
	if err := lease(); !errors.Is(err, unix.EAGAIN) {
		t.Skipf("a lease of an open file: %v, want EAGAIN", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lease(); err != nil {
		t.Errorf("the file is closed, but something holds it: %v", err)
	}
}

// TestRefusalsSayWhatHelps checks that each cause has its remedy.
func TestRefusalsSayWhatHelps(t *testing.T) {
	for _, c := range []struct {
		errno unix.Errno
		want  string
	}{
		{unix.ENOSYS, "Linux 5.6"},
		{unix.ENOMEM, "ulimit -l"},
		{unix.EMFILE, "ulimit -n"},
		{unix.EINVAL, "too old"},
		{unix.EIO, "input/output error"},
	} {
		err := explain(os.NewSyscallError("io_uring_setup", c.errno))
		if !errors.Is(err, c.errno) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: does not say %q", err, c.want)
		}
	}
	for setting, want := range map[string]string{"": "seccomp", "0": "seccomp", "1": "io_uring_group", "2": "kernel.io_uring_disabled=2"} {
		if got := forbidden(setting); !strings.Contains(got, want) {
			t.Errorf("under %q: %s, want %q", setting, got, want)
		}
	}
}

// TestManyRings spreads one request over several rings.
func TestManyRings(t *testing.T) {
	path, content := iostacktest.WriteFile(t, 1<<20)
	s := newStack(t, iostack.Options{Workers: 600, MaxIO: 4096})
	if len(s.rings) != 4 {
		t.Fatalf("%d rings, want 4", len(s.rings))
	}
	f := iostacktest.OpenFile(t, s, path)
	mem, err := device.NewHost(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Free()
	if err := s.Register(mem.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := iostacktest.Read(s, iostack.Request{File: f, Buf: mem.Bytes()}); err != nil || !bytes.Equal(mem.Bytes(), content) {
		t.Errorf("%v, or wrong bytes", err)
	}
	if err := s.Unregister(mem.Bytes()); err != nil {
		t.Error(err)
	}
}
