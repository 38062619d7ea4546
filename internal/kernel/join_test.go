package kernel

import (
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/rng"
)

// TestJoin: every kind joins any number of words as package rng does, and writes nothing else.
func TestJoin(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			words, key := rapid.SliceOfN(rapid.Uint32(), 0, 40).Draw(t, "words"), rapid.Uint64().Draw(t, "key")
			got := make([]uint64, len(words)+9)
			Join(got, key, words)
			for i, x := range got {
				want := uint64(0)
				if i < len(words) {
					want = rng.Join(key, uint64(words[i]))
				}
				if x != want {
					t.Fatalf("word %d of %d: %#x, want %#x", i, len(words), x, want)
				}
			}
		})
	})
}
