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
	"runtime/debug"
	"strings"

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

// oneLine joins the lines of an error, so that a script finds one message.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}
