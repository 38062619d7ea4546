package kernel

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/rng"
)

func TestTime(t *testing.T) {
	for _, c := range []struct {
		rate Rate
		n    int64
		want Time
	}{
		{0, 7, 0},
		{1, 1, Second},
		{3, 1, 333_333_333_333},
		{3, 2, 666_666_666_667},
		{800_000_000, 4096, 5_120 * Nanosecond},
		{25_600_000_000, 4096, 160 * Nanosecond},
		{1_600_000, 1, 625 * Nanosecond},
		{7_000_000_000, 4096, 585_143},
		{1, 9_223_372, 9_223_372 * Second},
		{1, 9_223_373, Never},
		{1, math.MaxInt64, Never},
		{math.MaxInt64, math.MaxInt64, Second},
	} {
		if got := c.rate.For(c.n); got != c.want {
			t.Errorf("%d at %d/s take %d ps, want %d", c.n, c.rate, got, c.want)
		}
	}
	if FromSeconds(1.5e-6) != 1500*Nanosecond || FromSeconds(math.NaN()) != Never || FromSeconds(1e9) != Never {
		t.Error("seconds are converted wrongly")
	}
	if (2*Second).Seconds() != 2 || (1500*Millisecond).String() != "1.5 s" {
		t.Error("durations are converted wrongly")
	}
}

// Rates divide as whole numbers of any size do, and round to the nearest.
func TestRateRounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, math.MaxInt64).Draw(t, "n")
		r := rapid.Int64Range(1, math.MaxInt64).Draw(t, "rate")
		x := new(big.Int).Mul(big.NewInt(2), new(big.Int).Mul(big.NewInt(n), big.NewInt(1e12)))
		x.Add(x, big.NewInt(r-r%2)) // 2·n·10¹² + 2·⌊r/2⌋
		x.Div(x, new(big.Int).Mul(big.NewInt(2), big.NewInt(r)))
		want := Never
		if x.IsInt64() {
			want = Time(x.Int64())
		}
		if got := Rate(r).For(n); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}

// Events come by time, and those of one time as they were scheduled.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type plain struct {
			at Time
			id int64
		}
		var s Sim
		var want []plain
		id := int64(0)
		put := func(at Time) {
			s.At(at, Event{Kind: 3, A: int32(-id), B: id})
			want = append(want, plain{at, id})
			id++
		}
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			put(Time(rapid.IntRange(0, 5).Draw(t, "at")))
		}
		var e Event
		for s.Next(&e) {
			slices.SortStableFunc(want, func(a, b plain) int { return int(a.at - b.at) })
			if e.At != want[0].at || e.B != want[0].id || e.A != int32(-e.B) || e.Kind != 3 || s.Now() != e.At {
				t.Fatalf("%+v comes, want %+v", e, want[0])
			}
			if want = want[1:]; len(want) != len(s.heap) {
				t.Fatalf("%d are to come, want %d", len(s.heap), len(want))
			}
			if id < 80 && rapid.Bool().Draw(t, "more") {
				put(e.At + Time(rapid.IntRange(0, 3).Draw(t, "later")))
			}
		}
		if len(want) > 0 || s.Events() != id {
			t.Fatalf("%d events came of %d", s.Events(), id)
		}
	})
}

func TestThePastIsRefused(t *testing.T) {
	mustPanic := func(name string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s is taken", name)
			}
		}()
		f()
	}
	var s Sim
	s.At(5, Event{})
	s.Next(new(Event))
	mustPanic("an event before now", func() { s.At(4, Event{}) })
	v := NewServer(1)
	v.Serve(5, 1)
	mustPanic("a job before the last", func() { v.Serve(4, 1) })
	mustPanic("a unit that was not lent", func() { NewPool(1).Release(&s) })
}

// TestServerByHand: two servers, four jobs.
//
//	arrival 0 takes 10 → 0…10    arrival 2 waits for the first → 10…11
//	arrival 1 takes 20 → 1…21    arrival 3 waits behind it     → 11…14
func TestServerByHand(t *testing.T) {
	v := NewServer(2)
	for i, j := range []struct{ at, takes, done Time }{{0, 10, 10}, {1, 20, 21}, {2, 1, 11}, {3, 3, 14}, {30, 5, 35}} {
		if done := v.Serve(j.at, j.takes); done != j.done {
			t.Errorf("job %d is done at %d, want %d", i, done, j.done)
		}
	}
	s := v.Stats()
	if s.Jobs != 5 || s.Busy != 39 || s.Waited != 8+8 || s.Longest != 8 || s.Queue != 2 {
		t.Errorf("%+v", s)
	}
	if u := s.Utilisation(39); u != 0.5 {
		t.Errorf("utilisation %v", u)
	}
	if q := s.MeanQueue(32); q != 0.5 {
		t.Errorf("mean queue %v", q)
	}
}

// job of the plain twin.
type job struct{ at, takes Time }

// step is the plain twin of both resources: time passes tick by tick.
func step(k int, jobs []job) (done []Time, waited Time, queue int) {
	done = make([]Time, len(jobs))
	left := make([]Time, k)
	of := make([]int, k)
	for i := range of {
		of[i] = -1
	}
	next, finished := 0, 0
	var line []int
	for now := Time(0); finished < len(jobs); now++ {
		for i := range k {
			if of[i] >= 0 && left[i] == 0 {
				done[of[i]] = now
				of[i] = -1
				finished++
			}
		}
		for next < len(jobs) && jobs[next].at == now {
			line = append(line, next)
			next++
		}
		for i := range k {
			if of[i] < 0 && len(line) > 0 {
				of[i], left[i] = line[0], jobs[line[0]].takes
				line = line[1:]
			}
		}
		queue = max(queue, len(line))
		waited += Time(len(line))
		for i := range k {
			if of[i] >= 0 {
				left[i]--
			}
		}
	}
	return done, waited, queue
}

func drawJobs(t *rapid.T) []job {
	jobs := make([]job, rapid.IntRange(1, 12).Draw(t, "jobs"))
	at := Time(0)
	for i := range jobs {
		at += Time(rapid.IntRange(0, 4).Draw(t, "gap"))
		jobs[i] = job{at, Time(rapid.IntRange(1, 6).Draw(t, "takes"))}
	}
	return jobs
}

func TestServerStepped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, jobs := rapid.IntRange(1, 5).Draw(t, "servers"), drawJobs(t)
		want, waited, queue := step(k, jobs)
		v := NewServer(k)
		for i, j := range jobs {
			if done := v.Serve(j.at, j.takes); done != want[i] {
				t.Fatalf("job %d of %v is done at %d, want %d", i, jobs, done, want[i])
			}
		}
		if s := v.Stats(); s.Waited != float64(waited) || s.Queue != queue || s.Jobs != int64(len(jobs)) {
			t.Fatalf("%+v, want %d waited, %d at once", s, waited, queue)
		}
	})
}

// A pool whose units are given back after a job's duration is k servers.
func TestPoolStepped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, jobs := rapid.IntRange(1, 5).Draw(t, "units"), drawJobs(t)
		want, _, queue := step(k, jobs)
		const arrive, granted, finish = 0, 1, 2
		var s Sim
		p := NewPool(k)
		for i, j := range jobs {
			s.At(j.at, Event{Kind: arrive, B: int64(i)})
		}
		got := make([]Time, len(jobs))
		times, waited := 0, 0
		for e := (Event{}); s.Next(&e); {
			switch e.Kind {
			case arrive:
				if !p.Acquire(&s, Event{Kind: granted, B: e.B}) {
					break
				}
				fallthrough
			case granted:
				times++
				s.After(jobs[e.B].takes, Event{Kind: finish, B: e.B})
			case finish:
				got[e.B] = s.Now()
				p.Release(&s)
			}
			waited = max(waited, p.Waiting())
			if p.Lent() > k || p.Lent() < k && p.Waiting() > 0 {
				t.Fatalf("%d of %d lent, %d wait", p.Lent(), k, p.Waiting())
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("done at %v, want %v", got, want)
		}
		if times != len(jobs) || p.Lent() != 0 || waited < queue {
			t.Fatalf("granted %d, %d waited, want %d; %d are lent", times, waited, queue, p.Lent())
		}
	})
}

// Poisson arrivals at one server wait as Pollaczek and Khinchine say: ρ/(2(1−ρ)) services
// of fixed length, and twice that of exponential ones.
func TestQueuesByFormula(t *testing.T) {
	const service, jobs = 1000 * Nanosecond, 400_000
	for _, c := range []struct {
		name        string
		rho         float64
		exponential bool
	}{{"M/D/1", 0.5, false}, {"M/D/1", 0.8, false}, {"M/M/1", 0.5, true}, {"M/M/1", 0.8, true}} {
		r := rng.New(rng.Key(1, uint64(100*c.rho)))
		draw := func(mean Time) Time { return Time(-math.Log(1-r.Float64()) * float64(mean)) }
		v := NewServer(1)
		at, end := Time(0), Time(0)
		for range jobs {
			at += draw(Time(float64(service) / c.rho))
			takes := Time(service)
			if c.exponential {
				takes = draw(service)
			}
			end = v.Serve(at, takes)
		}
		want := c.rho / (2 * (1 - c.rho))
		if c.exponential {
			want *= 2
		}
		s := v.Stats()
		if got := s.Waited / jobs / float64(service); math.Abs(got/want-1) > 0.05 {
			t.Errorf("%s at %v: jobs wait %.3f services, want %.3f", c.name, c.rho, got, want)
		}
		if got := s.Utilisation(end); math.Abs(got-c.rho) > 0.01 {
			t.Errorf("%s: utilisation %.3f, want %.3f", c.name, got, c.rho)
		}
		if got := s.MeanQueue(end); math.Abs(got/(want*c.rho)-1) > 0.05 {
			t.Errorf("%s: %.3f wait, want %.3f", c.name, got, want*c.rho)
		}
	}
}

func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Histogram
		var all []Time
		sum := Time(0)
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			x := Time(rapid.Int64Range(0, 1<<rapid.IntRange(1, 44).Draw(t, "bits")).Draw(t, "x"))
			h.Add(x)
			all, sum = append(all, x), sum+x
		}
		slices.Sort(all)
		n := len(all)
		if h.Count() != int64(n) || h.Mean() != sum/Time(n) || h.most != all[n-1] {
			t.Fatalf("%d, mean %d, most %d of %v", h.Count(), h.Mean(), h.most, all)
		}
		for _, q := range []float64{0, 0.5, 0.9, 1} {
			want := all[max(0, int(math.Ceil(q*float64(n)))-1)]
			if got := h.Quantile(q); got < want || float64(got) > float64(want)*(1+1.0/16) {
				t.Fatalf("quantile %v is %d, want %d", q, got, want)
			}
		}
	})
	for b := range buckets {
		if c := ceiling(b); c >= 0 && bucket(c) != b {
			t.Fatalf("bucket %d ends at %d, which is in %d", b, c, bucket(c))
		}
	}
	if (&Histogram{}).Mean() != 0 {
		t.Error("nothing has a mean")
	}
}

// churn runs a model of n events, of which `pending` are in the queue at any time.
func churn(s *Sim, v *Server, pending, n int) {
	r := rng.New(7)
	for i := range pending {
		s.After(Time(r.Uint32n(1000)), Event{B: int64(i)})
	}
	for e := (Event{}); n > 0 && s.Next(&e); n-- {
		s.At(v.Serve(s.Now(), Time(r.Uint32n(16)))+Time(r.Uint32n(100_000)), Event{Kind: 1, B: e.B})
	}
}

func TestNothingIsAllocated(t *testing.T) {
	var s Sim
	v := NewServer(2)
	churn(&s, v, 100, 10_000)
	if n := testing.AllocsPerRun(5, func() {
		churn(&s, v, 0, 10_000)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// The same model gives the same run.
func TestDeterminism(t *testing.T) {
	var ends [2]Time
	for i := range ends {
		var s Sim
		churn(&s, NewServer(3), 50, 20_000)
		ends[i] = s.Now()
	}
	if ends[0] != ends[1] {
		t.Error(ends)
	}
}

// BenchmarkEvents takes an event and schedules the next, with 256 in the queue.
func BenchmarkEvents(b *testing.B) {
	var s Sim
	r := rng.New(7)
	for range 256 {
		s.After(Time(r.Uint32n(1000)), Event{})
	}
	b.ReportAllocs()
	b.ResetTimer()
	var e Event
	for range b.N {
		s.Next(&e)
		s.After(Time(r.Uint64()&0xfffff), e)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}

// BenchmarkServed is the same with a server between them.
func BenchmarkServed(b *testing.B) {
	var s Sim
	b.ReportAllocs()
	churn(&s, NewServer(4), 256, b.N)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}
