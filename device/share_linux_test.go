package device

import (
	"bytes"
	"io"
	"testing"

	"golang.org/x/sys/unix"
)

// The pages of a buffer keep their address, a mapping of the file sees their bytes and the further ones, and its
// size cannot be changed.
func TestShare(t *testing.T) {
	before := HostBytes()
	for _, c := range []struct{ length, more int }{{1, 0}, {PageSize, 5}, {3*PageSize + 1, 2 * PageSize}, {0, 8}} {
		h, err := NewHost(c.length)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Share(h.Bytes(), c.more)
		if err != nil {
			t.Fatal(err)
		}
		more, at := s.More()
		if int64(len(more)) != int64(c.more+PageSize-1)/PageSize*PageSize || at != int64(c.length+PageSize-1)/PageSize*PageSize {
			t.Errorf("%+v: %d further bytes at %d", c, len(more), at)
		}
		for i := range h.Bytes() {
			h.Bytes()[i] = byte(i + 1)
		}
		for i := range more {
			more[i] = byte(i + 7)
		}
		whole, err := io.ReadAll(io.NewSectionReader(s.File(), 0, 1<<30))
		if err != nil || !bytes.Equal(whole[:c.length], h.Bytes()) || !bytes.Equal(whole[at:], more) {
			t.Errorf("%+v: %d bytes in the file, %v", c, len(whole), err)
		}
		if err := s.File().Truncate(int64(len(whole)) + 1); err == nil {
			t.Errorf("%+v: the file grew", c)
		}
		if err := s.File().Truncate(int64(len(whole)) - 1); err == nil {
			t.Errorf("%+v: the file shrank", c)
		}
		m, err := unix.Mmap(int(s.File().Fd()), 0, len(whole), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil || !bytes.Equal(m, whole) {
			t.Errorf("%+v: another mapping for writing: %v", c, err)
		}
		_ = unix.Munmap(m)
		if want := before + at + int64(len(more)); HostBytes() != want {
			t.Errorf("%+v: %d bytes are counted, want %d", c, HostBytes()-before, want-before)
		}
		s.Close()
		s.Close()
		if c.length > 0 {
			h.Bytes()[0]++ // still mapped
		}
		h.Free()
	}
	if HostBytes() != before {
		t.Errorf("%d bytes are left", HostBytes()-before)
	}
	h, _ := NewHost(2 * PageSize)
	defer h.Free()
	if _, err := Share(h.Bytes()[8:], 0); err == nil {
		t.Error("memory that is no page was shared")
	}
}
