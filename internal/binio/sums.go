package binio

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"slices"

	"diskgnn/internal/fault"
	"diskgnn/internal/prefetch"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC returns the CRC-32C of b.
func CRC(b []byte) uint32 { return UpdateCRC(0, b) }

// ahead is the number of bytes that a CRC asks for before it reads them: the least that the library reads in three streams of
// 1 KiB. The processor's prefetchers do not follow these.
const ahead = 3 << 10

// UpdateCRC returns the CRC-32C of some bytes followed by b. crc is the CRC of these bytes, 0 for none.
func UpdateCRC(crc uint32, b []byte) uint32 {
	for len(b) > ahead {
		prefetch.Bytes(b[ahead:min(2*ahead, len(b))])
		crc, b = crc32.Update(crc, castagnoli, b[:ahead]), b[ahead:]
	}
	return crc32.Update(crc, castagnoli, b)
}

// Hash returns the SHA-256 of b in hexadecimal: the checksum of small files.
func Hash(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// HashSums returns the checksum of a file with a table of CRCs: the SHA-256 of the table, in
// hexadecimal.
func HashSums(crcs []uint32) string { return Hash(Bytes(crcs)) }

// Sums has the CRC-32C of every granule of a file. The last granule may be shorter.
type Sums struct {
	Granule int64
	Size    int64
	CRC     []uint32
}

// Summer computes Sums from the bytes of a file, written in order. It is an io.Writer that never fails.
type Summer struct {
	sums Sums
	crc  uint32
	in   int64 // bytes of the current granule
}

// NewSummer starts a table with granules of granule bytes.
func NewSummer(granule int64) *Summer { return &Summer{sums: Sums{Granule: granule}} }

// Expect allocates the table of a file of size bytes.
func (s *Summer) Expect(size int64) {
	s.sums.CRC = slices.Grow(s.sums.CRC, int((size+s.sums.Granule-1)/s.sums.Granule))
}

// Write adds the next bytes of the file.
func (s *Summer) Write(p []byte) (int, error) {
	n := len(p)
	s.sums.Size += int64(n)
	for len(p) > 0 {
		k := min(int64(len(p)), s.sums.Granule-s.in)
		s.crc = UpdateCRC(s.crc, p[:k])
		s.in += k
		p = p[k:]
		if s.in == s.sums.Granule {
			s.sums.CRC = append(s.sums.CRC, s.crc)
			s.crc, s.in = 0, 0
		}
	}
	return n, nil
}

// Sums returns the table of all bytes written so far.
func (s *Summer) Sums() Sums {
	t := s.sums
	if s.in > 0 {
		t.CRC = append(t.CRC[:len(t.CRC):len(t.CRC)], s.crc)
	}
	return t
}

// Checksum returns the file's checksum, its HashSums.
func (s *Sums) Checksum() string { return HashSums(s.CRC) }

// Verify compares b, the file's bytes from off on, with the table. Both ends must lie at bounds of
// granules, or at the end of the file. name is the file's name in the error, of kind fault.ErrCorrupt.
func (s *Sums) Verify(name string, off int64, b []byte) error {
	for len(b) > 0 {
		n := min(s.Granule, int64(len(b)))
		if err := s.Compare(name, off, n, CRC(b[:n])); err != nil {
			return err
		}
		off, b = off+n, b[n:]
	}
	return nil
}

// Compare compares the CRC-32C of a granule, n bytes from off on, with the table. It is for a CRC that
// was computed elsewhere, such as on a GPU.
func (s *Sums) Compare(name string, off, n int64, crc uint32) error {
	i := off / s.Granule
	if off%s.Granule != 0 || n > s.Granule || i >= int64(len(s.CRC)) || n < s.Granule && off+n != s.Size {
		return fault.New(fault.ErrCorrupt, "%s: bytes %d to %d are not covered by its checksums", name, off, off+n)
	}
	if crc != s.CRC[i] {
		return BadRange(name, off, n)
	}
	return nil
}

// BadRange is the error for bytes that do not match their checksum.
func BadRange(name string, off, n int64) error {
	return fault.New(fault.ErrCorrupt, "%s: bytes %d to %d do not match their checksum", name, off, off+n)
}

// sumsMagic opens a table of checksums on disk: magic, granule (u64), size of
// the covered file (u64), the CRCs, and the CRC of all that precedes it.
const sumsMagic = "DGNNSUM1"

// SumsBytes returns the bytes on disk of the table of a file of size bytes.
func SumsBytes(size, granule int64) int64 {
	granules := size / granule
	if size%granule != 0 {
		granules++
	}
	return int64(len(sumsMagic)) + 16 + 4*granules + 4
}

// Encode returns the table as it lies on disk.
func (s *Sums) Encode() []byte {
	b := append(make([]byte, 0, SumsBytes(s.Size, s.Granule)), sumsMagic...)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Granule))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Size))
	b = append(b, Bytes(s.CRC)...)
	return binary.LittleEndian.AppendUint32(b, CRC(b))
}

// DecodeSums reads a table that Encode wrote.
func DecodeSums(b []byte) (Sums, error) {
	const head = len(sumsMagic) + 16
	if len(b) < head+4 || string(b[:len(sumsMagic)]) != sumsMagic {
		return Sums{}, fault.New(fault.ErrCorrupt, "not a table of checksums")
	}
	body := b[:len(b)-4]
	if CRC(body) != binary.LittleEndian.Uint32(b[len(body):]) {
		return Sums{}, fault.New(fault.ErrCorrupt, "the table of checksums does not match its own checksum")
	}
	s := Sums{Granule: int64(binary.LittleEndian.Uint64(b[8:])), Size: int64(binary.LittleEndian.Uint64(b[16:]))}
	if s.Granule <= 0 || s.Size < 0 || (len(body)-head)%4 != 0 {
		return Sums{}, fault.New(fault.ErrCorrupt, "malformed table of checksums")
	}
	s.CRC = make([]uint32, (len(body)-head)/4)
	copy(Bytes(s.CRC), body[head:])
	granules := s.Size / s.Granule
	if s.Size%s.Granule != 0 {
		granules++
	}
	if granules != int64(len(s.CRC)) {
		return Sums{}, fault.New(fault.ErrCorrupt, "the table has %d checksums, which do not fit a file of %d bytes in granules of %d bytes", len(s.CRC), s.Size, s.Granule)
	}
	return s, nil
}

// Combine returns the table of the same file with a coarser granule, a multiple of s.Granule, computed
// from the CRCs alone. With it, a fine table that has no checksum is compared with a coarse table that
// the fingerprint covers.
//
// CRCs are linear over GF(2): crc(A‖B) = shift(crc(A)) ⊕ crc(B), where shift appends len(B) zero
// bytes.
func (s *Sums) Combine(granule int64) Sums {
	per := int(granule / s.Granule)
	t := Sums{Granule: granule, Size: s.Size, CRC: make([]uint32, 0, (len(s.CRC)+per-1)/per)}
	whole := shiftBy(s.Granule)
	for first := 0; first < len(s.CRC); first += per {
		crc := s.CRC[first]
		for i := first + 1; i < min(first+per, len(s.CRC)); i++ {
			shift := whole
			if left := s.Size - int64(i)*s.Granule; left < s.Granule {
				shift = shiftBy(left)
			}
			crc = shift.apply(crc) ^ s.CRC[i]
		}
		t.CRC = append(t.CRC, crc)
	}
	return t
}

// shift is the change of a CRC by appended zero bytes, a linear map: the result is the xor of one entry
// for each byte of the CRC.
type shift [4][256]uint32

// shiftBy returns the map for a number of appended zero bytes.
func shiftBy(bytes int64) *shift {
	zeros := make([]byte, bytes)
	none := UpdateCRC(0, zeros) // the map with pre- and post-conditioning is affine
	t := new(shift)
	for k := range t {
		for b := 1; b < 256; b++ {
			if low := b & -b; low != b {
				t[k][b] = t[k][low] ^ t[k][b^low]
			} else {
				t[k][b] = UpdateCRC(uint32(b)<<(8*k), zeros) ^ none
			}
		}
	}
	return t
}

func (t *shift) apply(crc uint32) uint32 {
	return t[0][crc&0xFF] ^ t[1][crc>>8&0xFF] ^ t[2][crc>>16&0xFF] ^ t[3][crc>>24]
}
