package rate

import (
	"math/bits"
	"time"
)

// Latencies counts durations in buckets that are at most 1/16 wide of what they hold. The zero
// value is empty.
type Latencies struct {
	counts [64 << subBits]int64
	n      int64
	most   time.Duration
}

const subBits = 4

// Add counts a duration; a negative one as none.
func (l *Latencies) Add(d time.Duration) {
	d = max(0, d)
	shift := max(0, bits.Len64(uint64(d))-subBits-1)
	l.counts[shift<<subBits+int(d>>shift)]++
	l.n++
	l.most = max(l.most, d)
}

func (l *Latencies) add(o *Latencies) {
	for i, n := range o.counts {
		l.counts[i] += n
	}
	l.n += o.n
	l.most = max(l.most, o.most)
}

// Count returns how many there are.
func (l *Latencies) Count() int64 { return l.n }

// Max returns the longest.
func (l *Latencies) Max() time.Duration { return l.most }

// Quantile returns a duration that a share q of them does not exceed, up to the width of a
// bucket; 0 of none.
func (l *Latencies) Quantile(q float64) time.Duration {
	left := int64(q*float64(l.n) + 0.5)
	for b, n := range l.counts {
		if left -= n; left <= 0 && n > 0 {
			shift := max(0, b>>subBits-1)
			return min(l.most, time.Duration((b-shift<<subBits+1)<<shift-1))
		}
	}
	return l.most
}
