package budget

import (
	"bytes"
	"context"
	"os"
	"runtime/debug"
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

// Default returns the memory in bytes that a stage may hold when the user names none, and the name
// of the total of which it is a share.
func Default() (bytes int64, of string) {
	return share(available(memlimit.FromCgroup, memlimit.FromSystem))
}

func share(all int64, of string) (int64, string) {
	if all == 0 {
		all, of = 4<<30, "the machine's "+FormatBytes(4<<30)
	}
	return int64(DefaultShare * float64(all)), of
}

// Beyond names the limit that a budget exceeds, or returns "". The kernel ends a process at that
// limit, before the budget is used up.
func Beyond(memory int64) string { return beyond(memory, memlimit.FromCgroup, memlimit.FromSystem) }

func beyond(memory int64, cgroup, machine func() (uint64, error)) string {
	if all, of := available(cgroup, machine); all > 0 && memory > all {
		return of
	}
	return ""
}

// available returns the memory that the process can have, 0 if it is not known, and the name of the
// limit.
func available(cgroup, machine func() (uint64, error)) (bytes int64, of string) {
	sys, err := machine()
	if err != nil {
		sys = 0
	}
	if limit, err := cgroup(); err == nil && limit > 0 && limit < 1<<60 && (sys == 0 || limit < sys) {
		return int64(limit), "the cgroup's " + FormatBytes(int64(limit))
	}
	return int64(sys), "the machine's " + FormatBytes(int64(sys))
}

// Check refuses work that needs more than the budget.
func Check(what string, need, have int64) error {
	if need <= have {
		return nil
	}
	return fault.New(fault.ErrBudget, "%s needs %s of memory, --memory allows %s", what, FormatNeed(need), FormatBytes(have))
}

// Usage is the memory of the process as the kernel counts it, in bytes.
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

// watchEvery is short enough to see a stage's memory, since stages take their buffers once and keep
// them, and long enough to cost nothing.
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

// Reserve is the memory that every stage plans for beside its buffers, in bytes: the program itself,
// Go's runtime and the garbage that its collector has not come to yet, stacks of goroutines and
// threads, open files, the bounce buffers of a storage stack. It does not grow with the graph, the
// model or the flags.
//
// TestReserve of cmd/diskgnn measures it (go test ./cmd/diskgnn -run TestReserve -v): on a tiny
// graph, where buffers are next to nothing, the commands hold 4 to 20 MiB on two cores. The rest is
// for garbage, and for machines with many cores: Go's runtime keeps memory for each.
const Reserve = 32 << 20

// DriverReserve comes on top where a GPU computes: the host memory of its driver and cuBLAS, in
// bytes, once they are used.
const DriverReserve = 128 << 20

// foreignReserve is the part of the Reserve that Go's collector does not count: the
// program's data, stacks of threads, bounce buffers.
const foreignReserve = Reserve / 2

// LimitHeap makes Go's collector keep to a budget of memory bytes, of which buffers outside its heap
// take outside bytes. The heap gets the rest, less the part of the Reserve that the collector does
// not count, and at least the other part. The returned function restores the former limit.
func LimitHeap(memory, outside int64) (undo func()) {
	old := debug.SetMemoryLimit(max(memory-outside, Reserve) - foreignReserve)
	return func() { debug.SetMemoryLimit(old) }
}
