// Command gotest runs go test, passes on its output, and at the end lists the skipped tests by the reason
// for the skip.
//
//	gotest [-log FILE] ARGUMENTS [-- ARGUMENTS]...
//	gotest -log FILE
//
// Each ARGUMENTS are the arguments of one go test, or a test binary, NAME.test, and its arguments. After a
// failure the following ones run all the same. The environment variable GO may name another go command.
// With -log, gotest appends the outcomes to FILE and prints no list; gotest -log FILE then prints the list
// of all runs: the tests that none of them has run.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

func main() {
	log, args := "", os.Args[1:]
	if len(args) > 1 && args[0] == "-log" { // all other flags belong to go test
		log, args = args[1], args[2:]
	}
	if log == "" && len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: gotest [-log FILE] ARGUMENTS [-- ARGUMENTS]...")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, cmp.Or(os.Getenv("GO"), "go"), log, args, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run runs all sets of arguments, and lists the skipped tests or logs the outcomes. It returns the
// highest exit code.
func run(ctx context.Context, tool, log string, args []string, out io.Writer) (code int, err error) {
	all := make(outcomes)
	if len(args) == 0 {
		if err := all.load(log); err != nil {
			return 0, err
		}
		all.list(out)
		return 0, nil
	}
	for _, one := range split(args) {
		c, err := test(ctx, tool, one, out, all)
		if err != nil {
			return max(code, c), err
		}
		code = max(code, c)
	}
	if log != "" {
		return code, all.save(log)
	}
	all.list(out)
	return code, nil
}

// split cuts arguments at each "--".
func split(args []string) (sets [][]string) {
	for {
		i := slices.Index(args, "--")
		if i < 0 {
			return append(sets, args)
		}
		sets, args = append(sets, args[:i]), args[i+1:]
	}
}

// test runs go test or a test binary, prints its results, and adds its outcomes.
func test(ctx context.Context, tool string, args []string, out io.Writer, all outcomes) (code int, err error) {
	cmd := exec.CommandContext(ctx, tool, command(args)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go test ends its tests
	cmd.Stderr = os.Stderr
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	p := printer{out: out, all: all, verbose: slices.Contains(args, "-v") || slices.Contains(args, "-test.v")}
	readErr := p.read(stream)
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		fmt.Fprintln(out, "FAIL")
		return max(1, exit.ExitCode()), readErr // killed by a signal: -1
	}
	return 0, errors.Join(readErr, err)
}

// command returns the arguments of the go command that prints the events of tests.
func command(args []string) []string {
	switch {
	case len(args) > 0 && strings.HasSuffix(args[0], ".test"):
		return slices.Concat([]string{"tool", "test2json", "-t", "-p", args[0], args[0], "-test.v=test2json"}, args[1:])
	case len(args) > 1 && args[0] == "-C": // it must be the first flag
		return slices.Concat([]string{"test", "-C", args[1], "-json"}, args[2:])
	}
	return slices.Concat([]string{"test", "-json"}, args)
}
