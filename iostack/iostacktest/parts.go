package iostacktest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/device"
	"diskgnn/iostack"
)

// WriteFile writes a file of n random bytes into t.TempDir, and returns its path and content.
func WriteFile(t testing.TB, n int) (path string, content []byte) {
	t.Helper()
	content = make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(content)
	path = filepath.Join(t.TempDir(), "content.bin")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path, content
}

// OpenFile opens a file, and closes it at the end of the test.
func OpenFile(t testing.TB, s iostack.Stack, path string) iostack.File {
	t.Helper()
	f, err := s.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("close %s: %v", path, err)
		}
	})
	return f
}

// HostBuffer returns n bytes of page-aligned memory, and frees it at the end of the test.
func HostBuffer(t testing.TB, n int) []byte {
	t.Helper()
	h, err := device.NewHost(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Free)
	return h.Bytes()
}

// Read submits requests as one group, and waits for it.
func Read(s iostack.Stack, reqs ...iostack.Request) error {
	var g iostack.Group
	if err := s.Submit(&g, reqs); err != nil {
		return err
	}
	return s.Wait(context.Background(), &g)
}

// ReadAnything reads random ranges of f, with the given content, to random places in mem, and compares
// them.
func ReadAnything(t *testing.T, s iostack.Stack, f iostack.File, content, mem []byte) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.IntRange(0, len(content)-1).Draw(t, "offset")
		skip := rapid.IntRange(0, 4095).Draw(t, "skip")
		n := rapid.IntRange(1, min(len(content)-offset, len(mem)-skip)).Draw(t, "length")
		buf := mem[skip : skip+n]
		clear(buf)
		if err := Read(s, iostack.Request{File: f, Offset: int64(offset), Buf: buf}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(buf, content[offset:offset+n]) {
			t.Fatal("wrong bytes")
		}
	})
}

// AllocatesNothing checks that a mini-batch of direct, bounced and cut requests allocates no memory. The
// stack must divide a request of 1 MiB into several reads.
func AllocatesNothing(t *testing.T, s iostack.Stack) {
	t.Helper()
	path, _ := WriteFile(t, 1<<20)
	f, buf := OpenFile(t, s, path), HostBuffer(t, 1<<20)
	var reqs []iostack.Request
	for i := range 16 {
		reqs = append(reqs, iostack.Request{File: f, Offset: int64(i) << 14, Buf: buf[i<<14 : i<<14+9000+i]})
	}
	reqs = append(reqs, iostack.Request{File: f, Buf: buf})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var g iostack.Group
	if allocs := testing.AllocsPerRun(50, func() {
		if err := s.Submit(&g, reqs); err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(ctx, &g); err != nil {
			t.Fatal(err)
		}
	}); allocs > 0 {
		t.Errorf("%v allocations for a mini-batch of %d requests", allocs, len(reqs))
	}
}
