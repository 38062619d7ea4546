package cufile

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/iostack"
)

// onDevice returns the first device and the library of this machine, once a child
// process has shown that they work with the file system of t.TempDir (TMPDIR); else it
// skips the test.
func onDevice(t testing.TB) (*cuda.Device, library) {
	t.Helper()
	defer func(before func() error) { present = before }(present)
	present = realPresent
	t.Setenv(realVariable, "all")
	v := Probe(context.Background(), t.TempDir())
	t.Logf("cufile is %s (library %q)", v, v.Library)
	if v.Mode == Unavailable {
		t.Skip(v)
	}
	l, err := realLibrary()
	if err != nil {
		t.Fatal(err)
	}
	d, err := realDevice()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d, l
}

func TestConformanceOnDevice(t *testing.T) {
	d, l := onDevice(t)
	conformance(t, d, func() library { return l })
}

// BenchmarkReads reads blocks at depth 16 into device memory: by the library, into
// registered memory and not, and by pread with a copy from pinned host memory.
//
//	TMPDIR=/mnt/nvme bin/gpu/cufile.test -test.run '^$' -test.bench Reads
func BenchmarkReads(b *testing.B) {
	const (
		depth = 16
		size  = 4 << 30
	)
	d, l := onDevice(b)
	path := filepath.Join(b.TempDir(), "content.bin")
	writeRandom(b, path, size)
	for _, block := range []int64{4 << 10, 64 << 10, 1 << 20} {
		for _, way := range []string{"registered", "unregistered", "host+copy"} {
			b.Run(fmt.Sprintf("%s/%d", way, block), func(b *testing.B) {
				s := newStack(b, d, l, iostack.Options{Workers: depth})
				r := newReader(b, d, s, path, way, block, depth)
				b.SetBytes(block * depth)
				for i := 0; b.Loop(); i++ {
					r.round(int64(i) * block * depth % size)
				}
			})
		}
	}
}

func writeRandom(b *testing.B, path string, size int) {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	chunk := make([]byte, 64<<20)
	_, _ = rand.Read(chunk)
	for at := 0; at < size; at += len(chunk) {
		if _, err := f.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
}

// reader reads as many blocks as are in flight, again and again.
type reader struct {
	b      *testing.B
	stack  *Stack
	stream *cuda.Stream
	mem    cuda.Buffer
	host   *cuda.Pinned // nil: the library reads into mem
	reqs   []iostack.Request
	block  int64
	group  iostack.Group
}

func newReader(b *testing.B, d *cuda.Device, s *Stack, path, way string, block int64, depth int) *reader {
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	detach, err := d.Attach()
	check(err)
	b.Cleanup(detach)
	f, err := s.Open(path)
	check(err)
	b.Cleanup(func() { f.Close() })
	arena, err := d.NewArena(block * int64(depth))
	check(err)
	b.Cleanup(arena.Free)
	r := &reader{b: b, stack: s, block: block, reqs: make([]iostack.Request, depth)}
	r.mem, err = arena.Take(block * int64(depth))
	check(err)
	r.stream, err = d.NewStream()
	check(err)
	b.Cleanup(r.stream.Free)
	switch way {
	case "registered":
		check(s.RegisterDevice(r.mem))
		b.Cleanup(func() { _ = s.UnregisterDevice(r.mem) })
	case "host+copy":
		r.host, err = d.NewPinned(block * int64(depth))
		check(err)
		b.Cleanup(r.host.Free)
	}
	for i := range r.reqs {
		at := int64(i) * block
		r.reqs[i] = iostack.Request{File: f, Device: r.mem.Slice(at, block)}
		if r.host != nil {
			r.reqs[i] = iostack.Request{File: f, Buf: r.host.Bytes()[at : at+block]}
		}
	}
	return r
}

func (r *reader) round(offset int64) {
	for i := range r.reqs {
		r.reqs[i].Offset = offset + int64(i)*r.block
	}
	if err := r.stack.Submit(&r.group, r.reqs); err != nil {
		r.b.Fatal(err)
	}
	if err := r.stack.Wait(context.Background(), &r.group); err != nil {
		r.b.Fatal(err)
	}
	if r.host == nil {
		return
	}
	if err := r.stream.CopyIn(r.mem, r.host.Bytes()); err != nil {
		r.b.Fatal(err)
	}
	if err := r.stream.Synchronize(); err != nil {
		r.b.Fatal(err)
	}
}
