package binio

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestScatter gives a file's bytes in parts, in any order, some of them never, and
// compares with the table of the bytes in order.
func TestScatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 300).Draw(t, "size")
		granule := rapid.Int64Range(1, 64).Draw(t, "granule")
		content := rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "content")
		cuts := rapid.SliceOfN(rapid.IntRange(0, size), 0, 12).Draw(t, "cuts")
		cuts = append(cuts, 0, size)
		slices.Sort(cuts)
		order := rapid.Permutation(upTo(len(cuts)-1)).Draw(t, "order")
		got := NewScatter(int64(size), granule)
		for _, k := range order {
			lo, hi := cuts[k], cuts[k+1]
			if rapid.Bool().Draw(t, "left out") {
				clear(content[lo:hi])
				continue
			}
			got.Put(int64(lo), content[lo:hi])
		}
		want := NewSummer(granule)
		_, _ = want.Write(content)
		if g, w := got.Sums(), want.Sums(); g.Size != w.Size || g.Granule != w.Granule || !slices.Equal(g.CRC, w.CRC) {
			t.Fatalf("got %v, want %v", g, w)
		}
	})
}

func upTo(n int) []int {
	l := make([]int, n)
	for i := range l {
		l[i] = i
	}
	return l
}

// BenchmarkScatter sums rows of 512 bytes that come one by one.
func BenchmarkScatter(b *testing.B) {
	const row, rows = 512, 1 << 14
	content := make([]byte, row*rows)
	for i := range content {
		content[i] = byte(i * 7)
	}
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		s := NewScatter(int64(len(content)), Page)
		for i := range rows {
			at := i * 7919 % rows * row
			s.Put(int64(at), content[at:at+row])
		}
	}
}
