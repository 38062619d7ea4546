// Package render shows the progress of stages: as bars with the time left on a terminal, as plain lines
// elsewhere, or as JSON for programs.
package render

import (
	"io"
	"os"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8/cwriter"

	"diskgnn/internal/progress"
)

// Reporter is a progress.Reporter that writes to an output. Close must be called before anything else is
// written there.
type Reporter interface {
	progress.Reporter
	// Close ends all tasks. After it returns, nothing more is drawn. It may be called again.
	Close()
}

// New returns a renderer for w: bars on a terminal, lines elsewhere.
func New(w io.Writer) Reporter {
	if f, ok := w.(*os.File); ok && drawable(f) {
		return newBars(w)
	}
	return newLines(w)
}

// drawable reports whether f is a terminal that is wide enough for bars and can move the cursor.
func drawable(f *os.File) bool {
	if !cwriter.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return false
	}
	width, height, err := cwriter.GetSize(int(f.Fd()))
	return err == nil && width > 0 && height > 1
}

// Quiet returns a renderer that shows nothing.
func Quiet() Reporter { return quiet{progress.Discard} }

type quiet struct{ progress.Reporter }

func (quiet) Close() {}

// meter is the state of a task in both renderers: adding to it costs one atomic operation, drawing
// reads it.
type meter struct {
	name  string
	total int64
	unit  progress.Unit
	done  atomic.Int64
	say   atomic.Pointer[func() string] // nil: no description
}

func (m *meter) Add(n int64) { m.done.Add(n) }

// Describe takes the function of progress.Describe.
func (m *meter) Describe(say func() string) { m.say.Store(&say) }

// said returns the description, "" without one.
func (m *meter) said() string {
	if say := m.say.Load(); say != nil {
		return (*say)()
	}
	return ""
}
