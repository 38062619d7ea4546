package render

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"diskgnn/internal/progress"
)

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := Events(&out)
		read := r.Task("read", 100, progress.Bytes)
		read.Add(40)
		time.Sleep(1500 * time.Millisecond) // an event after a second
		time.Sleep(2 * time.Second)         // nothing moved: none
		r.Logf("a note on %d things\nof two lines", 2)
		read.Add(60)
		read.Done()
		read.Done()
		r.Task("abandoned", 0, progress.Batches)
		progress.Record(r, "epoch", map[string]int{"epoch": 3})
		progress.Record(r, "epoch", math.NaN())
		r.Close()
		r.Close()
		progress.Record(r, "result", 7)
		want := `{"time":"2000-01-01T00:00:00.000Z","event":"begin","task":"read","done":0,"total":100,"unit":"bytes","seconds":0}
{"time":"2000-01-01T00:00:01.000Z","event":"progress","task":"read","done":40,"total":100,"unit":"bytes","seconds":1}
{"time":"2000-01-01T00:00:03.500Z","event":"note","text":"a note on 2 things\nof two lines"}
{"time":"2000-01-01T00:00:03.500Z","event":"end","task":"read","done":100,"total":100,"unit":"bytes","seconds":3.5}
{"time":"2000-01-01T00:00:03.500Z","event":"begin","task":"abandoned","done":0,"total":0,"unit":"batches","seconds":0}
{"time":"2000-01-01T00:00:03.500Z","event":"epoch","record":{"epoch":3}}
{"time":"2000-01-01T00:00:03.500Z","event":"note","text":"an event cannot be encoded: json: unsupported value: NaN"}
{"time":"2000-01-01T00:00:03.500Z","event":"result","record":7}
`
		if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(out.String(), "\n")); diff != "" {
			t.Error(diff)
		}
	})
}

// Every line is an object of its own, whoever writes at once.
func TestEventsOfManyGoroutines(t *testing.T) {
	var out bytes.Buffer
	r := Events(&out)
	done := make(chan struct{})
	for range 8 {
		go func() {
			task := r.Task("t", 10, progress.Rows)
			for range 10 {
				task.Add(1)
				r.Logf("note")
			}
			task.Done()
			done <- struct{}{}
		}()
	}
	for range 8 {
		<-done
	}
	r.Close()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) < 8*12 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil || v["event"] == "" {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// After Close, tasks have no events.
func TestEventsAfterClose(t *testing.T) {
	var out bytes.Buffer
	r := Events(&out)
	r.Close()
	task := r.Task("late", 1, progress.Bytes)
	task.Add(1)
	task.Done()
	if out.Len() > 0 {
		t.Errorf("%q", out.String())
	}
}

// Renderers for people leave records out.
func TestRecordForPeople(t *testing.T) {
	var out bytes.Buffer
	r := newLines(&out)
	progress.Record(r, "epoch", 1)
	r.Close()
	if out.Len() > 0 {
		t.Errorf("%q", out.String())
	}
}
