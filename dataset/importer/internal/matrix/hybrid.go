package matrix

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// hybrid decodes Parquet's runs of equal numbers and of packed numbers.
type hybrid struct {
	b     []byte
	width int // bits of a number, at most 32
	left  int // numbers of the run that were not taken
	value uint32
	// packed is the run's packed numbers, nil for a run of equal ones; bit is the place of the next.
	packed []byte
	bit    int
}

var errRuns = errors.New("its runs of numbers end early")

// newHybrid returns a decoder of b. It refuses widths that no column has.
func newHybrid(b []byte, width int) (*hybrid, error) {
	if width > 32 {
		return nil, errors.New("its numbers have more than 32 bits")
	}
	return &hybrid{b: b, width: width}, nil
}

// run begins the next run.
func (h *hybrid) run() error {
	head, n := binary.Uvarint(h.b)
	if n <= 0 || head>>1 == 0 || head>>1 > 1<<31 {
		return errRuns
	}
	h.b, h.packed = h.b[n:], nil
	if head&1 == 1 { // groups of eight; the last may lack bytes that no number needs
		h.left = 8 * int(head>>1)
		size := min(int(head>>1)*h.width, len(h.b))
		h.packed, h.bit, h.b = h.b[:size:size], 0, h.b[size:]
		if h.packed == nil {
			h.packed = []byte{}
		}
		return nil
	}
	h.left = int(head >> 1)
	bytes := (h.width + 7) / 8
	if len(h.b) < bytes {
		return errRuns
	}
	var b [4]byte
	copy(b[:], h.b[:bytes])
	h.value, h.b = binary.LittleEndian.Uint32(b[:]), h.b[bytes:]
	return nil
}

// next sets dst to the next numbers.
func next[T int32 | uint8](h *hybrid, dst []T) error {
	for len(dst) > 0 {
		if h.left == 0 {
			if err := h.run(); err != nil {
				return err
			}
		}
		n := min(h.left, len(dst))
		if h.packed == nil {
			for i := range dst[:n] {
				dst[i] = T(h.value)
			}
		} else {
			if (h.bit+n*h.width+7)/8 > len(h.packed) {
				return errRuns
			}
			unpackBits(h, dst[:n])
		}
		h.left -= n
		dst = dst[n:]
	}
	return nil
}

// unpackBits sets dst to numbers that lie in packed.
func unpackBits[T int32 | uint8](h *hybrid, dst []T) {
	mask := uint64(1)<<h.width - 1
	i, bit := 0, h.bit
	for ; i < len(dst) && bit>>3+8 <= len(h.packed); i++ {
		dst[i] = T(binary.LittleEndian.Uint64(h.packed[bit>>3:]) >> (bit & 7) & mask)
		bit += h.width
	}
	for ; i < len(dst); i++ {
		var b [8]byte
		copy(b[:], h.packed[min(bit>>3, len(h.packed)):])
		dst[i] = T(binary.LittleEndian.Uint64(b[:]) >> (bit & 7) & mask)
		bit += h.width
	}
	h.bit = bit
}

// levels returns a decoder of levels up to most.
func levels(b []byte, most int) (*hybrid, error) { return newHybrid(b, bits.Len(uint(most))) }

// equal returns a function that sets 1 for each of the next levels that is the given one.
func equal(h *hybrid, level uint8) func(dst []uint8) error {
	return func(dst []uint8) error {
		if err := next(h, dst); err != nil {
			return err
		}
		for i, l := range dst {
			dst[i] = 0
			if l == level {
				dst[i] = 1
			}
		}
		return nil
	}
}

// bitmap returns a function that sets the next bits of b from number first on, which must be there.
func bitmap(b []byte, first int) func(dst []uint8) error {
	return func(dst []uint8) error {
		if (first+len(dst)+7)/8 > len(b) {
			return errRuns
		}
		for i := range dst {
			dst[i] = b[first>>3] >> (first & 7) & 1
			first++
		}
		return nil
	}
}
