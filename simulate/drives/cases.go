package drives

import (
	"context"
	"runtime"
	"slices"

	"diskgnn/internal/errgroup"
	"diskgnn/simulate/kernel"
)

// Case is a run to simulate.
type Case struct {
	Loads   []Load
	Machine Machine
}

// RunAll simulates cases, one on each processor at a time, and returns their results in order.
func RunAll(ctx context.Context, cases []Case) ([]Result, error) {
	out := make([]Result, len(cases))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, c := range cases {
		g.Go(func() (err error) {
			out[i], err = Run(ctx, c.Loads, c.Machine)
			return err
		})
	}
	return out, g.Wait()
}

// Sensitivity is the change of a run's time with one parameter.
type Sensitivity struct {
	What    string  `json:"what"`
	Seconds float64 `json:"seconds"`
	Change  float64 `json:"change"` // of the seconds, as a fraction
}

// Sensitivities simulates a case with one parameter at a time changed by a factor of two, and returns the
// changes, the largest first.
func Sensitivities(ctx context.Context, c Case) ([]Sensitivity, error) {
	names := []string{""}
	cases := []Case{c}
	machine := func(name string, f func(*Machine)) {
		changed := c
		f(&changed.Machine)
		names, cases = append(names, name), append(cases, changed)
	}
	loads := func(name string, f func(*Load)) {
		changed := c
		changed.Loads = slices.Clone(c.Loads)
		for i := range changed.Loads {
			f(&changed.Loads[i])
		}
		names, cases = append(names, name), append(cases, changed)
	}
	machine("twice the latency", func(m *Machine) { m.Drive.LatencyMicros = min(2*m.Drive.LatencyMicros, maxMicros) })
	machine("half the latency", func(m *Machine) { m.Drive.LatencyMicros /= 2 })
	machine("half the requests/s of a drive", func(m *Machine) { m.Drive.Requests = max(1, m.Drive.Requests/2) })
	machine("twice the requests/s of a drive", func(m *Machine) { m.Drive.Requests = min(2*m.Drive.Requests, maxRate) })
	machine("half the bytes/s of a drive", func(m *Machine) { m.Drive.Bytes = max(1, m.Drive.Bytes/2) })
	machine("twice the bytes/s of a drive", func(m *Machine) { m.Drive.Bytes = min(2*m.Drive.Bytes, maxRate) })
	machine("half the link", func(m *Machine) { m.Link = max(1, m.Link/2) })
	machine("twice the link", func(m *Machine) { m.Link = min(2*m.Link, maxRate) })
	machine("twice the cost of a request", func(m *Machine) { m.Software.CostMicros = min(2*m.Software.CostMicros, maxMicros) })
	machine("half the requests in flight", func(m *Machine) { m.Software.InFlight = max(1, m.Software.inFlight()/2) })
	machine("twice the threads", func(m *Machine) {
		m.Software.Threads = min(2*m.Software.Threads, maxThreads)
	})
	machine("twice the batches under way", func(m *Machine) { m.Slots = min(2*m.Slots, maxSlots) })
	loads("twice the computing", func(l *Load) { l.Compute = twice(l.Compute) })
	loads("half the computing", func(l *Load) { l.Compute /= 2 })
	loads("twice the assembling", func(l *Load) { l.Assemble = twice(l.Assemble) })
	loads("twice the sampling", func(l *Load) { l.Sample = twice(l.Sample) })
	results, err := RunAll(ctx, cases)
	if err != nil {
		return nil, err
	}
	base := results[0].Seconds
	var out []Sensitivity
	for i, r := range results[1:] {
		s := Sensitivity{What: names[i+1], Seconds: r.Seconds}
		if base > 0 {
			s.Change = r.Seconds/base - 1
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b Sensitivity) int {
		switch x, y := max(a.Change, -a.Change), max(b.Change, -b.Change); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return out, nil
}

// twice doubles a time. Never stays Never.
func twice(t kernel.Time) kernel.Time {
	if t > kernel.Never/2 {
		return t
	}
	return 2 * t
}
