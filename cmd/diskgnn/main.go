// Command diskgnn trains graph neural networks on graphs whose features do not
// fit in memory. Its commands are the stages of one pipeline, which meet at
// directories:
//
//	generate | import        presample              pack               train
//	source ─────► DATASET ───────► SAMPLES ───────► PACK ───────► RUN
//
// This package holds flags, the configuration file, output and exit codes; what
// the stages do is theirs. docs/cli.md is its reference.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/iostack/cufile"
)

func main() {
	if cufile.Child() {
		return
	}
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

// run is the whole program: it returns the exit code.
func run(args []string, stdout, stderr io.Writer) (code int) {
	defer func() {
		if p := recover(); p != nil {
			code = report(stdout, stderr, "diskgnn", fmt.Sprintf("internal error: %v", p), exitInternal, asksForJSON(args))
			fmt.Fprintf(stderr, "%s", debug.Stack())
		}
	}()
	ctx, stop := interruptible(context.Background(), func(message string) {
		os.Exit(report(stdout, stderr, "diskgnn", message, exitInterrupted, asksForJSON(args)))
	})
	defer stop()
	g := &globals{stdout: stdout, stderr: stderr}
	app := newApp(g)
	err := app.RunContext(ctx, arrange(app, args))
	if err == nil {
		return exitDone
	}
	if context.Cause(ctx) != nil {
		err = interrupted(err)
	}
	return g.fail(err, g.json || asksForJSON(args))
}

// grace is how long a stage may take to abandon its step after a signal. What
// it leaves behind is resumable at any instant, so leaving it then is safe.
const grace = 1900 * time.Millisecond

// again says how to go on, to whoever does not know which stage was left.
const again = "run the same command again to resume (train: with --resume)"

// interruptible returns a context that the first SIGINT or SIGTERM cancels. A
// second one, or a stage that does not stop in time, has leave end the process at
// once.
func interruptible(parent context.Context, leave func(message string)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over := make(chan struct{})
	go func() {
		select {
		case <-over:
			return
		case <-signals:
			cancel(fault.ErrInterrupted)
		}
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case <-over:
		case <-signals:
			leave("interrupted again: left at once; " + again)
		case <-late.C:
			leave("interrupted: left in the middle of a step; " + again)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(over)
		cancel(nil)
	}
}

// oneLine joins the lines of an error, so that a script finds one message.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}
