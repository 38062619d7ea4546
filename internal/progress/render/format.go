package render

import (
	"fmt"
	"time"

	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/units"
)

// status returns the state of a task: "30% · 12 of 40 batches · 3.2/s · 9.00 s left". A total of 0 is
// unknown. A description of the task, said, replaces the amounts.
func status(done, total int64, unit progress.Unit, elapsed time.Duration, said string) string {
	s := amount(done, unit)
	switch {
	case total > 0 && said != "":
		s = share(done, total) + " · " + said
	case total > 0:
		s = share(done, total) + " · " + ofTotal(done, total, unit)
	case said != "":
		s += " · " + said
	}
	secs := elapsed.Seconds()
	if done <= 0 || secs <= 0 {
		return s
	}
	rate := float64(done) / secs
	s += " · " + perSecond(rate, unit)
	if left := total - done; left > 0 {
		s += " · " + units.Seconds(float64(left)/rate) + " left"
	}
	return s
}

// summary returns the totals of a finished task: "40 batches in 12.5 s (3.2/s)".
func summary(done int64, unit progress.Unit, elapsed time.Duration) string {
	s := amount(done, unit) + " in " + units.Duration(elapsed)
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
	return units.Short(n) + " " + string(unit)
}

func ofTotal(done, total int64, unit progress.Unit) string {
	if unit == progress.Bytes {
		return budget.FormatBytes(done) + " of " + budget.FormatBytes(total)
	}
	return units.Short(done) + " of " + amount(total, unit)
}

func perSecond(rate float64, unit progress.Unit) string {
	if unit == progress.Bytes {
		return units.BytesPerSecond(rate)
	}
	return units.PerSecond(rate)
}
