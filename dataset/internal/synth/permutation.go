package synth

import "math/bits"

// permutation is a keyed bijection of [0, n): a Feistel network over the next
// power of two, walked until it lands below n (Black, Rogaway: Ciphers with
// Arbitrary Finite Domains, 2002). It need not resist an adversary, only look
// unordered.
type permutation struct {
	n           uint64
	left, right uint // bits of the two halves
	keys        [4]uint64
}

func newPermutation(n, key uint64) permutation {
	b := uint(max(bits.Len64(n-1), 2))
	p := permutation{n: n, left: b / 2, right: b - b/2}
	for i := range p.keys {
		key = mix(key + uint64(i) + 1)
		p.keys[i] = key
	}
	return p
}

func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xD6E8FEB86659FD93
	x ^= x >> 32
	x *= 0xD6E8FEB86659FD93
	return x ^ x>>32
}

// round is the network's function, to the given number of bits.
func round(x, key uint64, width uint) uint64 {
	x = (x ^ key) * 0x9E3779B97F4A7C15
	x ^= x >> 32
	return (x * 0xD6E8FEB86659FD93) >> (64 - width)
}

func (p *permutation) forward(x uint64) uint64 {
	for {
		a, b := x>>p.right, x&(1<<p.right-1) // a has left bits, b right bits
		a ^= round(b, p.keys[0], p.left)
		b ^= round(a, p.keys[1], p.right)
		a ^= round(b, p.keys[2], p.left)
		b ^= round(a, p.keys[3], p.right)
		if x = a<<p.right | b; x < p.n {
			return x
		}
	}
}

func (p *permutation) backward(y uint64) uint64 {
	for {
		a, b := y>>p.right, y&(1<<p.right-1)
		b ^= round(a, p.keys[3], p.right)
		a ^= round(b, p.keys[2], p.left)
		b ^= round(a, p.keys[1], p.right)
		a ^= round(b, p.keys[0], p.left)
		if y = a<<p.right | b; y < p.n {
			return y
		}
	}
}
