package batchcodec

import (
	"encoding/binary"
	"math/bits"
	"sort"

	"diskgnn/internal/binio"
	"diskgnn/internal/kernel"
)

// Forms of a list.
const (
	listPlain = iota
	listUp
	listDown
	listClasses
)

const (
	listBlock  = 128
	listHead   = 1 + 4
	maxClasses = 256
)

// MostList returns the most bytes of AppendList for n values of the given bits.
func MostList(n, bits int) int64 {
	if n == 0 {
		return 0
	}
	return listHead + int64((n+listBlock-1)/listBlock) + int64(kernel.PackedBytes(n, bits))
}

// AppendList appends the values, as differences if all ascend or all descend, else in the shorter of the forms 0 and 3.
// classes has the first value of each class, ascending; nil means that there are no classes.
func AppendList(dst []byte, values, classes []uint32) []byte {
	if len(values) == 0 {
		return dst
	}
	least, most, up, down := survey(values)
	switch {
	case up:
		return appendList(dst, listUp, values[0], values)
	case down:
		return appendList(dst, listDown, values[0], values)
	}
	if within := classesOf(classes, least, most); len(within) > 0 {
		list := appendClasses(dst, values, within)
		if len(list)-len(dst) < listHead+blockBytes(values, least) {
			return list
		}
		dst = list[:len(dst)]
	}
	return appendList(dst, listPlain, least, values)
}

// survey returns the least and the largest value, and whether all values ascend or descend, equal ones
// included.
func survey(values []uint32) (least, most uint32, up, down bool) {
	least, most, up, down = values[0], values[0], true, true
	before := values[0]
	for _, v := range values {
		least, most = min(least, v), max(most, v)
		up, down = up && v >= before, down && v <= before
		before = v
	}
	return least, most, up, down
}

// classesOf returns the classes from the one of least to the one of most. It returns nil for more than maxClasses, and if
// the first class begins after least.
func classesOf(classes []uint32, least, most uint32) []uint32 {
	lo := sort.Search(len(classes), func(i int) bool { return classes[i] > least }) - 1
	hi := sort.Search(len(classes), func(i int) bool { return classes[i] > most })
	if lo < 0 || hi-lo > maxClasses {
		return nil
	}
	return classes[lo:hi]
}

// blockBytes returns the bytes of the blocks of values − base.
func blockBytes(values []uint32, base uint32) int {
	n := 0
	for len(values) > 0 {
		block := values[:min(listBlock, len(values))]
		most := uint32(0)
		for _, v := range block {
			most |= v - base
		}
		n += 1 + kernel.PackedBytes(len(block), bits.Len32(most))
		values = values[len(block):]
	}
	return n
}

// appendList appends a list without classes.
func appendList(dst []byte, form byte, base uint32, values []uint32) []byte {
	dst = binary.LittleEndian.AppendUint32(append(dst, form), base)
	return appendBlocks(dst, values, func(_ []byte, block, values []uint32) {
		for i, v := range values {
			switch form {
			case listPlain:
				block[i] = v - base
			case listUp:
				block[i], base = v-base, v
			case listDown:
				block[i], base = base-v, v
			}
		}
	})
}

// appendBlocks appends the widths of all blocks, and then the blocks. f is called for the blocks in order. It computes
// a block from the values at the same places, and may write to the bytes that dst had before.
func appendBlocks(dst []byte, values []uint32, f func(dst []byte, block, values []uint32)) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, (len(values)+listBlock-1)/listBlock)...)
	var room [listBlock]uint32
	for ; len(values) > 0; at++ {
		block := room[:min(listBlock, len(values))]
		f(dst, block, values[:len(block)])
		most := uint32(0)
		for _, v := range block {
			most |= v
		}
		width := bits.Len32(most)
		dst[at] = byte(width)
		dst = kernel.AppendPacked(dst, block, width)
		values = values[len(block):]
	}
	return dst
}

// classed has the classes of a list, and the last value of each.
type classed struct {
	begin []uint32
	last  [maxClasses]uint32
}

// of returns the class of a value: the last one that begins at or before it.
func (c *classed) of(v uint32) int {
	lo := 0
	for n := len(c.begin); n > 1; {
		half := n / 2
		if c.begin[lo+half] <= v {
			lo += half
		}
		n -= half
	}
	return lo
}

func (c *classed) width() int { return bits.Len32(uint32(len(c.begin) - 1)) }

// appendClasses appends a list with the classes that begin at the given values.
func appendClasses(dst []byte, values, begin []uint32) []byte {
	c := classed{begin: begin}
	copy(c.last[:], begin)
	dst = binary.LittleEndian.AppendUint32(append(dst, listClasses), uint32(len(begin)))
	dst = append(dst, binio.Bytes(begin)...)
	// A block's classes have whole bytes, so that each block of them has its place.
	at, width := len(dst), c.width()
	dst = append(dst, make([]byte, kernel.PackedBytes(len(values), width))...)
	end := len(dst)
	var class [listBlock]uint32
	return appendBlocks(dst, values, func(dst []byte, block, values []uint32) {
		for i, v := range values {
			k := c.of(v)
			class[i] = uint32(k)
			block[i], c.last[k] = v-c.last[k], v
		}
		n := kernel.PackedBytes(len(values), width)
		kernel.AppendPacked(dst[at:at:min(at+n, end)], class[:len(values)], width)
		at += n
	})
}

// List reads a list of n values into the memory of dst, or into a new slice if dst is too small. For any bytes, it
// returns n values, or d has an error of kind fault.ErrCorrupt. It allocates at most 512 bytes for each byte of d.
func List(d *binio.Decoder, dst []uint32, n int) []uint32 {
	if n == 0 {
		return dst[:0]
	}
	form, base := d.U8(), d.U32()
	if form > listClasses {
		d.Fail("a list has the form %d, but there are %d forms", form, listClasses+1)
	}
	var c classed
	var of []byte
	if form == listClasses {
		if base < 1 || base > maxClasses {
			d.Fail("a list has %d classes, not 1 to %d", base, maxClasses)
			return dst[:0]
		}
		c.begin = c.last[:base]
		copy(binio.Bytes(c.begin), d.Raw(4*int(base)))
		of = d.Raw(kernel.PackedBytes(n, c.width()))
	}
	widths := d.Raw((n + listBlock - 1) / listBlock)
	if d.Err() != nil {
		return dst[:0]
	}
	dst = binio.Grow(dst, n)
	for lo := 0; lo < n; lo += listBlock {
		block := dst[lo:min(lo+listBlock, n)]
		width := int(widths[lo/listBlock])
		if width > kernel.MaxPacked {
			d.Fail("a block of a list has values of %d bits", width)
		}
		packed := d.Raw(kernel.PackedBytes(len(block), width))
		if d.Err() != nil {
			return dst[:0]
		}
		kernel.Unpack(block, packed, width)
		switch form {
		case listPlain:
			for i := range block {
				block[i] += base
			}
		case listUp:
			for i, v := range block {
				base += v
				block[i] = base
			}
		case listDown:
			for i, v := range block {
				base -= v
				block[i] = base
			}
		case listClasses:
			if !c.add(block, of[lo/8*c.width():]) {
				d.Fail("a value of a list is of a class beyond the last of %d", len(c.begin))
				return dst[:0]
			}
		}
	}
	return dst
}

// add replaces the differences of a block by its values. of has the packed classes of the values. It reports whether
// all of these classes exist.
func (c *classed) add(block []uint32, of []byte) bool {
	var room [listBlock]uint32
	class := room[:len(block)]
	kernel.Unpack(class, of, c.width())
	if n := uint32(len(c.begin)); n&(n-1) != 0 {
		for _, k := range class {
			if k >= n {
				return false
			}
		}
	}
	for i, d := range block {
		k := &c.last[class[i]&(maxClasses-1)]
		*k += d
		block[i] = *k
	}
	return true
}
