// Package units formats values for messages: durations, counts and rates, and words of commands that can
// be copied into a shell (ShellWord). budget.FormatBytes formats sizes.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"diskgnn/internal/budget"
)

// Duration formats a duration: 0 s, 12 µs, 340 ms, 9.69 s, 57.2 s, 1 min 25 s, 30 min, 2 h 5 min. From a
// minute on, a second unit of 0 is left out.
func Duration(d time.Duration) string {
	if d <= -500 { // durations that round to 0 have no sign
		return "-" + Duration(max(-d, 0)) // the negation of the least duration overflows
	}
	if d == 0 {
		return "0 s"
	}
	// Rounding may carry into the next unit.
	if r := d.Round(time.Microsecond); r < time.Millisecond {
		return fmt.Sprintf("%d µs", r/time.Microsecond)
	}
	if r := d.Round(time.Millisecond); r < time.Second {
		return fmt.Sprintf("%d ms", r/time.Millisecond)
	}
	if r := d.Round(10 * time.Millisecond); r < 10*time.Second {
		return fmt.Sprintf("%.2f s", r.Seconds())
	}
	if r := d.Round(100 * time.Millisecond); r < time.Minute {
		return fmt.Sprintf("%.1f s", r.Seconds())
	}
	if r := d.Round(time.Second); r < time.Hour {
		return two(r, time.Minute, "min", time.Second, "s")
	}
	return two(d.Round(time.Minute), time.Hour, "h", time.Minute, "min")
}

// two formats a duration in two units, or in the larger one alone if it is a multiple of it.
func two(d, large time.Duration, of string, small time.Duration, and string) string {
	s := fmt.Sprintf("%d %s", d/large, of)
	if rest := d % large / small; rest > 0 {
		s += fmt.Sprintf(" %d %s", rest, and)
	}
	return s
}

// Seconds formats a duration in seconds like Duration.
func Seconds(s float64) string {
	ns := s * float64(time.Second)
	switch {
	case math.IsNaN(s):
		return "–"
	case ns >= math.MaxInt64:
		return Duration(math.MaxInt64)
	case ns <= -math.MaxInt64:
		return Duration(-math.MaxInt64)
	}
	return Duration(time.Duration(ns))
}

// Count formats a number with separated thousands: 1,234,567.
func Count[T int | int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Of formats a number with its noun, which is given in the singular: 1 epoch, 2,000 batches.
func Of[T int | int64](n T, noun string) string {
	if n != 1 {
		for _, end := range []string{"s", "x", "tch", "sh"} {
			if strings.HasSuffix(noun, end) {
				noun += "e"
				break
			}
		}
		noun += "s"
	}
	return Count(n) + " " + noun
}

// Short formats a number of at least 0 in at most seven characters: 99999, 100k, 1.2M, 9999.9M, 10.0G.
// Numbers from 10¹³ on, and a few just below 10¹⁰ and 10¹³, which round up, take eight or more.
func Short(n int64) string {
	switch {
	case n >= 1e10:
		return fmt.Sprintf("%.1fG", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	case n >= 1e5:
		return fmt.Sprintf("%.0fk", float64(n)/1e3)
	}
	return strconv.FormatInt(n, 10)
}

// PerSecond formats a rate per second: 3.2/s, 12/s, 1.2M/s.
func PerSecond(rate float64) string {
	if rate < 10 {
		return fmt.Sprintf("%.1f/s", rate)
	}
	return Short(int64(rate)) + "/s"
}

// BytesPerSecond formats a rate in bytes per second: 1.86 GiB/s.
func BytesPerSecond(rate float64) string { return budget.FormatBytes(int64(rate)) + "/s" }
