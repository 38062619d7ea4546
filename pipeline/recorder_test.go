package pipeline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"diskgnn/pipeline"
)

// trace is what a viewer reads.
type trace struct {
	TraceEvents []struct {
		Ph       string
		Pid, Tid int
		Name     string
		Ts, Dur  float64
		Args     map[string]any
	}
}

func decodeTrace(t *testing.T, r *pipeline.Recorder) trace {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteTrace(&b); err != nil {
		t.Fatal(err)
	}
	var tr trace
	if err := json.Unmarshal(b.Bytes(), &tr); err != nil {
		t.Fatalf("%v in\n%s", err, b.Bytes())
	}
	return tr
}

func TestTraceByValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipeline.NewRecorder(100)
		own := r.Lane(`the "run"`)
		time.Sleep(10 * ms)
		r.Add(own, 7, time.Now().Add(-4*ms))
		run(t, 2, []int{1, 1}, []time.Duration{1 * ms, 2500 * time.Microsecond}, 2, r)
		var b bytes.Buffer
		if err := r.WriteTrace(&b); err != nil {
			t.Fatal(err)
		}
		want := `{"displayTimeUnit":"ms","traceEvents":[
{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"the \"run\""}},
{"ph":"M","pid":1,"tid":1,"name":"thread_sort_index","args":{"sort_index":1}},
{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"train link 0"}},
{"ph":"M","pid":1,"tid":2,"name":"thread_sort_index","args":{"sort_index":2}},
{"ph":"M","pid":1,"tid":3,"name":"thread_name","args":{"name":"train link 1"}},
{"ph":"M","pid":1,"tid":3,"name":"thread_sort_index","args":{"sort_index":3}},
{"ph":"X","pid":1,"tid":1,"name":"the \"run\"","ts":6000.000,"dur":4000.000,"args":{"batch":7,"blocked_us":0.000}},
{"ph":"X","pid":1,"tid":2,"name":"train link 0","ts":10000.000,"dur":1000.000,"args":{"batch":0,"blocked_us":0.000}},
{"ph":"X","pid":1,"tid":3,"name":"train link 1","ts":11000.000,"dur":2500.000,"args":{"batch":0,"blocked_us":1000.000}},
{"ph":"X","pid":1,"tid":2,"name":"train link 0","ts":11000.000,"dur":1000.000,"args":{"batch":1,"blocked_us":0.000}},
{"ph":"X","pid":1,"tid":3,"name":"train link 1","ts":13500.000,"dur":2500.000,"args":{"batch":1,"blocked_us":0.000}}
]}
`
		if d := cmp.Diff(want, b.String()); d != "" {
			t.Error(d)
		}
	})
}

// In a lane one thing happens after another, with every worker in a lane of its own.
func TestLanesDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipeline.NewRecorder(1000)
		run(t, 4, []int{2, 3, 1}, []time.Duration{1 * ms, 4 * ms, 2 * ms}, 20, r)
		ends := map[int]float64{}
		var lanes []string
		events := decodeTrace(t, r).TraceEvents
		slices.SortStableFunc(events, func(a, b struct {
			Ph       string
			Pid, Tid int
			Name     string
			Ts, Dur  float64
			Args     map[string]any
		}) int {
			return int(a.Ts - b.Ts)
		})
		for _, e := range events {
			if e.Ph == "M" {
				if e.Name == "thread_name" {
					lanes = append(lanes, e.Args["name"].(string))
				}
				continue
			}
			if e.Ts < ends[e.Tid] {
				t.Errorf("lane %d: %v begins before %v ended", e.Tid, e.Ts, ends[e.Tid])
			}
			ends[e.Tid] = e.Ts + e.Dur
		}
		want := []string{"train link 0 1", "train link 0 2", "train link 1 1", "train link 1 2", "train link 1 3", "train link 2"}
		if !slices.Equal(lanes, want) {
			t.Errorf("lanes %q", lanes)
		}
	})
}

// Lanes are numbered from one, in the decimal system, however many there are.
func TestManyLanes(t *testing.T) {
	r := pipeline.NewRecorder(12)
	for i := range 12 {
		r.Add(r.Lane("lane"), i, time.Now())
	}
	var lanes, named []int
	for _, e := range decodeTrace(t, r).TraceEvents {
		switch {
		case e.Ph == "X":
			lanes = append(lanes, e.Tid)
		case e.Name == "thread_sort_index":
			named = append(named, e.Tid)
			if e.Args["sort_index"] != float64(e.Tid) {
				t.Errorf("lane %d comes at %v", e.Tid, e.Args["sort_index"])
			}
		}
	}
	if want := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}; !slices.Equal(lanes, want) || !slices.Equal(named, want) {
		t.Errorf("lanes %v, named %v", lanes, named)
	}
	small := pipeline.NewRecorder(0) // has room for one
	small.Add(small.Lane("lane"), 1, time.Now())
	small.Add(0, 2, time.Now())
	if n := len(decodeTrace(t, small).TraceEvents); n != 3 || small.Dropped() != 1 {
		t.Errorf("%d events, %d dropped", n, small.Dropped())
	}
}

// The ring keeps the latest spans and says how many it lost.
func TestRecorderForgetsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipeline.NewRecorder(5)
		lane := r.Lane("run")
		for i := range 12 {
			if want := max(0, i-5); r.Dropped() != want {
				t.Errorf("%d spans were dropped of %d", r.Dropped(), i)
			}
			r.Add(lane, i, time.Now())
		}
		var items []int
		for _, e := range decodeTrace(t, r).TraceEvents {
			if e.Ph == "X" {
				items = append(items, int(e.Args["batch"].(float64)))
			}
		}
		if !slices.Equal(items, []int{7, 8, 9, 10, 11}) || r.Dropped() != 7 {
			t.Errorf("kept %v, dropped %d", items, r.Dropped())
		}
	})
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestTraceReportsWriteErrors(t *testing.T) {
	r := pipeline.NewRecorder(1)
	if err := r.WriteTrace(full{}); err == nil {
		t.Error("no error")
	}
}
