package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"

	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/pipeline"
)

// panics is the program with a command that panics, or has the runtime end it, where its argument
// says.
func panics() {
	ownProcess()
	g := &globals{stores: builtin, stdout: os.Stdout, stderr: os.Stderr}
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
	switch where {
	case "stack":
		debug.SetMaxStack(1 << 20)
		return fmt.Errorf("%d calls had room", endless(1))
	case "address space":
		return exhaust()
	}
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

// exhaust takes memory beyond a limit of address space that it sets.
func exhaust() error {
	limit := syscall.Rlimit{Cur: 1 << 30, Max: 1 << 30}
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &limit); err != nil {
		return err
	}
	var held [][]byte
	for range 1024 {
		held = append(held, make([]byte, 16<<20))
	}
	return fmt.Errorf("%d pieces of memory were there", len(held))
}

// endless needs a stack without end, as long as n grows.
func endless(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + endless(n+1)
}

// A death of the runtime's own is none of this program's exit codes: the process ends by SIGABRT,
// and a shell says 134.
func TestRuntimeDeathsAreAborts(t *testing.T) {
	// Which allocation fails first decides what the runtime says of memory, if it can: how it ends is
	// what counts.
	for where, says := range map[string]string{"stack": "stack overflow", "address space": "goroutine "} {
		var stderr bytes.Buffer
		cmd := exec.Command("panics", "probe", where, "--quiet")
		cmd.Stderr = &stderr
		_ = cmd.Run()
		if by, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !by.Signaled() || by.Signal() != syscall.SIGABRT || !strings.Contains(stderr.String(), says) {
			t.Errorf("%s: %v, %s", where, cmd.ProcessState, stderr.String()[:min(stderr.Len(), 400)])
		}
	}
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
		if !strings.Contains(rest, "commands.panicIn.func1") || strings.Contains(first, "goroutine") {
			t.Errorf("%s: no stack of where it happened: %s", where, rest)
		}
		if got := stdout.String(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, `{"error":"internal error: `) || !strings.HasSuffix(got, "\"exit_code\":1}\n") {
			t.Errorf("%s: stdout has %q", where, got)
		}
	}
}
