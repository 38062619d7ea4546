package stall

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"diskgnn/internal/progress"
	"diskgnn/internal/progress/render"
)

// page is a Shower that keeps notes with their times, and facts as JSON.
type page struct {
	progress.Reporter
	began  time.Time
	closed int

	mu    sync.Mutex
	notes []string
	facts []string
}

func (p *page) Logf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf("%v: ", time.Since(p.began))+fmt.Sprintf(format, args...))
}

func (p *page) Record(kind string, v any) {
	b, err := json.Marshal(v)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.facts = append(p.facts, fmt.Sprint(kind, " ", string(b), " ", err))
}

func (p *page) Close() { p.closed++ }

func (p *page) says(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(p.take(), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("said\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// take returns the notes since the last call.
func (p *page) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	notes := p.notes
	p.notes = nil
	return notes
}

// watching runs f with a Reporter that writes to a page.
func watching(t *testing.T, f func(r *Reporter, p *page)) {
	synctest.Test(t, func(t *testing.T) {
		p := &page{Reporter: progress.Discard, began: time.Now()}
		r := Watch(p)
		f(r, p)
		r.Close()
		r.Close()
		if p.closed != 2 { // as often as asked
			t.Errorf("closed %d times", p.closed)
		}
	})
}

// pass lets time pass, with the look at its end.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

type where string

func (w where) String() string { return string(w) }

// After a minute in which nothing moves there is a line, then others at growing intervals, until
// something moves.
func TestStall(t *testing.T) {
	watching(t, func(r *Reporter, p *page) {
		a := r.Task("pack rows", 3<<30, progress.Bytes)
		b := r.Task("renumber graphs", 4000, progress.Batches)
		a.Add(1 << 30)
		b.Add(1234)
		pass(64 * time.Second) // the first look sees them begin
		p.says(t)
		pass(time.Second)
		p.says(t, "1m5s: nothing has moved for 1 min: pack rows is at 1.00 GiB of 3.00 GiB; renumber graphs is at 1,234 of 4,000 batches")
		pass(4 * time.Hour)
		var at []string
		for _, n := range p.take() {
			at = append(at, strings.Split(n, ": ")[0])
		}
		if got := strings.Join(at, " "); got != "2m5s 4m5s 8m5s 16m5s 32m5s 1h4m5s 2h4m5s 3h4m5s" {
			t.Errorf("again at %s", got)
		}
		b.Add(1)
		pass(5 * time.Second)
		p.says(t, "4h1m10s: it moves again, after 4 h 1 min")
		pass(time.Minute)
		b.Done()
		p.says(t, "4h2m10s: nothing has moved for 1 min: pack rows is at 1.00 GiB of 3.00 GiB; renumber graphs is at 1,235 of 4,000 batches")
		pass(30 * time.Second)
		p.says(t, "4h2m15s: it moves again, after 1 min")
		a.Done()
		pass(time.Hour)
		p.says(t) // no task is under way
	})
}

// Work that is watched says where it stands, as text and for programs. While it moves there is no stall.
func TestWork(t *testing.T) {
	watching(t, func(r *Reporter, p *page) {
		var moved atomic.Pointer[time.Time]
		move := func() {
			now := time.Now()
			moved.Store(&now)
		}
		move()
		end := progress.Watch(r, progress.Work{
			Moved:  func() time.Time { return *moved.Load() },
			Stands: func() fmt.Stringer { return where("compute is at batch 7 for 1 min") },
		})
		pass(10*time.Minute + 2*time.Second)
		p.says(t) // without a task
		task := r.Task("train", 0, progress.Batches)
		for range 30 {
			pass(50 * time.Second)
			move()
		}
		p.says(t)
		pass(70 * time.Second)
		p.says(t, "36m5s: nothing has moved for 1 min: train is at 0 batches; compute is at batch 7 for 1 min")
		end()
		pass(65 * time.Second)
		p.says(t, "36m15s: it moves again, after 1 min 5 s", "37m15s: nothing has moved for 1 min: train is at 0 batches")
		end()
		task.Done()
		want := `stalled {"seconds":60,"tasks":[{"task":"train","done":0,"total":0,"unit":"batches"}],"work":["compute is at batch 7 for 1 min"]} <nil>`
		if len(p.facts) != 2 || p.facts[0] != want {
			t.Errorf("facts %q", p.facts)
		}
	})
}

// A task that ends while another begins is movement.
func TestTasksMove(t *testing.T) {
	watching(t, func(r *Reporter, p *page) {
		for range 10 {
			task := r.Task("verify", 0, progress.Rows)
			time.Sleep(40 * time.Second)
			task.Done()
		}
		p.says(t)
	})
}

// All else passes through.
func TestPassesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		r := Watch(render.Events(&out))
		task := r.Task("read", 10, progress.Rows)
		task.Add(3)
		time.Sleep(1500 * time.Millisecond)
		task.Done()
		task.Done()
		r.Logf("a %s", "note")
		progress.Record(r, "epoch", 7)
		r.Close()
		for _, want := range []string{`"event":"begin","task":"read"`, `"progress","task":"read","done":3,"total":10,"unit":"rows"`, `"end","task":"read","done":3`, `"text":"a note"`, `"event":"epoch","record":7`} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %s in\n%s", want, out.String())
			}
		}
	})
	if end := progress.Watch(progress.Discard, progress.Work{}); end == nil {
		t.Error("no end")
	} else {
		end()
	}
}
