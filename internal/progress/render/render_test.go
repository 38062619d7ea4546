package render

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vbauerster/mpb/v8"

	"diskgnn/internal/progress"
)

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		unit        progress.Unit
		elapsed     time.Duration
		want        string
	}{
		{0, 40, progress.Batches, 0, "  0% · 0 of 40 batches"},
		{10, 40, progress.Batches, 5 * time.Second, " 25% · 10 of 40 batches · 2.0/s · 15.0 s left"},
		{40, 40, progress.Batches, 5 * time.Second, "100% · 40 of 40 batches · 8.0/s"},
		{3 << 20, 0, progress.Bytes, time.Second, "3.0 MiB · 3.0 MiB/s"},
		{1 << 30, 4 << 30, progress.Bytes, time.Hour, " 25% · 1.00 GiB of 4.00 GiB · 291.3 KiB/s · 3 h left"},
		{123456, 0, progress.Nodes, time.Second, "123k nodes · 123k/s"},
	} {
		if got := status(c.done, c.total, c.unit, c.elapsed, ""); got != c.want {
			t.Errorf("status(%d, %d, %s, %v) = %q, want %q", c.done, c.total, c.unit, c.elapsed, got, c.want)
		}
	}
	if got, want := status(10, 40, progress.Batches, 5*time.Second, "loss 0.5"), " 25% · loss 0.5 · 2.0/s · 15.0 s left"; got != want {
		t.Errorf("status = %q, want %q", got, want)
	}
	if got, want := status(10, 0, progress.Batches, 5*time.Second, "loss 0.5"), "10 batches · loss 0.5 · 2.0/s"; got != want {
		t.Errorf("status = %q, want %q", got, want)
	}
	if got, want := summary(40, progress.Batches, 200*time.Second), "40 batches in 3 min 20 s (0.2/s)"; got != want {
		t.Errorf("summary = %q, want %q", got, want)
	}
}

func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := newLines(&out)
		short := r.Task("short", 2, progress.Batches)
		short.Add(2)
		time.Sleep(500 * time.Millisecond)
		short.Done()
		short.Done()
		long := r.Task("long", 100, progress.Nodes)
		progress.Describe(progress.Discard.Task("", 0, ""), func() string { t.Error("nobody shows it"); return "" })
		for range 25 {
			time.Sleep(time.Second)
			long.Add(2)
		}
		r.Logf("a note on %d things", 2)
		long.Done()
		r.Task("abandoned", 0, progress.Bytes)
		r.Close()
		r.Close()
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		want := []string{
			`^short: 2 batches in 500 ms \(4\.0/s\)$`,
			`^long: +\d% · \d of 100 nodes`,
			`^long: +2\d% · 2\d of 100 nodes · .* left$`,
			`^long: +4\d% · 4\d of 100 nodes · .* left$`,
			`^a note on 2 things$`,
			`^long: 50 nodes in 25\.0 s \(2\.0/s\)$`,
		}
		if len(lines) != len(want) {
			t.Fatalf("got %d lines, want %d:\n%s", len(lines), len(want), out.String())
		}
		for i := range want {
			if !regexp.MustCompile(want[i]).MatchString(lines[i]) {
				t.Errorf("line %d is %q, want %q", i, lines[i], want[i])
			}
		}
	})
}

func TestBars(t *testing.T) {
	var out bytes.Buffer
	r := newBars(&out, mpb.WithAutoRefresh())
	known := r.Task("known", 10, progress.Batches)
	open := r.Task("open", 0, progress.Bytes)
	left := r.Task("left", 10, progress.Nodes)
	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() { known.Add(1); open.Add(1 << 20); left.Add(0) })
	}
	workers.Wait()
	r.Logf("a note")
	known.Done()
	known.Done()
	open.Done()
	r.Close()
	r.Close()
	r.Task("late", 1, progress.Nodes).Done()
	r.Logf("a late note")
	for _, want := range []string{"known: 10 batches in ", "open: 10.0 MiB in ", "left: [", "a note\n", "a late note\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, out.String())
		}
	}
}

func TestPlainWhereThereIsNoTerminal(t *testing.T) {
	r := New(new(bytes.Buffer))
	defer r.Close()
	if _, ok := r.(*lines); !ok {
		t.Errorf("a buffer is rendered by %T", r)
	}
	q := Quiet()
	q.Logf("unseen")
	q.Close()
}

func BenchmarkAdd(b *testing.B) {
	r := newLines(new(bytes.Buffer))
	defer r.Close()
	t := r.Task("work", 0, progress.Nodes)
	b.ReportAllocs()
	for b.Loop() {
		t.Add(1)
	}
}
