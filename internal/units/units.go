// Package units writes values as messages show them to people: durations, counts and rates, and
// words of commands that can be copied into a shell (ShellWord). budget.FormatBytes writes sizes.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"diskgnn/internal/budget"
)

// Duration writes a duration: 0 s, 12 µs, 340 ms, 9.69 s, 57.2 s, 1 min 25 s, 30 min, 2 h 5 min.
// From a minute on, a second unit of which there is none is left out.
func Duration(d time.Duration) string {
	if d <= -500 { // what is nearer to 0 has no sign
		return "-" + Duration(max(-d, 0)) // of the least there is no opposite
	}
	if d == 0 {
		return "0 s"
	}
	// Rounding may lead into the next unit.
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

// two writes a duration in two units, or in the larger one alone if it is a multiple of it.
func two(d, large time.Duration, of string, small time.Duration, and string) string {
	s := fmt.Sprintf("%d %s", d/large, of)
	if rest := d % large / small; rest > 0 {
		s += fmt.Sprintf(" %d %s", rest, and)
	}
	return s
}

// Seconds writes a duration in seconds as Duration does.
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

// Count writes a number with its thousands apart: 1,234,567.
func Count[T int | int64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Of writes a number with its noun, which is given in the singular: 1 epoch, 2,000 batches.
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

// Short writes a number of at least 0 in six characters at most, unless it is of ten
// thousand billions and more: 99999, 100k, 1.2M, 10.0G.
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

// PerSecond writes how many there are of something in a second: 3.2/s, 12/s, 1.2M/s.
func PerSecond(rate float64) string {
	if rate < 10 {
		return fmt.Sprintf("%.1f/s", rate)
	}
	return Short(int64(rate)) + "/s"
}

// BytesPerSecond writes a rate in bytes a second: 1.86 GiB/s.
func BytesPerSecond(rate float64) string { return budget.FormatBytes(int64(rate)) + "/s" }
