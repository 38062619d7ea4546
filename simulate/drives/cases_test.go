package drives

import (
	"context"
	"errors"
	"math"
	"testing"

	"diskgnn/internal/fault"
)

func TestRunAll(t *testing.T) {
	l := []Load{{Reads: []Reads{{Bytes: Page, Count: 100}}}}
	var cases []Case
	for n := 1; n < 9; n++ {
		m := plain()
		m.Drives = n
		cases = append(cases, Case{l, m})
	}
	got, err := RunAll(t.Context(), cases)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range got {
		if want := mustRun(t, l, cases[i].Machine); r != want {
			t.Errorf("%+v, want %+v", r, want)
		}
	}
	cases[3].Machine.Drives = 0
	if _, err := RunAll(t.Context(), cases); !errors.Is(err, fault.ErrUsage) {
		t.Error(err)
	}
}

// Three reads served at 10, 20, 30 µs and answered 90 later: the latency weighs most.
func TestSensitivities(t *testing.T) {
	l := Load{Reads: []Reads{{Bytes: Page, Count: 3}}, Sample: 7 * us, Assemble: 19 * us, Compute: 5 * us, Copy: 3 * Page}
	got, err := Sensitivities(context.Background(), Case{[]Load{l}, plain()})
	if err != nil || got[0].What != "twice the latency" || len(got) != 16 {
		t.Fatal(got, err)
	}
	const base = 154.0
	want := map[string]float64{
		"twice the latency": 254, "half the latency": 104,
		// Served in 20, a read of 4 KiB has 80 beside.
		"half the requests/s of a drive": 60 + 80 + 34, "half the bytes/s of a drive": 60 + 80 + 34,
		"twice the requests/s of a drive": base, "twice the bytes/s of a drive": base, // both bound it
		"half the link": base + 3, "twice the link": base - 1.5,
		"twice the cost of a request": base, "half the requests in flight": base, "twice the threads": base, "twice the batches under way": base,
		"twice the computing": base + 5, "half the computing": base - 2.5, "twice the sampling": base + 7, "twice the assembling": base + 19,
	}
	for i, s := range got {
		if math.Abs(s.Seconds*1e6-want[s.What]) > 1e-6 || math.Abs(s.Change-(want[s.What]/base-1)) > 1e-9 {
			t.Errorf("%+v, want %v", s, want[s.What])
		}
		if i > 0 && math.Abs(s.Change) > math.Abs(got[i-1].Change) {
			t.Errorf("%s is listed after %s", s.What, got[i-1].What)
		}
	}
	m := plain()
	m.Link = 0
	if _, err := Sensitivities(context.Background(), Case{[]Load{l}, m}); err == nil {
		t.Error("no link")
	}
}
