package render

import (
	"fmt"
	"strconv"
	"time"

	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
)

// status says how far a task is: "12/40 batches · 3.2/s · 9s left". A total of
// 0 is unknown.
func status(done, total int64, unit progress.Unit, elapsed time.Duration) string {
	s := amount(done, unit)
	if total > 0 {
		s = share(done, total) + " · " + ofTotal(done, total, unit)
	}
	secs := elapsed.Seconds()
	if done <= 0 || secs <= 0 {
		return s
	}
	rate := float64(done) / secs
	s += " · " + perSecond(rate, unit)
	if left := total - done; left > 0 {
		s += " · " + short(time.Duration(float64(left)/rate*float64(time.Second))) + " left"
	}
	return s
}

// summary says what a finished task did: "40 batches in 12.5s (3.2/s)".
func summary(done int64, unit progress.Unit, elapsed time.Duration) string {
	s := amount(done, unit) + " in " + short(elapsed)
	if secs := elapsed.Seconds(); done > 0 && secs >= 0.1 {
		s += " (" + perSecond(float64(done)/secs, unit) + ")"
	}
	return s
}

func share(done, total int64) string {
	return fmt.Sprintf("%3d%%", min(100, int64(100*float64(done)/float64(total))))
}

func amount(n int64, unit progress.Unit) string {
	if unit == progress.Bytes {
		return budget.FormatBytes(n)
	}
	return count(n) + " " + string(unit)
}

func ofTotal(done, total int64, unit progress.Unit) string {
	if unit == progress.Bytes {
		return budget.FormatBytes(done) + " of " + budget.FormatBytes(total)
	}
	return count(done) + " of " + amount(total, unit)
}

func perSecond(rate float64, unit progress.Unit) string {
	if unit == progress.Bytes {
		return budget.FormatBytes(int64(rate)) + "/s"
	}
	if rate < 10 {
		return fmt.Sprintf("%.1f/s", rate)
	}
	return count(int64(rate)) + "/s"
}

// count writes a number so that a line's width stays bounded.
func count(n int64) string {
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

// short writes a duration for people: 0.4s, 12.5s, 3m20s, 2h05m.
func short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}
