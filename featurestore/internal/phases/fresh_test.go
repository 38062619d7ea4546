package phases

import (
	"testing"

	"pgregory.net/rapid"
)

// The first use after a read is the first, whatever was read and used before.
func TestFresh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 300).Draw(t, "frames")
		f, plain := NewFresh(n), make([]bool, n)
		if int64(8*len(f)) != FreshBytes(n) {
			t.Fatalf("%d words, %d bytes", len(f), FreshBytes(n))
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch lo := rapid.Int64Range(0, n-1).Draw(t, "frame"); rapid.IntRange(0, 8).Draw(t, "what") {
			case 0:
				f.Forget()
				clear(plain)
			case 1, 2, 3:
				hi := rapid.Int64Range(lo, n).Draw(t, "end")
				f.Read(lo, hi)
				for i := lo; i < hi; i++ {
					plain[i] = true
				}
			default:
				if f.Use(uint32(lo)) != plain[lo] {
					t.Fatalf("frame %d: want %t", lo, plain[lo])
				}
				plain[lo] = false
			}
		}
		for i := range plain {
			if f.Use(uint32(i)) != plain[i] {
				t.Fatalf("frame %d: want %t", i, plain[i])
			}
		}
	})
}
