package commands

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// stacksSuffix ends the name of the file of stacks beside an output.
const stacksSuffix = ".stacks"

// making has the name of the running command's output. It is safe for concurrent use.
type making struct{ name atomic.Pointer[string] }

// set names the output; "" is none.
func (m *making) set(name string) { m.name.Store(&name) }

// part replaces the output's name by the name of this process's part, if there is an output.
func (m *making) part(name func(out string) string) {
	if out := m.String(); out != "" {
		m.set(name(out))
	}
}

func (m *making) String() string {
	if name := m.name.Load(); name != nil {
		return *name
	}
	return ""
}

// stacksOnQuit writes the stacks of all goroutines on every SIGQUIT, until stop is called. The
// command continues.
func (g *globals) stacksOnQuit() (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGQUIT)
	over := make(chan struct{})
	go func() {
		defer fault.Crash()
		for {
			select {
			case <-over:
				return
			case <-signals:
				g.writeStacks(time.Now())
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(over)
	}
}

// writeStacks appends the stacks of all goroutines to the file beside the output; two sets of stacks show
// which goroutines are stuck. Without an output, or if the file cannot be written, it prints the stacks to
// stderr.
func (g *globals) writeStacks(now time.Time) {
	var text bytes.Buffer
	fmt.Fprintf(&text, "=== %s, process %d: %s\n\n", now.UTC().Format(time.RFC3339), os.Getpid(), fault.Line(strings.Join(g.args, " ")))
	if err := pprof.Lookup("goroutine").WriteTo(&text, 2); err != nil {
		fmt.Fprintf(&text, "%v\n", err)
	}
	text.WriteByte('\n')
	out := g.making.String()
	if out == "" {
		_, _ = g.stderr.Write(text.Bytes())
		return
	}
	if err := appendFile(vfs.OS, out+stacksSuffix, text.Bytes()); err != nil {
		fmt.Fprintf(g.stderr, "stacks: %s\n%s", fault.Text(err), text.Bytes())
	}
}

// appendFile appends to a file, which it makes if it does not exist.
func appendFile(fsys vfs.FS, name string, b []byte) (err error) {
	f, err := fsys.OpenReadWrite(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, st.Size())
	return err
}
