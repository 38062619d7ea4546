// Package commands is the command line of diskgnn, with the stores that its caller chooses. The commands are
// the stages of a pipeline, which pass on directories:
//
//	generate | import        presample              pack               train
//	source ─────► DATASET ───────► SAMPLES ───────► PACK ───────► RUN
//
// This package implements flags, the configuration file, output and exit codes; other packages implement
// the stages. docs/cli.md is the reference. A program with a store of its own calls Main with a list that
// has the store: docs/howto/own-store.md and examples/store-foo show how.
package commands

import (
	"context"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"diskgnn/featurestore/stores"
	"diskgnn/internal/fault"
	"diskgnn/iostack/cufile"
)

// Main runs the program with the arguments of the process, and ends the process with the exit code. train
// and bench stores offer the stores of the list, and --store refuses all others by name. Call Main first of
// all: a process that it has started as a helper returns from it at once.
func Main(list stores.List) {
	if cufile.Child() {
		return
	}
	ownProcess()
	os.Exit(run(list, os.Args, os.Stdout, os.Stderr))
}

// run is the whole program: it returns the exit code.
func run(list stores.List, args []string, stdout, stderr io.Writer) int {
	g := &globals{stores: list, stdout: stdout, stderr: stderr, args: args}
	return g.run(newApp(g), args)
}

// run runs a command line and returns the exit code. A panic in any goroutine is an internal error; its
// stack follows the message on stderr.
func (g *globals) run(app *cli.App, args []string) (code int) {
	asJSON := func() bool { return g.json || asksForJSON(args) }
	defer func() {
		if v := recover(); v != nil {
			code = g.fail(fault.Recovered(v), asJSON())
		}
	}()
	defer fault.OnCrash(func(p *fault.PanicError) { g.leave(g.fail(p, asJSON())) })()
	ctx, stop := interruptible(context.Background(), func(message string) {
		g.leave(report(g.stdout, g.stderr, "diskgnn", failure{Error: message + "; " + g.goOn(), ExitCode: exitInterrupted}, asJSON()))
	})
	defer stop()
	defer g.stacksOnQuit()()
	err := app.RunContext(ctx, arrange(app, args))
	if err == nil {
		return exitDone
	}
	if context.Cause(ctx) != nil {
		err = interrupted(err, g.goOn())
	}
	return g.fail(err, asJSON())
}

// leave ends the process at once, while goroutines of the command run.
func (g *globals) leave(code int) {
	if g.exit == nil {
		os.Exit(code)
	}
	g.exit(code)
}
