package comparison

import (
	stdbytes "bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"diskgnn/internal/fault"
)

// Program runs a command of this program with the arguments, in a process of its own, and returns
// the final JSON object of its output. The error of a failed command has its text, and the kind of
// its exit code. When ctx ends, Program interrupts the process and waits for it.
type Program func(ctx context.Context, args []string) ([]byte, error)

// kinds are the kinds of errors of exit codes.
var kinds = map[int]error{2: fault.ErrUsage, 3: fault.ErrInput, 4: fault.ErrBudget, 5: fault.ErrInterrupted, 6: fault.ErrLocked}

// patience is the time for an interrupted process to end; then it is killed.
const patience = 1500 * time.Millisecond

// Self returns the program that is running.
func Self() (Program, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return func(ctx context.Context, args []string) ([]byte, error) {
		return execute(ctx, path, os.Args[0], args)
	}, nil
}

// execute runs a program under a name.
func execute(ctx context.Context, path, name string, args []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path)
	cmd.Args = append(append([]string{name}, args...), "--json", "--quiet")
	// Not SIGINT: on a terminal the process has received that already, and a second one would end
	// it at once.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGUSR1) }
	cmd.WaitDelay = patience
	var out, said stdbytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	lines := stdbytes.Split(stdbytes.TrimSpace(out.Bytes()), []byte("\n"))
	last := lines[len(lines)-1]
	switch {
	case err == nil && json.Valid(last):
		return last, nil
	case err == nil:
		return nil, fmt.Errorf("%s %s: the last line of its output is not JSON", name, args[0])
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s %s: %w", name, args[0], context.Cause(ctx))
	}
	var failed struct {
		Error    string `json:"error"`
		ExitCode int    `json:"exit_code"`
	}
	if json.Unmarshal(last, &failed) != nil || failed.Error == "" {
		return nil, fmt.Errorf("%s %s: %w: %s", name, args[0], err, stdbytes.TrimSpace(said.Bytes()))
	}
	kind, ok := kinds[failed.ExitCode]
	if !ok {
		kind = err
	}
	return nil, fault.New(kind, "%s", failed.Error)
}
