package kernel

import (
	"fmt"
	"math"
	"math/bits"
)

// Time is a duration of virtual time, or a moment as the duration since the simulation's beginning, in
// picoseconds. It reaches 106 days.
type Time int64

// Units of time.
const (
	Picosecond  Time = 1
	Nanosecond       = 1000 * Picosecond
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond
)

// Never is after all events.
const Never Time = math.MaxInt64

// FromSeconds returns a duration of s seconds, rounded to the nearest picosecond. A duration beyond
// the range of Time, or NaN, is Never.
func FromSeconds(s float64) Time {
	ps := math.Round(s * float64(Second))
	if !(ps < math.MaxInt64) {
		return Never
	}
	return Time(ps)
}

// Seconds returns the time in seconds.
func (t Time) Seconds() float64 { return float64(t) / float64(Second) }

// String writes the time in seconds.
func (t Time) String() string { return fmt.Sprintf("%g s", t.Seconds()) }

// Rate is a number of units per second, such as bytes or requests. Zero means no limit.
type Rate int64

// For returns the time of n units at the rate, rounded to the nearest picosecond. n must not be negative.
// A duration beyond the range of Time is Never.
func (r Rate) For(n int64) Time {
	if r <= 0 || n <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(Second))
	lo, carry := bits.Add64(lo, uint64(r)/2, 0)
	if hi += carry; hi >= uint64(r) {
		return Never
	}
	q, _ := bits.Div64(hi, lo, uint64(r))
	if q > math.MaxInt64 {
		return Never
	}
	return Time(q)
}
