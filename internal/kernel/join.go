package kernel

import "diskgnn/internal/rng"

// Join fills dst with rng.Join(key, word) for each of the words.
func Join(dst []uint64, key uint64, words []uint32) {
	dst = dst[:len(words)]
	n := 0
	if level == avx512 {
		n = joinSIMD(dst, key, words)
	}
	joinPlain(dst[n:], key, words[n:])
}

func joinPlain(dst []uint64, key uint64, words []uint32) {
	for i, w := range words {
		dst[i] = rng.Join(key, uint64(w))
	}
}
