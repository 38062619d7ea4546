package binio

// Combine returns the table of the same file at a coarser granule, a multiple of s.Granule,
// from the finer one's CRCs alone. It is how a table that nothing covers is held to one
// that the fingerprint covers.
//
// CRCs are linear over GF(2): crc(A‖B) = shift(crc(A)) ⊕ crc(B), where shift appends as many
// zero bytes as B has.
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

// shift is the linear map that appending zero bytes is to a CRC, by the CRC's bytes: the
// sum of its images of them.
type shift [4][256]uint32

// shiftBy returns the map of so many zero bytes.
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
