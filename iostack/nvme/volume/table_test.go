package volume

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

// hand is a table of two files: one in two pieces, one empty.
func hand() *Contents {
	return &Contents{
		Format: "pack", Version: 3, Fingerprint: strings.Repeat("ab", 32), written: 1,
		Files: []File{
			{Name: "a", Size: Granule + 5, Extents: []Extent{{7, 256}, {300, 1}}, Sums: binio.Sums{Granule: Granule, Size: Granule + 5, CRC: []uint32{0x01020304, 5}}},
			{Name: "b/c", Sums: binio.Sums{Granule: Granule, CRC: []uint32{}}},
		},
	}
}

// The bytes of a table, label and superblock, as the package comment has them.
func TestBytes(t *testing.T) {
	want := "44474e4e56544231" + // DGNNVTB1
		"02000000" + "04000000" + // files, bytes of the format's name
		"03000000" + "00001000" + // version, granule
		"0200000000000000" + "0100000000000000" + // granules, written
		strings.Repeat("ab", 32) +
		hex.EncodeToString([]byte("pack")) +
		"01000000" + "02000000" + "0500100000000000" + hex.EncodeToString([]byte("a")) +
		"0700000000000000" + "0001000000000000" + "2c01000000000000" + "0100000000000000" +
		"03000000" + "00000000" + "0000000000000000" + hex.EncodeToString([]byte("b/c")) +
		"04030201" + "05000000"
	got := hand().encode()
	if hex.EncodeToString(got) != want {
		t.Errorf("%x\nwant\n%s", got, want)
	}
	if n := hand().encodedBytes(); n != int64(len(got)) {
		t.Errorf("%d bytes, %d computed", len(got), n)
	}
	page := func(fields string) []byte {
		b, err := hex.DecodeString(fields)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, make([]byte, 508-len(b))...)
		return append(binary.LittleEndian.AppendUint32(b, binio.CRC(b)), make([]byte, Page-512)...)
	}
	id := ID{0: 0x11, 15: 0x22}
	l := label{drive: 1, layout: Layout{Drives: 2, Unit: 8192, Units: 5}, id: id}
	if want := page("44474e4e564f4c31" + "0100000002000000" + "0020000000000000" + "0500000000000000" + "11000000000000000000000000000022"); !bytes.Equal(l.encode(), want) {
		t.Errorf("label %x", l.encode()[:64])
	}
	s := super{generation: 9, id: id, force: ref{1, 2, 3}, underWay: ref{4, 5, 6}}
	if want := page("44474e4e56534231" + "0900000000000000" + "11000000000000000000000000000022" +
		"0100000000000000" + "0200000000000000" + "0300000000000000" + "0400000000000000" + "0500000000000000" + "06000000"); !bytes.Equal(s.encode(), want) {
		t.Errorf("superblock %x", s.encode()[:96])
	}
	if superAt(9) != 128<<10 || superAt(10) != 64<<10 {
		t.Errorf("superblocks at %d and %d", superAt(9), superAt(10))
	}
}

// Where bytes of a volume lie, by hand: units of 8 KiB go round two drives.
func TestLocate(t *testing.T) {
	l := Layout{Drives: 2, Unit: 8192, Units: 5}
	for _, x := range []struct {
		at     int64
		drive  int
		offset int64
		n      int64
	}{{0, 0, mib, 8192}, {8191, 0, mib + 8191, 1}, {8192, 1, mib, 8192}, {3*8192 + 100, 1, mib + 8192 + 100, 8092}, {4 * 8192, 0, mib + 2*8192, 8192}} {
		if drive, offset, n := l.Locate(x.at); drive != x.drive || offset != x.offset || n != x.n {
			t.Errorf("byte %d is byte %d of drive %d, %d from there on", x.at, offset, drive, n)
		}
	}
	if drive, offset, n := (Layout{Drives: 1, Unit: 8192, Units: 5}).Locate(10000); drive != 0 || offset != mib+10000 || n != 30960 {
		t.Errorf("on one drive: byte %d of drive %d, %d from there on", offset, drive, n)
	}
	f := hand().Files[0]
	for _, x := range [][3]int64{{0, 7 * Page, Granule}, {Granule - 1, 263*Page - 1, 1}, {Granule, 300 * Page, Page}, {Granule + 4, 300*Page + 4, Page - 4}} {
		if at, n := f.Locate(x[0]); at != x[1] || n != x[2] {
			t.Errorf("byte %d of the file is byte %d, %d from there on", x[0], at, n)
		}
	}
}

func TestDecodeTable(t *testing.T) {
	c, err := decodeTable(hand().encode(), 301)
	if err != nil || !c.same(hand()) || c.written != 1 || !slices.Equal(c.Files[0].Extents, hand().Files[0].Extents) || !slices.Equal(c.Files[0].Sums.CRC, hand().Files[0].Sums.CRC) {
		t.Fatalf("%+v %v", c, err)
	}
	for _, x := range []struct {
		what   string
		change func(c *Contents)
		bytes  func(b []byte) []byte
	}{
		{"the volume has fewer pages", nil, func(b []byte) []byte { return nil }},
		{"files out of order", func(c *Contents) { c.Files[0].Name = "c" }, nil},
		{"a name twice", func(c *Contents) { c.Files[1].Name = "a" }, nil},
		{"a name that leads out", func(c *Contents) { c.Files[0].Name = "../a" }, nil},
		{"no name", func(c *Contents) { c.Files[0].Name = "" }, nil},
		{"the directory's name", func(c *Contents) { c.Files[0].Name = "." }, nil},
		{"a long name", func(c *Contents) { c.Files[0].Name = strings.Repeat("a", maxName+1) }, nil},
		{"a long format", func(c *Contents) { c.Format = strings.Repeat("a", maxFormat+1) }, nil},
		{"a page too few", func(c *Contents) { c.Files[0].Extents[0].Pages-- }, nil},
		{"a page too many", func(c *Contents) { c.Files[0].Extents[0].Pages++ }, nil},
		{"an extent of nothing", func(c *Contents) { c.Files[0].Extents = append(c.Files[0].Extents, Extent{290, 0}) }, nil},
		{"an extent before the first page", func(c *Contents) { c.Files[0].Extents[0].First = -1 }, nil},
		{"extents that overlap", func(c *Contents) { c.Files[0].Extents[1].First = 262 }, nil},
		{"a size below nothing", func(c *Contents) { c.Files[1].Size = -5 }, nil},
		{"more granules written than there are", func(c *Contents) { c.written = 3 }, nil},
		{"a checksum too few", func(c *Contents) { c.Files[0].Sums.CRC = c.Files[0].Sums.CRC[:1] }, nil},
		{"another granule", nil, func(b []byte) []byte { b[22]++; return b }},
		{"files that are not there", nil, func(b []byte) []byte { b[11] = 1; return b }},
		{"bytes behind", nil, func(b []byte) []byte { return append(b, 0, 0, 0, 0) }},
		{"cut off", nil, func(b []byte) []byte { return b[:len(b)-1] }},
		{"no table", nil, func(b []byte) []byte { b[0]++; return b }},
	} {
		c, pages := hand(), int64(301)
		if x.change != nil {
			x.change(c)
		}
		b := c.encode()
		if x.bytes != nil {
			if b = x.bytes(b); b == nil {
				b, pages = hand().encode(), 300
			}
		}
		if _, err := decodeTable(b, pages); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", x.what, err)
		}
	}
	b := hand().encode()
	b[7] = '2'
	if _, err := decodeTable(b, 301); !errors.Is(err, fault.ErrVersion) {
		t.Errorf("another version: %v", err)
	}
}

func FuzzDecodeTable(f *testing.F) {
	f.Add(hand().encode(), int64(301))
	f.Add([]byte(tableMagic), int64(1))
	f.Fuzz(func(t *testing.T, b []byte, pages int64) {
		if pages < 0 || pages > maxBytes/Page {
			return
		}
		c, err := decodeTable(b, pages)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
				t.Error(err)
			}
			return
		}
		if again := c.encode(); !bytes.Equal(again, b) {
			t.Errorf("%x is encoded as %x", b, again)
		}
	})
}

func FuzzDecodePages(f *testing.F) {
	l := label{layout: Layout{Drives: 2, Unit: 8192, Units: 5}}
	s := super{generation: 3, force: ref{1, 2, 3}}
	f.Add(l.encode()[:sector-4])
	f.Add(s.encode()[:sector-4])
	f.Fuzz(func(t *testing.T, b []byte) {
		b = sign(append(slices.Clone(b), make([]byte, Page)...)[:Page])
		if l, known, err := decodeLabel(b); known && err == nil {
			if l.layout.Bytes() <= 0 || l.layout.Bytes() > maxBytes || l.drive < 0 || l.drive >= l.layout.Drives {
				t.Errorf("%+v", l)
			}
		}
		var id ID
		copy(id[:], b[16:])
		if s, whole, err := decodeSuper(b, id, 1000); whole && err == nil {
			for _, r := range []ref{s.force, s.underWay} {
				if r.bytes < 0 || r.first < 0 || r.first+r.pages() > 1000 {
					t.Errorf("%+v", s)
				}
			}
		}
	})
}

// Pages are given once, to files in as few pieces as there must be, and the rest stays free: by
// a map of pages.
func TestSpace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.Int64Range(1, 60).Draw(t, "pages")
		used := make([]bool, pages)
		var extents []Extent
		for range rapid.IntRange(0, 6).Draw(t, "used") {
			e := Extent{First: rapid.Int64Range(0, pages-1).Draw(t, "first")}
			e.Pages = rapid.Int64Range(1, pages-e.First).Draw(t, "n")
			extents = append(extents, e)
			for i := range e.Pages {
				used[e.First+i] = true
			}
		}
		free := freeOf(pages, extents)
		longest := func() (run int64) {
			at := int64(0)
			for _, u := range used {
				if at++; u {
					at = 0
				}
				run = max(run, at)
			}
			return run
		}
		give := func(e Extent) {
			for i := range e.Pages {
				if used[e.First+i] {
					t.Fatalf("page %d is given twice", e.First+i)
				}
				used[e.First+i] = true
			}
		}
		for range 8 {
			left := int64(0)
			for _, u := range used {
				if !u {
					left++
				}
			}
			if free.pages() != left {
				t.Fatalf("%d pages free, not %d", free.pages(), left)
			}
			n := rapid.Int64Range(0, left).Draw(t, "take")
			fits := n <= longest()
			if rapid.Bool().Draw(t, "last") && n > 0 {
				e, ok := free.last(n)
				if ok != fits {
					t.Fatalf("%d pages next to each other: %v", n, ok)
				}
				if ok {
					for i := e.First + e.Pages; i+n <= pages; i++ {
						if !slices.Contains(used[i:i+n], true) {
							t.Fatalf("%d pages from %d on, though %d were free", n, e.First, i)
						}
					}
					give(e)
				}
				continue
			}
			got := free.take(n)
			if fits && n > 0 && len(got) != 1 {
				t.Fatalf("%d pages in %v", n, got)
			}
			sum := int64(0)
			for _, e := range got {
				give(e)
				sum += e.Pages
			}
			if sum != n {
				t.Fatalf("%d pages of %d", sum, n)
			}
		}
	})
}

// What a table is counted with is what its files, names, extents and checksums take.
func TestHeld(t *testing.T) {
	c := &Contents{Files: []File{{Name: "four", Extents: make([]Extent, 3), Sums: binio.Sums{CRC: make([]uint32, 5)}}, {Name: "x"}}}
	if n, want := c.Held(), int64(2*unsafe.Sizeof(File{})+4+1+3*16+5*4); n != want {
		t.Errorf("%d bytes, want %d", n, want)
	}
}
