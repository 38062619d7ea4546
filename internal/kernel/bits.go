package kernel

import "encoding/binary"

// MaxPacked is the largest width that Unpack takes.
const MaxPacked = 32

// PackedBytes returns the bytes of n values of the given width in bits.
func PackedBytes(n, width int) int { return (n*width + 7) / 8 }

// AppendPacked appends the low bits of the values, width of each, from 0 to MaxPacked: value i has the bits
// i·width to (i+1)·width of the result, where bit b is bit b mod 8 of byte b/8. The last byte is filled with zeros.
func AppendPacked(dst []byte, values []uint32, width int) []byte {
	mask := uint64(1)<<width - 1
	acc, have := uint64(0), 0
	for _, v := range values {
		acc |= uint64(v) & mask << have
		if have += width; have >= 32 {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(acc))
			acc >>= 32
			have -= 32
		}
	}
	for ; have > 0; have -= 8 {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}

// Unpack is the inverse of AppendPacked: it fills dst with the first values of src, which has at least
// PackedBytes(len(dst), width) bytes. It reads no byte beyond src.
func Unpack(dst []uint32, src []byte, width int) {
	n := 0
	if level != plain && width > 0 && width <= maxUnpack {
		n = unpackSIMD(dst, src, width)
	}
	unpackPlain(dst, src, width, n)
}

// unpackPlain fills dst from value n on.
func unpackPlain(dst []uint32, src []byte, width, n int) {
	mask := uint64(1)<<width - 1
	i, bit := n, n*width
	for ; i < len(dst) && bit>>3+8 <= len(src); i++ {
		dst[i] = uint32(binary.LittleEndian.Uint64(src[bit>>3:]) >> (bit & 7) & mask)
		bit += width
	}
	var last [16]byte
	copy(last[:8], src[min(bit>>3, len(src)):])
	for first := bit >> 3; i < len(dst); i++ {
		dst[i] = uint32(binary.LittleEndian.Uint64(last[bit>>3-first:]) >> (bit & 7) & mask)
		bit += width
	}
}

// maxUnpack is the largest width of a value that lies in four bytes, whatever its first bit.
const maxUnpack = 25
