package collective

import (
	"fmt"
	"slices"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/units"
)

// Limits bound the times after which a rank is taken for lost.
type Limits struct {
	Join     time.Duration // for all ranks to join
	Greeting time.Duration // for a connection to prove that it is of the run: at the other end may be no rank
	Silence  time.Duration // between two signs of life of a rank
	// A step of a rank may take Step, or Factor times the median of the latest steps, whichever
	// is more.
	Step   time.Duration
	Factor int
	Beat   time.Duration // between two beats
	Drain  time.Duration // for the other ranks to read the last frames, when a group ends
}

// Usual are the limits of runs.
var Usual = Limits{Join: 10 * time.Minute, Greeting: 5 * time.Second, Silence: 30 * time.Second, Step: time.Minute, Factor: 20, Beat: time.Second, Drain: 2 * time.Second}

// watch records the durations of steps, and finds a rank that exceeds the time limit of a step. The
// caller passes the times.
type watch struct {
	limits  Limits
	took    []time.Duration // of the latest steps, a ring
	next    int
	sorted  []time.Duration
	waiting int       // rank that is waited for in a step; −1: none
	since   time.Time // since when
}

const medianOf = 63 // steps

func newWatch(l Limits) watch {
	return watch{limits: l, took: make([]time.Duration, 0, medianOf), sorted: make([]time.Duration, 0, medianOf), waiting: -1}
}

// stepped adds the duration of a step.
func (w *watch) stepped(took time.Duration) {
	if len(w.took) < medianOf {
		w.took = append(w.took, took)
		return
	}
	w.took[w.next] = took
	w.next = (w.next + 1) % medianOf
}

// limit returns how long a step may take.
func (w *watch) limit() time.Duration {
	if len(w.took) == 0 {
		return w.limits.Step
	}
	w.sorted = append(w.sorted[:0], w.took...)
	slices.Sort(w.sorted)
	return max(w.limits.Step, time.Duration(w.limits.Factor)*w.sorted[len(w.sorted)/2])
}

// late describes the rank that exceeds the time limit, "" if none does.
func (w *watch) late(now time.Time) string {
	if w.waiting < 0 {
		return ""
	}
	if limit := w.limit(); now.Sub(w.since) > limit {
		return fmt.Sprintf("its step takes longer than %s", units.Seconds(limit.Seconds()))
	}
	return ""
}

// silent describes a rank that was last heard too long ago, "" if it was heard recently.
func (w *watch) silent(heard, now time.Time) string {
	if now.Sub(heard) <= w.limits.Silence {
		return ""
	}
	return silentFor(w.limits.Silence)
}

func silentFor(limit time.Duration) string {
	return fmt.Sprintf("it sent nothing for %s", units.Seconds(limit.Seconds()))
}

// Lost is the error of a group that lost a rank before the end of the run. It is of kind
// fault.ErrInterrupted: the run can be resumed from its latest checkpoint.
type Lost struct {
	Rank, World int
	Address     string // as this rank sees it; "" for a rank that ends itself, and for groups of one process
	Why         string
}

func (l *Lost) Error() string {
	at := ""
	if l.Address != "" {
		at = " (" + l.Address + ")"
	}
	return fmt.Sprintf("rank %d of %d%s is lost: %s", l.Rank, l.World, at, l.Why)
}

// Unwrap returns the kind.
func (l *Lost) Unwrap() error { return fault.ErrInterrupted }
