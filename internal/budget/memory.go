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

// DefaultShare is the share of the machine's or the cgroup's memory that a stage uses without --memory.
const DefaultShare = 0.8

// Default returns the memory budget in bytes of a stage without --memory, and the text for the total of
// which it is a share, such as "the machine's 16.00 GiB".
func Default() (bytes int64, of string) {
	return share(available(ofCgroup, memlimit.FromSystem))
}

// ofCgroup returns the cgroup's memory limit. Its files are read once: every command's defaults call it.
var ofCgroup = sync.OnceValues(memlimit.FromCgroup)

func share(all int64, of string) (int64, string) {
	if all == 0 {
		all, of = 4<<30, "the machine's "+FormatBytes(4<<30)
	}
	return int64(DefaultShare * float64(all)), of
}

// Beyond returns the text for the limit that a budget of memory bytes exceeds, or "". The kernel ends a
// process at this limit, before the budget is used up.
func Beyond(memory int64) string { return beyond(memory, ofCgroup, memlimit.FromSystem) }

func beyond(memory int64, cgroup, machine func() (uint64, error)) string {
	if all, of := available(cgroup, machine); all > 0 && memory > all {
		return of
	}
	return ""
}

// available returns the memory in bytes that the process can have, 0 if unknown, and the text for the
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

// Check returns an error of kind fault.ErrBudget if need exceeds have, both in bytes. The first argument
// names the work in the error.
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

// Now returns the memory of the process. Figures that the kernel does not report are 0.
func Now() Usage {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return Usage{}
	}
	return Usage{Anon: field(b, "RssAnon:"), Locked: field(b, "VmLck:"), RSS: field(b, "VmRSS:"), Peak: field(b, "VmHWM:")}
}

// field finds "Name:   123 kB" and returns the bytes, 0 if there is no such line.
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

// watchEvery is the interval of samples. Stages allocate their buffers once and keep them, so rare
// samples see their memory.
const watchEvery = 25 * time.Millisecond

// StartWatch starts sampling on a goroutine, until Stop or the end of the context.
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

// Reserve is the memory in bytes that every stage plans for in addition to its buffers: the program, Go's
// runtime and uncollected garbage, stacks of goroutines and threads, open files, and the bounce buffers
// of a storage stack. It does not grow with the graph, the model or the flags.
//
// TestReserve of package commands measures it (go test ./commands -run TestReserve -v): on a tiny graph
// with very small buffers, the commands hold 4 to 20 MiB on two cores. The rest is for garbage, and for
// machines with many cores, since Go's runtime keeps memory for each core.
const Reserve = 32 << 20

// DriverReserve is the further memory in bytes for a GPU: the host memory of its driver and cuBLAS.
const DriverReserve = 128 << 20

// foreignReserve is the part of the Reserve that Go's garbage collector does not count: the program's
// data, stacks of threads, bounce buffers.
const foreignReserve = Reserve / 2

// LimitHeap sets the memory limit of Go's garbage collector for a budget of memory bytes, where buffers
// outside the heap take outside bytes. The heap gets the rest without foreignReserve, but at least the
// remaining part of the Reserve. undo restores the previous limit.
func LimitHeap(memory, outside int64) (undo func()) {
	old := debug.SetMemoryLimit(max(memory-outside, Reserve) - foreignReserve)
	return func() { debug.SetMemoryLimit(old) }
}

// LimitGarbage lets Go's garbage collector begin when the heap has grown by percent of the memory that was in use, or sooner
// if that is set. undo restores the previous setting.
func LimitGarbage(percent int) (undo func()) {
	old := debug.SetGCPercent(percent)
	if old >= 0 && old < percent {
		debug.SetGCPercent(old)
	}
	return func() { debug.SetGCPercent(old) }
}
