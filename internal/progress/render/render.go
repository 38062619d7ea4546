// Package render shows the reports of stages to people: bars with the time left where there is a
// terminal, a few plain lines where there is none.
package render

import (
	"io"
	"os"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8/cwriter"

	"diskgnn/internal/progress"
)

// Reporter is a progress.Reporter that draws. Close must be called before
// anything else is written to its output.
type Reporter interface {
	progress.Reporter
	// Close ends all tasks and returns when nothing more will be drawn. It may
	// be called again.
	Close()
}

// New returns the renderer that fits w: bars on a terminal, lines elsewhere.
func New(w io.Writer) Reporter {
	if f, ok := w.(*os.File); ok && drawable(f) {
		return newBars(w)
	}
	return newLines(w)
}

// drawable reports whether f is a terminal with room for bars that can move the
// cursor.
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
	say   atomic.Pointer[func() string] // nil: there is no more to say
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
