// Package rng derives random streams from keys. A stream is a function of its
// key alone — (seed, epoch, batch, hop, node) for a draw of neighbours — so the
// same draw is made by any worker, in any order, on any machine.
package rng

import "math/bits"

// golden is 2^64 divided by the golden ratio, the increment of SplitMix64.
const golden = 0x9E3779B97F4A7C15

// Mix is SplitMix64's finaliser (Steele, Lea, Flood: Fast Splittable
// Pseudorandom Number Generators, OOPSLA 2014): a bijection of 64-bit words.
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xBF58476D1CE4E5B9
	x ^= x >> 27
	x *= 0x94D049BB133111EB
	return x ^ x>>31
}

// Key combines words into one key. The order of the words matters.
func Key(words ...uint64) uint64 {
	k := uint64(golden)
	for _, w := range words {
		k = Join(k, w)
	}
	return k
}

// Join combines a key with one more word.
func Join(key, word uint64) uint64 { return Mix(key + golden + Mix(word+golden)) }

// Source is a SplitMix64 stream. The zero value is a valid stream; streams of
// different keys are independent for every practical purpose.
type Source struct{ state uint64 }

// New returns the stream of a key.
func New(key uint64) Source { return Source{key} }

// Uint64 returns the next 64 random bits.
func (s *Source) Uint64() uint64 {
	s.state += golden
	return Mix(s.state)
}

// Uint32n returns a uniform value below n (n > 0), unbiased (Lemire: Fast
// Random Integer Generation in an Interval, 2019).
func (s *Source) Uint32n(n uint32) uint32 {
	prod := (s.Uint64() >> 32) * uint64(n)
	if low := uint32(prod); low < n {
		for thresh := -n % n; low < thresh; low = uint32(prod) {
			prod = (s.Uint64() >> 32) * uint64(n)
		}
	}
	return uint32(prod >> 32)
}

// Uint64n returns a uniform value below n (n > 0), unbiased.
func (s *Source) Uint64n(n uint64) uint64 {
	hi, lo := bits.Mul64(s.Uint64(), n)
	if lo < n {
		for thresh := -n % n; lo < thresh; {
			hi, lo = bits.Mul64(s.Uint64(), n)
		}
	}
	return hi
}

// Float64 returns a uniform value in [0, 1) on a grid of 2^-53.
func (s *Source) Float64() float64 { return float64(s.Uint64()>>11) / (1 << 53) }

// Shuffle permutes ids in place, uniformly (Fisher and Yates).
func Shuffle[T any](s *Source, ids []T) {
	for i := len(ids) - 1; i > 0; i-- {
		j := int(s.Uint64n(uint64(i + 1)))
		ids[i], ids[j] = ids[j], ids[i]
	}
}
