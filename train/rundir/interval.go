package rundir

import (
	"strconv"
	"strings"
	"time"

	"diskgnn/internal/fault"
)

// Interval is the interval between checkpoints: a number of batches, or a time, in which case long
// epochs end with a checkpoint as well; zero means only the ends of epochs.
type Interval struct {
	Time    time.Duration
	Batches int
}

// epochGap is the least time between a checkpoint and one at the end of an epoch, so that
// checkpoints of short epochs cost next to nothing.
const epochGap = 10 * time.Second

// ParseInterval reads "10m", "1h30m", "500" and "0".
func ParseInterval(s string) (Interval, error) {
	if n, err := strconv.Atoi(strings.ReplaceAll(s, "_", "")); err == nil && n >= 0 {
		return Interval{Batches: n}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return Interval{Time: d}, nil
	}
	return Interval{}, fault.New(fault.ErrUsage, "%q is neither a time (10m, 1h) nor a number of batches (500)", s)
}

// String returns a text for ParseInterval, without units that are zero.
func (i Interval) String() string {
	if i.Time == 0 {
		return strconv.Itoa(i.Batches)
	}
	s := i.Time.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes String's text, for run.json.
func (i Interval) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads MarshalText's text.
func (i *Interval) UnmarshalText(b []byte) (err error) {
	*i, err = ParseInterval(string(b))
	return err
}

// Due reports whether a checkpoint is due after batches of the run, with step batches in the latest
// step, and the time since the last checkpoint. epochEnds says that an epoch ends here.
func (i Interval) Due(batches, step int, since time.Duration, epochEnds bool) bool {
	switch {
	case i.Batches > 0:
		return !epochEnds && batches/i.Batches > (batches-step)/i.Batches
	case i.Time > 0:
		return since >= i.Time || epochEnds && since >= epochGap
	}
	return epochEnds
}
