package frontend

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// aligned returns n bytes whose address is skip past a multiple of 64.
func aligned(n, skip int) []byte {
	mem := make([]byte, n+128)
	start := (64-addressOf(mem)&63)&63 + skip
	return mem[start : start+n : start+n]
}

func pieces(s Splitter, offset int64, buf []byte) []Piece {
	var all []Piece
	for len(buf) > 0 {
		p := s.Next(offset, buf)
		all = append(all, p)
		offset, buf = offset+int64(len(p.Dst)), buf[len(p.Dst):]
	}
	return all
}

// TestPiecesByHand cuts requests of pages of 8 bytes, reads of at most 32 and a
// bounce buffer of 16.
func TestPiecesByHand(t *testing.T) {
	s := Splitter{Align: 8, MaxIO: 32, Bounce: 16}
	for _, c := range []struct {
		name         string
		offset       int64
		skip, length int
		want         string
	}{
		{name: "whole pages", offset: 16, length: 24, want: "16+24"},
		{name: "cut at the largest read", offset: 0, length: 72, want: "0+32 32+32 64+8"},
		{name: "inside one page", offset: 11, skip: 3, length: 2, want: "b8+8[3:5]"},
		{name: "short with a tail: one read", offset: 8, length: 9, want: "b8+16[0:9]"},
		{name: "short with a head: one read", offset: 7, skip: 7, length: 9, want: "b0+16[7:16]"},
		{name: "long with a tail", offset: 8, length: 17, want: "8+16 b24+8[0:1]"},
		{name: "long with a head", offset: 7, skip: 7, length: 17, want: "b0+8[7:8] 8+16"},
		{name: "head, middle, tail", offset: 5, skip: 5, length: 30, want: "b0+8[5:8] 8+24 b32+8[0:3]"},
		{name: "head, then a rest short enough to bounce", offset: 5, skip: 5, length: 13, want: "b0+8[5:8] b8+16[0:10]"},
		{name: "misaligned address", offset: 8, skip: 1, length: 40, want: "b8+16[0:16] b24+16[0:16] b40+8[0:8]"},
		{name: "misaligned both, differently", offset: 9, skip: 2, length: 20, want: "b8+16[1:16] b24+8[0:5]"},
	} {
		var got []string
		for _, p := range pieces(s, c.offset, aligned(c.length, c.skip)) {
			text := fmt.Sprintf("%d+%d", p.Offset, p.Length)
			if p.Bounce {
				text = fmt.Sprintf("b%s[%d:%d]", text, p.Skip, p.Skip+len(p.Dst))
			}
			got = append(got, text)
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s: %d bytes at %d, address %d past a page:\n got %s\nwant %s", c.name, c.length, c.offset, c.skip, g, c.want)
		}
	}
}

// TestPiecesTileTheRequest checks what backends rely on, for any request.
func TestPiecesTileTheRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		align := rapid.SampledFrom([]int{1, 2, 8, 64}).Draw(t, "align")
		s := Splitter{
			Align:  align,
			MaxIO:  align * rapid.IntRange(1, 20).Draw(t, "max pages"),
			Bounce: align * rapid.IntRange(1, 20).Draw(t, "bounce pages"),
		}
		offset := rapid.Int64Range(0, 1<<40).Draw(t, "offset")
		skip := rapid.IntRange(0, 63).Draw(t, "skip")
		if rapid.Bool().Draw(t, "congruent") {
			skip = int(offset & int64(align-1))
		}
		buf := aligned(rapid.IntRange(1, 2000).Draw(t, "length"), skip)

		next, rest := offset, buf
		for i, p := range pieces(s, offset, buf) {
			if len(p.Dst) == 0 || len(p.Dst) > len(rest) || unsafe.SliceData(p.Dst) != unsafe.SliceData(rest) || cap(p.Dst) != len(p.Dst) {
				t.Fatalf("piece %d: buffer is not the next part of the request's", i)
			}
			if p.Offset+int64(p.Skip) != next {
				t.Fatalf("piece %d begins at %d, want %d", i, p.Offset+int64(p.Skip), next)
			}
			if p.Offset%int64(align) != 0 || p.Length%align != 0 {
				t.Fatalf("piece %d: %d bytes at %d are not whole pages", i, p.Length, p.Offset)
			}
			if p.Skip >= align || p.Length-p.Skip-len(p.Dst) >= align || p.Length < p.Skip+len(p.Dst) {
				t.Fatalf("piece %d reads %d bytes for %d at %d", i, p.Length, len(p.Dst), p.Skip)
			}
			switch {
			case p.Bounce && p.Length > s.Bounce:
				t.Fatalf("piece %d: %d bytes overflow the bounce buffer", i, p.Length)
			case !p.Bounce && (p.Length > s.MaxIO || p.Length != len(p.Dst) || addressOf(p.Dst)%align != 0):
				t.Fatalf("piece %d: %d bytes at address %#x cannot be read in place", i, p.Length, addressOf(p.Dst))
			case p.Bounce && align == 1:
				t.Fatalf("piece %d: a buffered read is bounced", i)
			}
			next, rest = next+int64(len(p.Dst)), rest[len(p.Dst):]
		}
		if len(rest) != 0 {
			t.Fatalf("%d bytes are in no piece", len(rest))
		}
	})
}
