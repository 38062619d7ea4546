package render

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"diskgnn/internal/progress"
)

const (
	refreshEvery = 150 * time.Millisecond
	barWidth     = 24
	leastBar     = 8
)

// bars renders for a terminal: a bar per task with its rate and the time left;
// a finished task's line moves up and stays.
type bars struct {
	w io.Writer
	p *mpb.Progress

	mu     sync.Mutex
	live   map[*barTask]struct{}
	closed bool
}

type barTask struct {
	meter
	r     *bars
	bar   *mpb.Bar
	start time.Time
	once  sync.Once

	mu    sync.Mutex
	ended string // the line's text once the task is over
}

func newBars(w io.Writer, more ...mpb.ContainerOption) *bars {
	options := append([]mpb.ContainerOption{
		mpb.WithOutput(w), mpb.WithRefreshRate(refreshEvery), mpb.PopCompletedMode(),
	}, more...)
	return &bars{w: w, p: mpb.New(options...), live: make(map[*barTask]struct{})}
}

// Task implements progress.Reporter.
func (r *bars) Task(name string, total int64, unit progress.Unit) progress.Task {
	t := &barTask{meter: meter{name: name, total: total, unit: unit}, r: r, start: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return t
	}
	// For mpb the bar has no total, so that it ends with Done, not when the count is reached.
	bar, err := r.p.Add(0, mpb.BarFillerFunc(t.fill), mpb.BarFillerTrim(),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return name + ": " })),
		mpb.AppendDecorators(decor.Any(t.text)))
	if err != nil {
		return t // the container is closed: nothing more is drawn
	}
	t.bar = bar
	r.live[t] = struct{}{}
	return t
}

// fill draws the bar, narrower on a narrow terminal. It draws nothing if the total is unknown, the task is
// done, or the text leaves too little space.
func (t *barTask) fill(w io.Writer, stat decor.Statistics) error {
	t.mu.Lock()
	over := t.ended != ""
	t.mu.Unlock()
	width := min(barWidth, stat.AvailableWidth-len("[] "))
	if t.total <= 0 || over || width < leastBar {
		return nil
	}
	full := int(min(1, float64(t.done.Load())/float64(t.total)) * float64(width))
	_, err := io.WriteString(w, "["+strings.Repeat("=", full)+strings.Repeat(" ", width-full)+"] ")
	return err
}

// text is the part of the line after the bar.
func (t *barTask) text(decor.Statistics) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != "" {
		return t.ended
	}
	return status(t.done.Load(), t.total, t.unit, time.Since(t.start), t.said())
}

// Logf implements progress.Reporter: the line goes above the bars.
func (r *bars) Logf(format string, args ...any) {
	line := fmt.Sprintf(format, args...) + "\n"
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.p.Write([]byte(line)); err != nil {
		_, _ = io.WriteString(r.w, line)
	}
}

// Close implements Reporter.
func (r *bars) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	for t := range r.live {
		t.bar.Abort(false)
	}
	r.p.Wait()
}

// Done implements progress.Task.
func (t *barTask) Done() {
	t.once.Do(func() {
		t.mu.Lock()
		t.ended = summary(t.meter.done.Load(), t.unit, time.Since(t.start))
		t.mu.Unlock()
		t.r.mu.Lock()
		defer t.r.mu.Unlock()
		if _, live := t.r.live[t]; !live {
			return
		}
		delete(t.r.live, t)
		t.bar.SetTotal(-1, true)
	})
}
