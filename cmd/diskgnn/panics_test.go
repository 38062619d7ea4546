package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/pipeline"
)

// panics is the program with a command that panics where its argument says.
func panics() {
	g := &globals{stdout: os.Stdout, stderr: os.Stderr}
	app := newApp(g)
	app.Commands = append(app.Commands, g.add(command{
		name:     "probe",
		operands: []string{"WHERE"},
		run:      func(ctx context.Context, s *session) (outcome, error) { return outcome{}, panicIn(ctx, s.args[0]) },
	}))
	os.Exit(g.run(app, os.Args))
}

// panicIn panics in the command's goroutine, or in another one that the program starts.
func panicIn(ctx context.Context, where string) error {
	boom := func() error { panic(fmt.Errorf("index out of range\nof %w", fault.ErrInput)) }
	switch where {
	case "command":
		return boom()
	case "group":
		g, ctx := errgroup.WithContext(ctx)
		g.Go(boom)
		g.Go(func() error { <-ctx.Done(); return ctx.Err() })
		return g.Wait()
	case "pipeline":
		p, err := pipeline.Start(ctx, pipeline.Config[int]{Slots: []int{0}, Items: 1,
			Links: []pipeline.Link[int]{{Name: "read", Do: func(context.Context, int, int) error { return boom() }}}})
		if err != nil {
			return err
		}
		defer p.Close()
		return p.Run(1)
	}
	var worker sync.WaitGroup
	worker.Go(func() {
		defer fault.Crash()
		_ = boom()
	})
	worker.Wait()
	return errors.New("the process did not end")
}

// A panic, wherever it happens, is an error in one line, with exit code 1 whatever the
// panic's value is, an object for scripts, and the stack of where it happened on stderr.
func TestPanicsAreInternalErrors(t *testing.T) {
	for _, where := range []string{"command", "group", "pipeline", "worker"} {
		var stdout, stderr bytes.Buffer
		cmd := exec.Command("panics", "probe", where, "--json", "--quiet")
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run()
		code := cmd.ProcessState.ExitCode()
		first, rest, _ := strings.Cut(stderr.String(), "\n")
		if code != exitInternal || !strings.HasPrefix(first, "diskgnn probe: internal error: ") || !strings.HasSuffix(first, "panic: index out of range; of bad input") {
			t.Errorf("%s: exit code %d, %q", where, code, first)
		}
		if !strings.Contains(rest, "diskgnn.panicIn.func1") || strings.Contains(first, "goroutine") {
			t.Errorf("%s: no stack of where it happened: %s", where, rest)
		}
		if got := stdout.String(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, `{"error":"internal error: `) || !strings.HasSuffix(got, "\"exit_code\":1}\n") {
			t.Errorf("%s: stdout has %q", where, got)
		}
	}
}
