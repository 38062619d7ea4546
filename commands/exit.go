package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/progress/render"
)

// Exit codes of the process. Scripts rely on them: docs/cli.md.
const (
	exitDone        = 0
	exitInternal    = 1 // a bug, or a failure without a code of its own, such as a GPU failure
	exitUsage       = 2 // flags, configuration, permissions, an output that exists
	exitInput       = 3 // bad or corrupt input, another version, another lineage
	exitSpace       = 4 // out of disk, memory or open files, or over the memory budget
	exitInterrupted = 5 // by a signal; the same command resumes, train with --resume, if it keeps anything
	exitLocked      = 6 // another process works on the same directory, or still makes an input
)

// exitCodes is searched in order. If several workers fail, cancellations must not hide the cause, so the
// kinds of causes come before the interruption.
var exitCodes = []struct {
	kind error
	code int
}{
	{fault.ErrLocked, exitLocked},
	{syscall.ENOSPC, exitSpace},
	{syscall.EDQUOT, exitSpace},
	{syscall.EFBIG, exitSpace},
	{syscall.EMFILE, exitSpace},
	{syscall.ENFILE, exitSpace},
	{syscall.ENOMEM, exitSpace},
	{fault.ErrBudget, exitSpace},
	{fault.ErrCorrupt, exitInput},
	{fault.ErrVersion, exitInput},
	{fault.ErrLineage, exitInput},
	{fault.ErrInput, exitInput},
	{fault.ErrExists, exitUsage},
	{fault.ErrUsage, exitUsage},
	{fault.ErrInterrupted, exitInterrupted},
	{context.Canceled, exitInterrupted},
	{fs.ErrNotExist, exitInput},
	{syscall.ENOTDIR, exitInput},
	{syscall.EISDIR, exitInput},
	{syscall.ELOOP, exitInput},
	{syscall.EIO, exitInput},
	{io.ErrUnexpectedEOF, exitInput}, // a file that became shorter while it was open
	{io.EOF, exitInput},
	{syscall.ENAMETOOLONG, exitUsage},
	{fs.ErrPermission, exitUsage},
	{syscall.EROFS, exitUsage},
}

func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if _, ok := errors.AsType[*fault.PanicError](err); ok {
		return exitInternal // also if the value of the panic is another error
	}
	for _, c := range exitCodes {
		if errors.Is(err, c.kind) {
			return c.code
		}
	}
	if _, ok := errors.AsType[cli.ExitCoder](err); ok {
		return exitUsage // only the flag library returns such errors, for unknown help topics
	}
	return exitInternal
}

// Values of command.resumes: advice after an interruption.
const (
	byItself = "run the same command again to resume"
	byFlag   = "run the same command again with --resume"
	nothing  = "nothing was kept"
)

// interrupted replaces the error of a cancellation by a message with the advice goOn. It returns other
// errors, and errors that already have an explanation, unchanged.
func interrupted(err error, goOn string) error {
	if errors.Is(err, context.Canceled) && exitCode(err) == exitInterrupted && !errors.Is(err, fault.ErrInterrupted) {
		return fault.New(fault.ErrInterrupted, "interrupted; %s", goOn)
	}
	return err
}

// remedies has advice for errors of the operating system.
var remedies = []struct {
	kind error
	text string
}{
	{syscall.EMFILE, "ulimit -n sets the limit of this process"},
	{syscall.ENFILE, "fs.file-max sets the limit of the machine"},
	{syscall.EFBIG, "ulimit -f and the file system limit the size of files"},
}

// withRemedy returns an error's text, with advice if there is any. resumes is the command's advice after
// an interruption, for a full disk.
func withRemedy(err error, resumes string) string {
	text := fault.Text(err)
	full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
	if full && !strings.Contains(text, " --resume") { // train names its checkpoint itself
		if resumes == nothing {
			resumes = "run the same command again"
		}
		return text + "; make room, then " + resumes
	}
	for _, r := range remedies {
		if errors.Is(err, r.kind) {
			return text + "; " + r.text
		}
	}
	return text
}

// fail reports an error in one line, followed by a panic's stack, and returns the exit code.
func (g *globals) fail(err error, asJSON bool) int {
	code := exitCode(err)
	name, message := "diskgnn", withRemedy(err, g.goOn())
	if g.command != "" {
		name += " " + g.command
		message = strings.TrimPrefix(message, g.command+": ") // stages name themselves
	}
	p, panicked := errors.AsType[*fault.PanicError](err)
	if panicked {
		message = "internal error: " + message
	}
	f := failure{Error: message, ExitCode: code}
	if e, ok := errors.AsType[*stepError](err); ok {
		f.Step, f.Steps = e.step, e.steps
	}
	stderr := g.stderr
	if g.progress == "json" {
		rep := render.Events(g.stderr)
		progress.Record(rep, "error", f)
		rep.Close()
		stderr = io.Discard
	}
	report(g.stdout, stderr, name, f, asJSON)
	if panicked {
		fmt.Fprintf(g.stderr, "%s", p.Stack)
	}
	return code
}

// failure is a command's error as JSON.
type failure struct {
	Error    string `json:"error"`
	ExitCode int    `json:"exit_code"`
	// Step is the failed command of a pipeline, and Steps describe the commands before it.
	Step  string         `json:"step,omitempty"`
	Steps []pipelineStep `json:"steps,omitempty"`
}

// report prints the error for people and for scripts, and returns the exit code.
func report(stdout, stderr io.Writer, name string, f failure, asJSON bool) int {
	fmt.Fprintf(stderr, "%s: %s\n", name, f.Error)
	if asJSON {
		b, err := json.Marshal(f)
		if err == nil {
			fmt.Fprintf(stdout, "%s\n", b)
		}
	}
	return f.ExitCode
}

// ownProcess sets up the whole process, before any command.
func ownProcess() {
	// A fatal error of Go's runtime, such as a lack of threads or memory, ends the process by
	// SIGABRT. Its usual exit code, 2, means wrong usage, after which schedulers give up.
	debug.SetTraceback("crash")
	// A write to a pipe without a reader then fails with EPIPE, and no signal ends the work. The
	// signal is caught, not ignored, so that child processes do not inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// grace is the time in which a stage must stop after a signal. Then the process ends, which is safe, since
// the output can be resumed from any state.
const grace = 1900 * time.Millisecond

// insistent lists the signals that end the process at once when they come twice. Other signals may come
// twice without intent: at the end of a session, the shell and the kernel each send SIGHUP, and
// schedulers send a warning before the signal that ends a job.
var insistent = []os.Signal{os.Interrupt, syscall.SIGTERM}

func insists(s os.Signal) bool { return slices.Contains(insistent, s) }

// interrupting returns the signals that interrupt a command. It includes SIGUSR1, the warning of
// schedulers before the time limit, and SIGHUP, unless the program was started with nohup.
func interrupting() []os.Signal {
	list := append([]os.Signal{syscall.SIGUSR1}, insistent...)
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// interruptible returns a context that the first signal cancels. After a second insistent signal,
// or if a stage does not stop in time, it calls leave, which ends the process at once.
func interruptible(parent context.Context, leave func(message string)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 8) // enough for the signals that arrive while one is handled
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
