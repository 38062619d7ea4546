package kernel

import "math/bits"

const (
	// BucketPlaces is the number of words that a bucket of Number has places for.
	BucketPlaces = 8
	// BucketWords is the length of a bucket: the words, then their numbers. It is a cache line.
	BucketWords = 2 * BucketPlaces
)

// Number gives each of the words a number: words that it finds in the table have one, and others get the next numbers
// from n on, are put into the table, and are appended at list[n:]. It writes the numbers to out, and returns the next
// n.
//
// table is a hash table of 2 to 2³¹ buckets, a power of two. An entry is a word and base plus its number. An entry
// below base is free: so a larger base empties the table. base is above 0. A word is in its bucket, or in the next ones
// where that is full. One table is for one Kind. Half of all places or more must be free, also for the new words. list[n:] has room for
// one more than the words; elements behind the new ones may change.
func Number(out, words, list []uint32, n, base uint32, table []uint32) uint32 {
	if len(words) == 0 {
		return n
	}
	out = out[:len(words)]
	if level == plain {
		return numberPlain(out, words, list, n, base, table)
	}
	_ = list[int(n)+len(words)]
	return numberSIMD(out, words, list, n, base, table)
}

// bucketShift returns the shift of bucketOf for a table with the given number of words.
func bucketShift(words int) int { return 64 - bits.TrailingZeros(uint(words/BucketWords)) }

// numberPlain fills the places of a bucket from the one that further bits of the hash name, which is near the word more
// often than the first one. The kernels look at all of them, and fill the first.
func numberPlain(out, words, list []uint32, n, base uint32, table []uint32) uint32 {
	shift, last := bucketShift(len(table)), len(table)/BucketWords-1
	for i, w := range words {
		h := int(uint64(w) * 0x9E3779B97F4A7C15 >> ((shift - 3) & 63)) // Fibonacci hashing
		b := h / BucketPlaces
	search:
		for ; ; b = (b + 1) & last {
			bucket := (*[BucketWords]uint32)(table[b*BucketWords:])
			for k := range BucketPlaces {
				place := (h + k) % BucketPlaces
				num := min(bucket[BucketPlaces+place]-base, n) // n: free, as an entry below base makes a large difference
				if num < n && bucket[place] != w {
					continue
				}
				bucket[place], bucket[BucketPlaces+place] = w, base+num
				list[n], out[i] = w, num
				if num == n {
					n++
				}
				break search
			}
		}
	}
	return n
}
