package budget

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"diskgnn/internal/fault"
)

// DefaultShare is the part of the machine's or the cgroup's memory that a stage
// takes when --memory is not given.
const DefaultShare = 0.8

// Default returns the memory that a stage may hold when the user names none,
// and says what it is a share of.
func Default() (bytes int64, of string) {
	if limit, err := memlimit.FromCgroup(); err == nil && limit > 0 && limit < 1<<60 {
		if sys, err := memlimit.FromSystem(); err != nil || limit < sys {
			return int64(DefaultShare * float64(limit)), "the cgroup's " + FormatBytes(int64(limit))
		}
	}
	sys, err := memlimit.FromSystem()
	if err != nil || sys == 0 {
		sys = 4 << 30
	}
	return int64(DefaultShare * float64(sys)), "the machine's " + FormatBytes(int64(sys))
}

// Check refuses work that needs more than the budget.
func Check(what string, need, have int64) error {
	if need <= have {
		return nil
	}
	return fault.New(fault.ErrBudget, "%s needs %s of memory, --memory allows %s", what, FormatBytes(need), FormatBytes(have))
}

// Usage is what the kernel says the process holds, in bytes.
type Usage struct {
	Anon   int64 // anonymous resident memory
	Locked int64 // locked memory, mapped files included
	RSS    int64 // all resident memory, mapped files included
	Peak   int64 // the highest RSS so far
}

// Now reads the process's memory. It returns zeros where the kernel does not
// tell.
func Now() Usage {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return Usage{}
	}
	return Usage{Anon: field(b, "RssAnon:"), Locked: field(b, "VmLck:"), RSS: field(b, "VmRSS:"), Peak: field(b, "VmHWM:")}
}

// field finds "Name:   123 kB" and returns bytes.
func field(status []byte, name string) int64 {
	_, rest, ok := bytes.Cut(status, append([]byte("\n"), name...))
	if !ok {
		return 0
	}
	fields := bytes.Fields(rest[:min(len(rest), 64)])
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// Watch samples the process's memory until Stop.
type Watch struct {
	peak   atomic.Int64
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// watchEvery is short enough to see what a stage holds, since stages take their
// buffers once and keep them, and long enough to cost nothing.
const watchEvery = 25 * time.Millisecond

// StartWatch begins sampling.
func StartWatch(ctx context.Context) *Watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{cancel: cancel}
	w.sample()
	w.done.Go(func() {
		defer fault.Crash()
		t := time.NewTicker(watchEvery)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				w.sample()
			}
		}
	})
	return w
}

func (w *Watch) sample() {
	u := Now()
	if n := u.Anon + u.Locked; n > w.peak.Load() {
		w.peak.Store(n)
	}
}

// Stop ends the sampling and returns the peak of anonymous plus locked memory,
// and the kernel's own peak of resident memory. It may be called again.
func (w *Watch) Stop() (peakAnon, peakRSS int64) {
	w.cancel()
	w.done.Wait()
	w.sample()
	return w.peak.Load(), Now().Peak
}
