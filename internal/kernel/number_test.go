package kernel

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// bucketOf returns the first bucket of a word.
func bucketOf(w uint32, buckets int) int {
	return int(uint64(w) * 0x9E3779B97F4A7C15 >> bucketShift(buckets*BucketWords))
}

// TestNumberByHand numbers five words, then three of which two are there already.
func TestNumberByHand(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		table, list, out := make([]uint32, 2*BucketWords), make([]uint32, 8), make([]uint32, 5)
		n := Number(out, []uint32{40, 7, 40, 0, 7}, list, 0, 10, table)
		if n != 3 || !slices.Equal(out, []uint32{0, 1, 0, 2, 1}) || !slices.Equal(list[:3], []uint32{40, 7, 0}) {
			t.Fatalf("%d words, numbers %v, list %v", n, out, list)
		}
		n = Number(out, []uint32{7, 1 << 31, 0}, list, n, 10, table)
		if n != 4 || !slices.Equal(out[:3], []uint32{1, 3, 2}) || !slices.Equal(list[:4], []uint32{40, 7, 0, 1 << 31}) {
			t.Fatalf("%d words, numbers %v, list %v", n, out, list)
		}
		if n := Number(nil, nil, nil, 4, 10, table); n != 4 {
			t.Errorf("no words: %d", n)
		}
	})
}

// TestNumberOverflows numbers words of one bucket, the last one: they go on in the first bucket.
func TestNumberOverflows(t *testing.T) {
	const buckets = 4
	var words []uint32
	for w := uint32(0); len(words) < 2*BucketPlaces; w++ {
		if bucketOf(w, buckets) == buckets-1 {
			words = append(words, w)
		}
	}
	want := make([]uint32, len(words))
	for i := range want {
		want[i] = uint32(i)
	}
	eachKind(t, func(t *testing.T) {
		table, list, out := make([]uint32, buckets*BucketWords), make([]uint32, len(words)+4), make([]uint32, len(words))
		n := Number(out, words, list, 0, 1, table)
		if n != uint32(len(words)) || !slices.Equal(out, want) {
			t.Fatalf("%d words, numbers %v", n, out)
		}
		if slices.Contains(table[(buckets-1)*BucketWords+BucketPlaces:], 0) || slices.Contains(table[BucketPlaces:BucketWords], 0) {
			t.Errorf("the last bucket and the first are not full: %v", table)
		}
		if n := Number(out[:3], words[13:], list, n, 1, table); n != uint32(len(words)) || !slices.Equal(out[:3], want[13:]) {
			t.Fatalf("again: %d words, numbers %v", n, out[:3])
		}
	})
}

// TestNumber compares with a map: several lists into one table, then another base, which empties it. Out may be the
// words.
func TestNumber(t *testing.T) {
	eachKind(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			most := rapid.SampledFrom([]uint32{7, 100, 1<<32 - 1}).Draw(t, "most")
			lists := rapid.SliceOfN(rapid.SliceOfN(rapid.Uint32Range(0, most), 0, 90), 1, 5).Draw(t, "lists")
			all := 0
			for _, words := range lists {
				all += len(words)
			}
			buckets := 2
			for buckets*BucketPlaces < 2*all {
				buckets *= 2
			}
			table := make([]uint32, buckets*BucketWords)
			base := rapid.Uint32Range(1, 1<<32-1-2*uint32(all)).Draw(t, "base")
			for range 2 {
				want, list, n := map[uint32]uint32{}, make([]uint32, all+1), uint32(0)
				for _, words := range lists {
					out := slices.Clone(words)
					n = Number(out, out, list, n, base, table)
					for i, w := range words {
						if _, ok := want[w]; !ok {
							want[w] = uint32(len(want))
						}
						if out[i] != want[w] || list[out[i]] != w {
							t.Fatalf("word %d has number %d, want %d", w, out[i], want[w])
						}
					}
				}
				if int(n) != len(want) {
					t.Fatalf("%d words, want %d", n, len(want))
				}
				base += n
			}
		})
	})
}

// BenchmarkNumber numbers words of which most are new.
func BenchmarkNumber(b *testing.B) {
	const n, places = 1 << 19, 1 << 20
	words, out, list := make([]uint32, n), make([]uint32, n), make([]uint32, n+1)
	for i := range words {
		words[i] = uint32(i) * 2654435761 >> 11
	}
	benchEach(b, func(b *testing.B) {
		table, base := make([]uint32, 2*places), uint32(1)
		for b.Loop() {
			if base > 1<<31 {
				clear(table)
				base = 1
			}
			base += Number(out, words, list, 0, base, table)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/word")
	})
}
