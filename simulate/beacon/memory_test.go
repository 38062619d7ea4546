package beacon

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"diskgnn/internal/fault"
)

// live returns the bytes of what is in use.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// peak returns the most that is in use while so many batches are simulated.
func peak(t *testing.T, batches int) (most int64) {
	t.Helper()
	o := Options{Workloads: workloads[1:3], Platforms: platforms[5:], Modes: []Mode{Faithful}, Batches: batches, Workers: 1, Settings: []string{"batch=16"}}
	live() // what pools hold goes with the second collection
	before := live()
	if _, err := Simulate(context.Background(), o, func() { most = max(most, live()-before) }); err != nil {
		t.Fatal(err)
	}
	return most
}

// What is held does not grow with the number of batches.
func TestMemoryIsFlat(t *testing.T) {
	few, many := peak(t, 3), peak(t, 60)
	t.Logf("%d bytes of 3 batches, %d of 60", few, many)
	if many > few+few/10 {
		t.Errorf("%d bytes of 3 batches, %d of 60", few, many)
	}
}

// A trace and a run take what is planned for a node, and nearly as much at worst.
func TestMemoryIsPlanned(t *testing.T) {
	for _, c := range []struct {
		workload Workload
		set      string
	}{
		{workloads[1], "batch=256"},
		{Workload{Name: "hubs", Degree: 20000, Feature: 400}, "fanout=4/4/4"}, // every neighbour in a page of its own
		{workloads[3], "fanout=0"},
	} {
		p := Defaults(Strict)
		if err := p.Set(c.set, "firmware.cores=1"); err != nil {
			t.Fatal(err)
		}
		allocated := func(f func()) float64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f()
			runtime.ReadMemStats(&after)
			return float64(after.TotalAlloc-before.TotalAlloc) / p.Commands()
		}
		var tr *Trace
		before := live()
		tr, err := c.workload.Trace(p, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if held := float64(live()-before) / p.Commands(); held > traceNodeBytes {
			t.Errorf("%s: %.0f bytes of a trace a node", c.workload.Name, held)
		}
		for i := range platforms {
			besides := (runDieBytes*float64(p.dies()) + runBytes) / p.Commands()
			if got := allocated(func() { _, err = Run(p, &platforms[i], tr) }); err != nil || got > runNodeBytes+besides {
				t.Errorf("%s on %s: %.0f bytes of a run a node: %v", c.workload.Name, platforms[i].Name, got, err)
			}
		}
		runtime.KeepAlive(tr)
	}
}

// What does not fit is refused before it begins.
func TestMemoryIsKeptTo(t *testing.T) {
	o := Options{Workloads: workloads[1:2], Platforms: platforms, Modes: []Mode{Faithful, Strict}, Batches: 1, Workers: 1, Settings: []string{"batch=16"}}
	least := int64(640*(2*traceNodeBytes+runNodeBytes) + 128*runDieBytes + runBytes) // 16 · (1 + 3 + 9 + 27) nodes
	for memory, want := range map[int64]error{least - 1: fault.ErrBudget, least: nil, 0: nil} {
		o.Memory = memory
		if _, err := Simulate(context.Background(), o, nil); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", memory, err)
		}
	}
}
