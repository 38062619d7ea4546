package binio

import (
	"hash/crc32"
	"sync"
)

// Scatter computes the Sums of a file that is written in any order, each byte once, such as rows that
// are written in the order of nodes to a file in the order of use. It begins with the sums of zeros. CRCs
// are linear over GF(2): the CRC of a granule is the CRC of zeros, xor the contribution of each written
// part with zeros around it.
//
// Put may be called concurrently for bytes of different granules.
type Scatter struct {
	sums   Sums
	powers []uint32 // powers of x⁸ modulo the polynomial: the factor of a part that n bytes follow
}

// NewScatter returns a Scatter for a file of size bytes, all zero, in granules of granule bytes.
func NewScatter(size, granule int64) *Scatter {
	s := &Scatter{sums: Sums{Granule: granule, Size: size, CRC: make([]uint32, (size+granule-1)/granule)}, powers: powersOf(granule)}
	zeros := make([]byte, granule)
	whole := CRC(zeros)
	for i := range s.sums.CRC {
		s.sums.CRC[i] = whole
	}
	if n := size % granule; n > 0 {
		s.sums.CRC[len(s.sums.CRC)-1] = CRC(zeros[:n])
	}
	return s
}

// powersOf returns the powers for a granule. Many files share the powers for pages.
func powersOf(granule int64) []uint32 {
	if granule == Page {
		return pagePowers()
	}
	return makePowers(granule)
}

var pagePowers = sync.OnceValue(func() []uint32 { return makePowers(Page) })

func makePowers(granule int64) []uint32 {
	list := make([]uint32, granule)
	for n, p := 0, one; n < len(list); n++ {
		list[n] = p
		p = register(p, []byte{0})
	}
	return list
}

// Put adds the bytes b at offset off, which were zero so far.
func (s *Scatter) Put(off int64, b []byte) {
	for len(b) > 0 {
		i, at := off/s.sums.Granule, off%s.sums.Granule
		length := min(s.sums.Granule, s.sums.Size-i*s.sums.Granule) // of the granule
		n := min(int64(len(b)), length-at)
		if n == length {
			s.sums.CRC[i] = CRC(b[:n])
		} else {
			// Leading zeros do not change a register of zero.
			s.sums.CRC[i] ^= times(register(0, b[:n]), s.powers[length-at-n])
		}
		off, b = off+n, b[n:]
	}
}

// register returns the CRC's register after b, given the register before it. CRC and UpdateCRC invert
// the register at both ends.
func register(before uint32, b []byte) uint32 { return ^UpdateCRC(^before, b) }

// one is the polynomial 1: the highest bit is the coefficient of x⁰.
const one = uint32(1 << 31)

// times multiplies polynomials modulo the polynomial of the CRC.
func times(a, b uint32) uint32 {
	product := uint32(0)
	for ; a != 0; a <<= 1 { // the next higher power of x
		product ^= b & uint32(int32(a)>>31)
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return product
}

// Sums returns the table of the bytes so far. The next Put changes it.
func (s *Scatter) Sums() Sums { return s.sums }
