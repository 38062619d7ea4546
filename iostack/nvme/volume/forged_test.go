package volume

import (
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// forge puts a table in force that nobody would write, with checksums and superblocks that are
// right.
func forge(t *testing.T, v *Volume, change func(c *Contents), bytes func(b []byte) []byte) {
	t.Helper()
	c := *v.contents
	c.Files = append([]File(nil), c.Files...)
	for i := range c.Files {
		c.Files[i].Extents = append([]Extent(nil), c.Files[i].Extents...)
	}
	if change != nil {
		change(&c)
	}
	b := c.encode()
	if bytes != nil {
		b = bytes(b)
	}
	r := ref{first: v.layout.Bytes()/Page - 40, bytes: int64(len(b)), crc: binio.CRC(b)}
	if err := v.transfer(true, r.first*Page, append(b, make([]byte, r.pages()*Page-r.bytes)...)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(v.advance(r, ref{}), v.advance(r, ref{})); err != nil {
		t.Fatal(err)
	}
}

// sizes changes the sizes of the first files in the bytes of a table of the format
// diskgnn.pack, whose first file, data, has one extent.
func sizes(of ...int64) func(b []byte) []byte {
	return func(b []byte) []byte {
		at := 72 + len("diskgnn.pack") + 8
		for _, size := range of {
			binary.LittleEndian.PutUint64(b[at:], uint64(size))
			at += 8 + len("data") + 16 + 8
		}
		return b
	}
}

// Whatever a table says, with checksums that are right, is refused as damage before a byte is
// read by it, or leads nowhere.
func TestForgedTables(t *testing.T) {
	for _, x := range []struct {
		what   string
		change func(c *Contents)
		bytes  func(b []byte) []byte
	}{
		{"a table that is cut off", nil, func(b []byte) []byte { return b[:len(b)-3] }},
		{"a table of its head alone", nil, func(b []byte) []byte { return b[:72] }},
		{"a table of a byte", nil, func(b []byte) []byte { return b[:1] }},
		{"more files than there are bytes", nil, func(b []byte) []byte { b[8], b[9], b[10], b[11] = 255, 255, 255, 255; return b }},
		{"a name that leads out", func(c *Contents) { c.Files[0].Name = "../data" }, nil},
		{"a name that leads out within", func(c *Contents) { c.Files[0].Name = "a/../../data" }, nil},
		{"a name from the root", func(c *Contents) { c.Files[0].Name = "/data" }, nil},
		{"a name of the directory", func(c *Contents) { c.Files[0].Name = "." }, nil},
		{"a name with a zero", func(c *Contents) { c.Files[0].Name = "data\x00" }, nil},
		{"a name that clears the screen", func(c *Contents) { c.Files[0].Name = "\x1b[2Jdata" }, nil},
		{"a name of two lines", func(c *Contents) { c.Files[0].Name = "data\nverified" }, nil},
		{"a name that turns around", func(c *Contents) { c.Files[0].Name = "data\u202egnp" }, nil},
		{"a name in no encoding", func(c *Contents) { c.Files[0].Name = "data\xff" }, nil},
		{"a format that clears the screen", func(c *Contents) { c.Format = "\x1b[2J" }, nil},
		{"equal names", func(c *Contents) { c.Files[1].Name = c.Files[0].Name }, nil},
		{"a file of another size", func(c *Contents) { c.Files[0].Size += Page }, nil},
		{"a file of more bytes than there are", nil, sizes(math.MaxInt64)},
		{"a file of less than nothing", nil, sizes(math.MinInt64)},
		{"sizes whose granules are few together", nil, sizes(1<<62, -1<<62)},
		{"sizes whose granules overflow", nil, sizes(math.MaxInt64, math.MaxInt64)},
		{"an extent beyond the volume", func(c *Contents) { c.Files[0].Extents[0].First = 1 << 40 }, nil},
		{"an extent whose end overflows", func(c *Contents) {
			c.Files[0].Extents[0] = Extent{math.MaxInt64, 1}
		}, nil},
		{"extents whose sum overflows", func(c *Contents) {
			c.Files[0].Extents = []Extent{{0, math.MaxInt64}, {0, math.MaxInt64}, {0, 3}}
		}, nil},
		{"an extent before the volume", func(c *Contents) { c.Files[0].Extents[0].First = -1 }, nil},
		{"an extent of the table itself", func(c *Contents) { c.Files[0].Extents[0].First = 1024 - 40 }, nil},
		{"extents that two files share", func(c *Contents) { c.Files[0].Extents = c.Files[1].Extents[:1] }, nil},
	} {
		t.Run(x.what, func(t *testing.T) {
			dir, meta := made(t, "diskgnn.pack", "content")
			m := newMemory(1, 2*mib+1024*Page, 512)
			r, err := Load(t.Context(), m.all(), vfs.OS, dir, meta, Options{Unit: Page})
			if err != nil {
				t.Fatal(err)
			}
			forge(t, r.Volume, x.change, x.bytes)
			if _, err := Open(m.all()); !errors.Is(err, fault.ErrCorrupt) || !plain(err.Error()) {
				t.Errorf("%q", err)
			}
			// By force the directory is loaded again, as onto drives that hold anything else.
			if _, err := Load(t.Context(), m.all(), vfs.OS, dir, meta, Options{}); err == nil {
				t.Error("loaded without force")
			}
			if r, err = Load(t.Context(), m.all(), vfs.OS, dir, meta, Options{Force: true}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Volume.Finder(vfs.OS).Find(filepath.Join(dir, "data")); err != nil {
				t.Error(err)
			}
		})
	}
}

// A table that has a directory's fingerprint, and not its files, is not read by: nothing comes
// from the file system in silence, and nothing from beyond a file's end.
func TestForgedDirectories(t *testing.T) {
	for _, x := range []struct {
		what, says string
		change     func(c *Contents)
	}{
		{"without a file", "memory0 has no data, which ", func(c *Contents) { c.Files = c.Files[1:] }},
		{"a file under another name", "memory0 has no data, which ", func(c *Contents) { c.Files[0].Name = "date" }},
		{"a shorter file", "data has 3 bytes, but in ", func(c *Contents) { c.Files[0].Size = 3 }},
		{"a longer file", "data has 4096 bytes, but in ", func(c *Contents) { c.Files[0].Size = Page }},
		{"no files at all", "memory0 has no data, which ", func(c *Contents) { c.Files, c.written = nil, 0 }},
	} {
		dir, meta := made(t, "diskgnn.pack", "content")
		m := newMemory(1, 2*mib+1024*Page, 512)
		r, err := Load(t.Context(), m.all(), vfs.OS, dir, meta, Options{Unit: Page})
		if err != nil {
			t.Fatal(err)
		}
		forge(t, r.Volume, func(c *Contents) {
			x.change(c)
			c.written = c.granules()
		}, nil)
		v, err := Open(m.all())
		if err != nil {
			t.Fatalf("%s: %v", x.what, err)
		}
		for _, name := range []string{"data", stage.MetaFile, "absent"} {
			if _, err := v.Finder(vfs.OS).Find(filepath.Join(dir, name)); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%s: %s: %v", x.what, name, err)
			}
		}
	}
}

// A superblock behind which there is none is damage: the next one would be older.
func TestForgedGeneration(t *testing.T) {
	dir, meta := made(t, "diskgnn.pack", "content")
	m := newMemory(1, 4*mib, 512)
	r, err := Load(t.Context(), m.all(), vfs.OS, dir, meta, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Volume.super.generation = math.MaxUint64 - 1
	if err := r.Volume.advance(r.Volume.super.force, ref{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(m.all()); !errors.Is(err, fault.ErrCorrupt) {
		t.Error(err)
	}
	if r, err = Load(t.Context(), m.all(), vfs.OS, dir, meta, Options{Force: true}); err != nil || r.Volume.Generation() > 100 {
		t.Errorf("%v", err)
	}
}

// A load of another version that was not finished is refused, and given up by force.
func TestForgedUnderWay(t *testing.T) {
	dir, meta := made(t, "diskgnn.pack", "content")
	other, its := made(t, "diskgnn.pack", "other")
	m := newMemory(1, 4*mib, 512)
	r, err := Load(t.Context(), m.all(), vfs.OS, dir, meta, Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, b := r.Volume, []byte("DGNNVTB9 of another program")
	at := ref{first: v.layout.Bytes()/Page - 40, bytes: int64(len(b)), crc: binio.CRC(b)}
	if err := v.transfer(true, at.first*Page, append(b, make([]byte, Page-len(b))...)); err != nil {
		t.Fatal(err)
	}
	if err := v.advance(v.super.force, at); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(t.Context(), m.all(), vfs.OS, other, its, Options{}); !errors.Is(err, fault.ErrVersion) {
		t.Error(err)
	}
	if r, err = Load(t.Context(), m.all(), vfs.OS, other, its, Options{Force: true}); err != nil || !strings.Contains(r.Note, "cannot be resumed") {
		t.Errorf("%v, %q", err, r.Note)
	}
}

// Names that a table could not have are refused before anything is written.
func TestNamesOfDirectories(t *testing.T) {
	dir, meta := made(t, "diskgnn.pack", "content")
	for _, name := range []string{"../data", "data\n", strings.Repeat("n", maxName+1)} {
		m := newMemory(1, 4*mib, 512)
		forged := *meta
		forged.Files = []stage.File{{Name: name, Size: 7}}
		if _, err := Load(t.Context(), m.all(), vfs.OS, dir, &forged, Options{}); !errors.Is(err, fault.ErrInput) || m.ops > 0 {
			t.Errorf("%.20q: %v after %d operations", name, err, m.ops)
		}
	}
}
