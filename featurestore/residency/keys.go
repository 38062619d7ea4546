package residency

import "math/bits"

// keys is a set of numbers with fast access to the largest. The first level has a bit for each number. Each
// further level has a bit for each word of the level below that is not zero, up to a level of one word. Every
// operation takes one step for each level: at most six.
type keys struct {
	levels [][]uint64 // the level of the numbers first
}

// newKeys returns the empty set of numbers below n, which is at most 2³².
func newKeys(n int64) keys {
	var k keys
	for more := true; more; more = n > 1 {
		n = (n + 63) / 64
		k.levels = append(k.levels, make([]uint64, n))
	}
	return k
}

// keysBytes returns the memory of a set of numbers below n.
func keysBytes(n int64) (bytes int64) {
	for more := true; more; more = n > 1 {
		n = (n + 63) / 64
		bytes += 8 * n
	}
	return bytes
}

func (k *keys) bytes() (n int64) {
	for _, words := range k.levels {
		n += 8 * int64(len(words))
	}
	return n
}

func (k *keys) clear() {
	for _, words := range k.levels {
		clear(words)
	}
}

func (k *keys) has(x uint32) bool { return k.levels[0][x/64]>>(x%64)&1 != 0 }

func (k *keys) add(x uint32) {
	for _, words := range k.levels {
		w := &words[x/64]
		was := *w
		*w |= 1 << (x % 64)
		if was != 0 {
			return
		}
		x /= 64
	}
}

func (k *keys) remove(x uint32) {
	for _, words := range k.levels {
		w := &words[x/64]
		if *w &^= 1 << (x % 64); *w != 0 {
			return
		}
		x /= 64
	}
}

// largest returns the largest member of a set that is not empty.
func (k *keys) largest() uint32 {
	x := uint32(0)
	for l := len(k.levels) - 1; l >= 0; l-- {
		x = x*64 + uint32(bits.Len64(k.levels[l][x])-1)
	}
	return x
}
