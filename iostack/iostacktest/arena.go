package iostacktest

import (
	"bytes"
	"context"
	"testing"

	"diskgnn/device"
	"diskgnn/iostack"
)

// guard is the value of every byte of an arena before a read.
const guard = 0xA5

// guards is a run of guard bytes, for fast filling and comparing.
var guards = bytes.Repeat([]byte{guard}, 64<<10)

// arena is memory to read into. All bytes outside the buffers cut from it are guard bytes, so that a write
// beside a buffer is detected.
type arena struct {
	mem  []byte
	used int
	cut  []span
}

type span struct{ begin, end int }

func newArena(t testing.TB, bytes int) *arena {
	t.Helper()
	h, err := device.NewHost(bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Free)
	a := &arena{mem: h.Bytes()}
	a.reset()
	return a
}

// reset takes all buffers back.
func (a *arena) reset() {
	a.used, a.cut = 0, a.cut[:0]
	for rest := a.mem; len(rest) > 0; {
		rest = rest[copy(rest, guards):]
	}
}

// buf cuts a buffer of n bytes at an address skip bytes after a multiple of 4096, after at least a page of
// guard bytes.
func (a *arena) buf(skip, n int) []byte {
	begin := (a.used+4096+4095)&^4095 + skip
	a.used = begin + n
	if a.used > len(a.mem)-4096 {
		panic("iostacktest: the arena is too small")
	}
	a.cut = append(a.cut, span{begin, a.used})
	return a.mem[begin:a.used]
}

// check reports bytes outside the buffers that have changed.
func (a *arena) check(t fataler) {
	t.Helper()
	begin := 0
	for _, s := range append(a.cut, span{len(a.mem), len(a.mem)}) {
		for at := begin; at < s.begin; at += len(guards) {
			gap := a.mem[at:min(at+len(guards), s.begin)]
			if bytes.Equal(gap, guards[:len(gap)]) {
				continue
			}
			for i, b := range gap {
				if b != guard {
					t.Fatalf("a byte outside the buffers was written: %d after one's end, %d before the next one's begin", at+i-begin, s.begin-at-i)
				}
			}
		}
		begin = s.end
	}
}

// fataler is a testing.T or a rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func submit(t fataler, s iostack.Stack, g *iostack.Group, reqs ...iostack.Request) {
	t.Helper()
	if err := s.Submit(g, reqs); err != nil {
		t.Fatalf("Submit: %v", err)
	}
}

func wait(t fataler, s iostack.Stack, g *iostack.Group) {
	t.Helper()
	if err := s.Wait(context.Background(), g); err != nil {
		t.Fatalf("Wait: %v", err)
	}
}

// compare checks what a request read against the file's content.
func compare(t fataler, r iostack.Request, content []byte) {
	t.Helper()
	want := content[r.Offset : r.Offset+int64(len(r.Buf))]
	if bytes.Equal(r.Buf, want) {
		return
	}
	for i := range want {
		if r.Buf[i] != want[i] {
			t.Fatalf("%d bytes at %d: byte %d is %#02x, want %#02x", len(want), r.Offset, i, r.Buf[i], want[i])
		}
	}
}
