package volume

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
)

// Sizes and offsets on a drive, in bytes.
const (
	head       = 1 << 20 // before the first unit
	tail       = 1 << 20 // at least, behind the last one
	superblock = 64 << 10
)

// Limits of plausible values in a label.
const (
	// MinUnit and MaxUnit are the limits of the size of a unit in bytes, a power of two.
	MinUnit = Page
	MaxUnit = 1 << 30
	// MaxDrives is the largest number of drives of a volume.
	MaxDrives = 1 << 10
	maxUnits  = 1 << 40
	maxBytes  = 1 << 56 // of a volume
)

// ID identifies a volume.
type ID [16]byte

// Layout is the mapping of the bytes of a volume to its drives.
type Layout struct {
	Drives int
	Unit   int64 // size of a unit in bytes
	Units  int64 // number of units of each drive
}

// Bytes returns the size of the volume in bytes.
func (l Layout) Bytes() int64 { return int64(l.Drives) * l.Unit * l.Units }

// Locate returns the place of a byte of the volume: the drive, the offset on that drive, and the number of
// contiguous bytes from there on.
func (l Layout) Locate(at int64) (drive int, offset, n int64) {
	unit, in := at/l.Unit, at%l.Unit
	n = l.Unit - in
	if l.Drives == 1 {
		n = l.Bytes() - at
	}
	return int(unit % int64(l.Drives)), head + unit/int64(l.Drives)*l.Unit + in, n
}

func (l Layout) validate() error {
	if l.Drives < 1 || l.Drives > MaxDrives || l.Unit < MinUnit || l.Unit > MaxUnit || bits.OnesCount64(uint64(l.Unit)) != 1 ||
		l.Units < 1 || l.Units > maxUnits || l.Units > maxBytes/l.Unit/int64(l.Drives) {
		return fmt.Errorf("%d drives with %d units of %d bytes", l.Drives, l.Units, l.Unit)
	}
	return nil
}

// fit returns the layout of a volume on drives, with units of the given size.
func fit(drives []Drive, unit int64) (Layout, error) {
	l := Layout{Drives: len(drives), Unit: unit}
	for i, d := range drives {
		n := max(0, (bytesOf(d)-head-tail)/unit)
		if i == 0 || n < l.Units {
			l.Units = n
		}
	}
	if err := l.validate(); err != nil {
		return l, fault.New(fault.ErrInput, "a volume of %v is not possible: besides its units a drive has %d bytes, 1 MiB before and 1 MiB after them", err, head+tail)
	}
	return l, nil
}

// maxGeneration is more than the generation of any volume. Numbers above it do not overflow.
const maxGeneration = 1 << 62

const (
	labelMagic = "DGNNVOL1"
	superMagic = "DGNNVSB1"
)

// label is the content of the first page of a drive.
type label struct {
	drive  int
	layout Layout
	id     ID
}

func (l *label) encode() []byte {
	b := make([]byte, Page)
	copy(b, labelMagic)
	binary.LittleEndian.PutUint32(b[8:], uint32(l.drive))
	binary.LittleEndian.PutUint32(b[12:], uint32(l.layout.Drives))
	binary.LittleEndian.PutUint64(b[16:], uint64(l.layout.Unit))
	binary.LittleEndian.PutUint64(b[24:], uint64(l.layout.Units))
	copy(b[32:], l.id[:])
	return sign(b)
}

// sector is the size in bytes that every drive writes atomically: label and superblocks have this size, so
// that a loss of power does not leave a part of one.
const sector = 512

// sign stores the CRC of the first sector of a page at its end.
func sign(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[sector-4:], binio.CRC(b[:sector-4]))
	return b
}

// signed checks the magic and the CRC of a sector, and returns the decoder of its version. A sector without
// the magic is not known, without an error. A sector of another version, or with a wrong CRC, is an error.
func signed[D any](b []byte, magic string, versions stage.Versions[D]) (decode D, known bool, err error) {
	n := len(magic) - 1
	if string(b[:n]) != magic[:n] {
		return decode, false, nil
	}
	if decode, err = versions.Decoder(int(b[n]-'0'), refusal(magic)); err != nil {
		return decode, true, err
	}
	if binary.LittleEndian.Uint32(b[sector-4:]) != binio.CRC(b[:sector-4]) {
		return decode, true, fault.New(fault.ErrCorrupt, "its label or superblock does not match its checksum")
	}
	return decode, true, nil
}

// refusal is the sentence that refuses other versions of the structure with a magic.
func refusal(magic string) string {
	kind := magic[:len(magic)-1]
	return `"` + kind + `%d" is not of this program's version, which is "` + kind + `%s"`
}

// The decoders of each version, by the digit at the end of its magic.
var (
	labels = stage.Versions[func([]byte) (label, error)]{1: labelOf}
	supers = stage.Versions[func(b []byte, pages int64) (super, error)]{1: superOf}
	tables = stage.Versions[func(b []byte, pages int64) (*Contents, error)]{1: tableOf}
)

// decodeLabel decodes a drive's first page. known is false if it is not a label.
func decodeLabel(b []byte) (l label, known bool, err error) {
	decode, known, err := signed(b, labelMagic, labels)
	if known && err == nil {
		l, err = decode(b)
	}
	return l, known, err
}

func labelOf(b []byte) (l label, err error) {
	l.drive = int(binary.LittleEndian.Uint32(b[8:]))
	l.layout = Layout{
		Drives: int(binary.LittleEndian.Uint32(b[12:])),
		Unit:   int64(binary.LittleEndian.Uint64(b[16:])),
		Units:  int64(binary.LittleEndian.Uint64(b[24:])),
	}
	copy(l.id[:], b[32:])
	if err := l.layout.validate(); err != nil {
		return l, fault.New(fault.ErrCorrupt, "its label says %v, which is not possible", err)
	}
	if l.drive >= l.layout.Drives {
		return l, fault.New(fault.ErrCorrupt, "its label says drive %d of %d drives", l.drive, l.layout.Drives)
	}
	return l, nil
}

// ref is the place of a table.
type ref struct {
	first int64 // page
	bytes int64 // 0: there is none
	crc   uint32
}

func (r ref) pages() int64 { return (r.bytes + Page - 1) / Page }

// super is a superblock.
type super struct {
	generation      uint64
	id              ID
	force, underWay ref
}

// superAt returns the offset on drive 0 of the superblock of a generation.
func superAt(generation uint64) int64 { return superblock * (1 + int64(generation%2)) }

func (s *super) encode() []byte {
	b := make([]byte, Page)
	copy(b, superMagic)
	binary.LittleEndian.PutUint64(b[8:], s.generation)
	copy(b[16:], s.id[:])
	for i, r := range []ref{s.force, s.underWay} {
		binary.LittleEndian.PutUint64(b[32+24*i:], uint64(r.first))
		binary.LittleEndian.PutUint64(b[40+24*i:], uint64(r.bytes))
		binary.LittleEndian.PutUint32(b[48+24*i:], r.crc)
	}
	return sign(b)
}

// decodeSuper decodes a superblock of a volume. whole is false for one that is incomplete or of another
// volume, which a loss of power may leave.
func decodeSuper(b []byte, id ID, pages int64) (s super, whole bool, err error) {
	decode, known, err := signed(b, superMagic, supers)
	if !known || err != nil {
		if errors.Is(err, fault.ErrVersion) {
			return s, false, err
		}
		return s, false, nil
	}
	if s, err = decode(b, pages); err != nil {
		return s, false, err
	}
	return s, s.id == id, nil
}

func superOf(b []byte, pages int64) (s super, err error) {
	if s.generation = binary.LittleEndian.Uint64(b[8:]); s.generation > maxGeneration {
		return s, fault.New(fault.ErrCorrupt, "its superblock has the generation %d, above the limit of %d", s.generation, uint64(maxGeneration))
	}
	copy(s.id[:], b[16:])
	for i, r := range []*ref{&s.force, &s.underWay} {
		r.first = int64(binary.LittleEndian.Uint64(b[32+24*i:]))
		r.bytes = int64(binary.LittleEndian.Uint64(b[40+24*i:]))
		r.crc = binary.LittleEndian.Uint32(b[48+24*i:])
		if r.bytes < 0 || r.bytes > maxTable || r.first < 0 || r.first > pages-r.pages() {
			return s, fault.New(fault.ErrCorrupt, "its superblock names a table of %d bytes from page %d on, which is not possible", r.bytes, r.first)
		}
	}
	return s, nil
}
