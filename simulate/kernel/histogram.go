package kernel

import (
	"math"
	"math/bits"
)

// Histogram counts durations in buckets with a width of at most 1/16 of their durations. The zero value is
// empty. Its memory does not grow.
type Histogram struct {
	counts [buckets]int64
	n      int64
	sum    float64 // in picoseconds; may exceed the range of Time
	most   Time
}

const (
	subBits = 4
	buckets = (64 - subBits) << subBits
)

// Add counts a duration, which must not be negative.
func (h *Histogram) Add(t Time) {
	h.counts[bucket(t)]++
	h.n++
	h.sum += float64(t)
	h.most = max(h.most, t)
}

// bucket returns the bucket of a duration: durations below 32 ps have one each, longer ones share the
// bucket of their highest five bits.
func bucket(t Time) int {
	shift := max(0, bits.Len64(uint64(t))-subBits-1)
	return shift<<subBits + int(t>>shift)
}

// ceiling returns the longest duration of a bucket.
func ceiling(b int) Time {
	if b < 2<<subBits {
		return Time(b)
	}
	shift := b>>subBits - 1
	return Time(b-shift<<subBits+1)<<shift - 1
}

// Count returns the number of durations.
func (h *Histogram) Count() int64 { return h.n }

// Mean returns the mean of the durations, rounded down, or 0 if there are none. It is exact if their sum
// is below 2⁵³ ps.
func (h *Histogram) Mean() Time {
	if h.n == 0 {
		return 0
	}
	return Time(h.sum / float64(h.n))
}

// Quantile returns an upper bound of the q-quantile of the durations, with q from 0 to 1: the end of its
// bucket, at most 1/16 too long.
func (h *Histogram) Quantile(q float64) Time {
	need := int64(math.Ceil(q * float64(h.n)))
	seen := int64(0)
	for b, c := range h.counts {
		if seen += c; c > 0 && seen >= need {
			return min(ceiling(b), h.most)
		}
	}
	return h.most
}
