package volume

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
)

const tableMagic = "DGNNVTB1"

// Granule is the number of bytes of a file under one checksum.
const Granule = 1 << 20

// Limits of a table: its size, which is little more than four bytes for each MiB of data, and the lengths
// of names. 256 MiB are enough for 60 TiB.
const (
	maxTable  = 256 << 20
	maxName   = 1 << 10
	maxFormat = 64
)

// Contents is the decoded table: a directory, and the places of its files.
type Contents struct {
	Format      string // of the directory, such as diskgnn-pack
	Version     int
	Fingerprint string // of the directory, 64 hexadecimal digits
	Files       []File // ascending by name

	written int64 // granules; all, in a table in force
}

// File is a file on a volume.
type File struct {
	Name    string
	Size    int64
	Extents []Extent   // in the order of the file's bytes
	Sums    binio.Sums // of granules
}

// Extent is a run of pages of a volume.
type Extent struct{ First, Pages int64 }

// Bytes returns the size of all files together in bytes.
func (c *Contents) Bytes() (n int64) {
	for i := range c.Files {
		n += c.Files[i].Size
	}
	return n
}

// Held returns the memory of the table in bytes.
func (c *Contents) Held() int64 {
	n := int64(cap(c.Files)) * int64(unsafe.Sizeof(File{}))
	for i := range c.Files {
		f := &c.Files[i]
		n += int64(len(f.Name)) + int64(cap(f.Extents))*int64(unsafe.Sizeof(Extent{})) + 4*int64(cap(f.Sums.CRC))
	}
	return n
}

// File returns the file of the given name, nil if there is none.
func (c *Contents) File(name string) *File {
	i, found := slices.BinarySearchFunc(c.Files, name, func(f File, name string) int { return cmp.Compare(f.Name, name) })
	if !found {
		return nil
	}
	return &c.Files[i]
}

// Locate returns the offset on the volume of the byte at an offset of the file, and the number of
// contiguous bytes from there on, which may end with the file's last page. The offset must be below Size.
func (f *File) Locate(offset int64) (at, n int64) {
	page, in := offset/Page, offset%Page
	for _, e := range f.Extents {
		if page < e.Pages {
			return (e.First+page)*Page + in, (e.Pages-page)*Page - in
		}
		page -= e.Pages
	}
	panic(fmt.Sprintf("volume: byte %d is not in %s, which has %d bytes", offset, f.Name, f.Size))
}

// same reports whether two tables are of the same directory, with the same files.
func (c *Contents) same(o *Contents) bool {
	return c.Format == o.Format && c.Version == o.Version && c.Fingerprint == o.Fingerprint &&
		slices.EqualFunc(c.Files, o.Files, func(a, b File) bool { return a.Name == b.Name && a.Size == b.Size })
}

// pagesOf returns the pages of a number of bytes, granulesOf the granules.
func pagesOf(bytes int64) int64    { return (bytes + Page - 1) / Page }
func granulesOf(bytes int64) int64 { return (bytes + Granule - 1) / Granule }

func (c *Contents) granules() (n int64) {
	for i := range c.Files {
		n += granulesOf(c.Files[i].Size)
	}
	return n
}

// encodedBytes returns the size of the encoded table, which does not depend on checksums.
func (c *Contents) encodedBytes() int64 {
	n := 72 + int64(len(c.Format)) + 4*c.granules()
	for i := range c.Files {
		n += 16 + int64(len(c.Files[i].Name)) + 16*int64(len(c.Files[i].Extents))
	}
	return n
}

func (c *Contents) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, c.encodedBytes())
	b = append(b, tableMagic...)
	b = le.AppendUint32(b, uint32(len(c.Files)))
	b = le.AppendUint32(b, uint32(len(c.Format)))
	b = le.AppendUint32(b, uint32(c.Version))
	b = le.AppendUint32(b, Granule)
	b = le.AppendUint64(b, uint64(c.granules()))
	b = le.AppendUint64(b, uint64(c.written))
	b, _ = hex.AppendDecode(b, []byte(c.Fingerprint))
	b = append(b, c.Format...)
	for i := range c.Files {
		f := &c.Files[i]
		b = le.AppendUint32(b, uint32(len(f.Name)))
		b = le.AppendUint32(b, uint32(len(f.Extents)))
		b = le.AppendUint64(b, uint64(f.Size))
		b = append(b, f.Name...)
		for _, e := range f.Extents {
			b = le.AppendUint64(b, uint64(e.First))
			b = le.AppendUint64(b, uint64(e.Pages))
		}
	}
	for i := range c.Files {
		b = append(b, binio.Bytes(c.Files[i].Sums.CRC)...)
	}
	return b
}

// decodeTable decodes a table of a volume of the given number of pages. It checks that files ascend, have
// the number of pages for their sizes, are inside the volume, and share no page with each other. It
// allocates at most a few times the bytes of the table.
func decodeTable(b []byte, pages int64) (*Contents, error) {
	if len(b) < len(tableMagic) || string(b[:7]) != tableMagic[:7] {
		return nil, fault.New(fault.ErrCorrupt, "not a table of a volume")
	}
	decode, err := tables.Decoder(int(b[7]-'0'), refusal(tableMagic))
	if err != nil {
		return nil, err
	}
	return decode(b, pages)
}

func tableOf(b []byte, pages int64) (*Contents, error) {
	d := binio.NewDecoder(b)
	d.Raw(len(tableMagic))
	c := &Contents{}
	files := d.Count(16)
	format := d.Count(1)
	c.Version = int(d.U32())
	granule := d.U32()
	granules := d.U64()
	written := d.U64()
	c.Fingerprint = hex.EncodeToString(d.Raw(32))
	c.Format = string(d.Raw(format))
	if d.Err() == nil && (format > maxFormat || !plain(c.Format) || granule != Granule || granules > uint64(len(b)/4) || written > granules) {
		d.Fail("%d of %d granules of %d bytes, and the name of a format in %d bytes, are not possible", written, granules, granule, format)
	}
	c.written = int64(written)
	var all []Extent
	for len(c.Files) < files && d.Err() == nil {
		name := d.Count(1)
		extents := d.Count(16)
		f := File{Size: int64(d.U64())}
		f.Name = string(d.Raw(name))
		var sum int64
		for range extents {
			e := Extent{int64(d.U64()), int64(d.U64())}
			if e.Pages <= 0 || e.First < 0 || e.Pages > pages || e.First > pages-e.Pages {
				d.Fail("%.80q has %d pages from page %d on, but the volume has %d", f.Name, e.Pages, e.First, pages)
				break
			}
			sum += e.Pages
			f.Extents = append(f.Extents, e)
		}
		switch {
		case d.Err() != nil:
		case !validName(f.Name):
			d.Fail("%.80q cannot be the name of a file", f.Name)
		case len(c.Files) > 0 && c.Files[len(c.Files)-1].Name >= f.Name:
			d.Fail("%.80q is listed twice, or out of order", f.Name)
		case f.Size < 0 || f.Size > maxBytes || sum != pagesOf(f.Size):
			d.Fail("%.80q has %d bytes in %d pages", f.Name, f.Size, sum)
		}
		all = append(all, f.Extents...)
		c.Files = append(c.Files, f)
	}
	if d.Err() == nil && (c.granules() != int64(granules) || int64(d.Rest()) != 4*int64(granules)) {
		d.Fail("%d granules with %d bytes of checksums, but its files have %d granules", granules, d.Rest(), c.granules())
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	for i := range c.Files {
		f := &c.Files[i]
		n := int(granulesOf(f.Size))
		f.Sums = binio.Sums{Granule: Granule, Size: f.Size, CRC: make([]uint32, n)}
		copy(binio.Bytes(f.Sums.CRC), d.Raw(4*n))
	}
	return c, apart(all)
}

// validName reports whether a table may have a file with a name: a path in the directory, not too long, of
// printable characters.
func validName(name string) bool {
	return fs.ValidPath(name) && name != "." && len(name) <= maxName && plain(name)
}

// plain reports whether a text has printable characters only: others could control the terminal.
func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// apart returns an error if a page is in two extents.
func apart(all []Extent) error {
	slices.SortFunc(all, func(a, b Extent) int { return cmp.Compare(a.First, b.First) })
	for i := 1; i < len(all); i++ {
		if all[i].First < all[i-1].First+all[i-1].Pages {
			return fault.New(fault.ErrCorrupt, "page %d of the volume is in two files", all[i].First)
		}
	}
	return nil
}
