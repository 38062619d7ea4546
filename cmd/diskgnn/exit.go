package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/progress/render"
)

// What the process ends with. Scripts rely on them: docs/cli.md.
const (
	exitDone        = 0
	exitInternal    = 1 // a bug, or a failure that nothing below names, such as a GPU's
	exitUsage       = 2 // flags, configuration, permissions, an output that exists
	exitInput       = 3 // bad or corrupt input, another version, another lineage
	exitSpace       = 4 // out of disk, memory or open files, or over the memory budget
	exitInterrupted = 5 // by a signal; the same command resumes, train with --resume, if it keeps anything
	exitLocked      = 6 // another process works on the same directory
)

// exitCodes is searched in order: when several workers fail, the cause comes
// before the cancellation that it brought on the others.
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
	{syscall.ENAMETOOLONG, exitUsage},
	{fs.ErrPermission, exitUsage},
	{syscall.EROFS, exitUsage},
}

func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if _, ok := errors.AsType[*fault.PanicError](err); ok {
		return exitInternal // whatever the value is
	}
	for _, c := range exitCodes {
		if errors.Is(err, c.kind) {
			return c.code
		}
	}
	if _, ok := errors.AsType[cli.ExitCoder](err); ok {
		return exitUsage // only the flag library makes these, of what it is asked
	}
	return exitInternal
}

// What a command that was interrupted leaves to do: its resumes. A command that says nothing
// keeps nothing of what it did.
const (
	byItself = "run the same command again to resume"
	byFlag   = "run the same command again with --resume"
	nothing  = "nothing was kept"
)

// interrupted explains a cancellation that a signal caused, and says how to go on. Other
// errors, and those that explain themselves, stay as they are.
func interrupted(err error, goOn string) error {
	if errors.Is(err, context.Canceled) && exitCode(err) == exitInterrupted && !errors.Is(err, fault.ErrInterrupted) {
		return fault.New(fault.ErrInterrupted, "interrupted; %s", goOn)
	}
	return err
}

// remedies are what a user can do about failures whose text does not say it.
var remedies = []struct {
	kind error
	text string
}{
	{syscall.EMFILE, "ulimit -n says how many this process may have"},
	{syscall.ENFILE, "fs.file-max says how many the machine may have"},
	{syscall.EFBIG, "ulimit -f says how large files may be, and so does the file system"},
}

// withRemedy returns an error's text with what can be done about it.
func withRemedy(err error) string {
	text := fault.Text(err)
	for _, r := range remedies {
		if errors.Is(err, r.kind) {
			return text + "; " + r.text
		}
	}
	return text
}

// fail reports an error, in one line, and returns the exit code. A panic's stack follows.
func (g *globals) fail(err error, asJSON bool) int {
	code := exitCode(err)
	name, message := "diskgnn", withRemedy(err)
	if g.command != "" {
		name += " " + g.command
		message = strings.TrimPrefix(message, g.command+": ") // stages name themselves
	}
	p, panicked := errors.AsType[*fault.PanicError](err)
	if panicked {
		message = "internal error: " + message
	}
	if g.progress == "json" {
		rep := render.Events(g.stderr)
		progress.Record(rep, "error", failure{message, code})
		rep.Close()
		report(g.stdout, io.Discard, name, message, code, asJSON)
	} else {
		report(g.stdout, g.stderr, name, message, code, asJSON)
	}
	if panicked {
		fmt.Fprintf(g.stderr, "%s", p.Stack)
	}
	return code
}

// failure is why a command ended.
type failure struct {
	Error    string `json:"error"`
	ExitCode int    `json:"exit_code"`
}

// report prints why the program ends, for people and for scripts, and returns
// the exit code.
func report(stdout, stderr io.Writer, name, message string, code int, asJSON bool) int {
	fmt.Fprintf(stderr, "%s: %s\n", name, message)
	if asJSON {
		b, err := json.Marshal(failure{message, code})
		if err == nil {
			fmt.Fprintf(stdout, "%s\n", b)
		}
	}
	return code
}
