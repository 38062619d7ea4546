package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"diskgnn/internal/fault"
)

// ownProcess sets what holds for the whole process, before any command.
func ownProcess() {
	// A death of the runtime's own, as when no thread or no memory can be had, ends the process by
	// SIGABRT. Its usual exit code, 2, is that of wrong usage, after which schedulers give up.
	debug.SetTraceback("crash")
	// A write to a pipe that nobody reads fails by EPIPE, and no signal ends the work. The
	// signal is caught, not ignored, so that processes begun by this one do not inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// grace is how long a stage may take to abandon its step after a signal. What
// it leaves behind is resumable at any instant, so leaving it then is safe.
const grace = 1900 * time.Millisecond

// insistent are the signals of which a second one ends the process at once. Others come
// twice by themselves: when a session ends, its shell and the kernel send a SIGHUP each,
// and schedulers warn by a signal before they end a job by another one.
var insistent = []os.Signal{os.Interrupt, syscall.SIGTERM}

func insists(s os.Signal) bool { return slices.Contains(insistent, s) }

// interrupting returns the signals that interrupt: of a session that ends, unless the
// program was started so that it outlives its session (nohup), and of schedulers that
// warn before time is up, too.
func interrupting() []os.Signal {
	list := append([]os.Signal{syscall.SIGUSR1}, insistent...)
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// interruptible returns a context that the first signal cancels. A second one of those
// that insist, or a stage that does not stop in time, has leave end the process at once.
func interruptible(parent context.Context, leave func(message string)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 8) // more than come while one is looked at
	signal.Notify(signals, interrupting()...)
	over := make(chan struct{})
	go func() {
		defer fault.Crash()
		select {
		case <-over:
			return
		case <-signals:
			cancel(fault.ErrInterrupted)
		}
		late := time.NewTimer(grace)
		defer late.Stop()
		for {
			select {
			case <-over:
				return
			case s := <-signals:
				if insists(s) {
					leave("interrupted again: left at once")
					return
				}
			case <-late.C:
				leave("interrupted: left in the middle of a step")
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(over)
		cancel(nil)
	}
}
