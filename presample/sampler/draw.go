package sampler

import (
	"math/bits"
	"slices"

	"diskgnn/internal/rng"
)

// drawer draws without replacement. Its draws are a function of the key alone.
//
// The method is Floyd's (Bentley and Floyd: Programming Pearls, a sample of
// brilliance, 1987): for j = n-k … n-1 draw t from 0 … j and take t, or j if t
// was taken before. Every set of k is equally likely, and k random numbers
// suffice. Bits record the taken positions: exactly if n is small, otherwise
// as a filter, with a search of the few taken positions after a hit.
type drawer struct {
	taken []uint64 // zero between draws; its length is a power of two
}

// registerBits is the largest n for which the taken positions fit in one word.
const registerBits = 64

// prepare makes room to draw up to k of a destination's neighbours: about 64
// bits for each, so that a filter is seldom wrong.
func (d *drawer) prepare(k int) {
	if words := takenWords(k); len(d.taken) < words {
		d.taken = make([]uint64, words)
	}
}

// takenWords returns how many words it takes to draw up to k of a destination's neighbours.
func takenWords(k int) int { return 1 << bits.Len(uint(max(k, 16)-1)) }

// draw fills pos with len(pos) different positions start … start+n-1, of which
// there are more, uniformly.
func (d *drawer) draw(pos []int64, start int64, n uint32, key uint64) {
	if n <= registerBits {
		drawSmall(pos, start, n, key)
		return
	}
	src := rng.New(key)
	taken := d.taken
	exact := uint64(n) <= 64*uint64(len(taken))
	j := n - uint32(len(pos))
	for i := range pos {
		t := src.Uint32n(j + 1)
		w := int(t>>6) & (len(taken) - 1)
		if bit := uint64(1) << (t & 63); taken[w]&bit == 0 {
			taken[w] |= bit
		} else if exact || slices.Contains(pos[:i], start+int64(t)) {
			t = j
			taken[int(t>>6)&(len(taken)-1)] |= 1 << (t & 63)
		}
		pos[i] = start + int64(t)
		j++
	}
	for _, p := range pos {
		taken[int(p-start)>>6&(len(taken)-1)] = 0
	}
}

// drawSmall is draw for n of at most registerBits, without a branch that
// depends on the drawn numbers.
func drawSmall(pos []int64, start int64, n uint32, key uint64) {
	src := rng.New(key)
	var taken uint64
	j := n - uint32(len(pos))
	for i := range pos {
		t := src.Uint32n(j + 1)
		if taken>>(t&63)&1 != 0 {
			t = j
		}
		taken |= 1 << (t & 63)
		pos[i] = start + int64(t)
		j++
	}
}
