package drives

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/simulate/kernel"
)

const us = kernel.Microsecond

// plain is a machine of round numbers: a drive serves 4 KiB in 10 µs and answers after 100,
// the link carries 4096 bytes in a µs, threads cost nothing.
func plain() Machine {
	return Machine{
		Drive: Drive{LatencyMicros: 100, Requests: 100_000, Bytes: 409_600_000, Depth: 1024}, Drives: 1, Link: 4_096_000_000,
		Software: Software{Threads: 1, InFlight: 1024}, Slots: 1,
	}
}

func mustRun(t testing.TB, loads []Load, m Machine) Result {
	t.Helper()
	r, err := Run(context.Background(), loads, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestByHand plays small loads on round numbers. Times are in µs.
func TestByHand(t *testing.T) {
	three := Load{Reads: []Reads{{Bytes: 4096, Count: 3}}, Copy: 3 * 4096, Sample: 7 * us, Compute: 5 * us, Rows: 3, Useful: 3 * 4096}
	direct := three
	direct.Direct, direct.Copy = true, 0
	buffered := direct
	buffered.Zero = 50 * 4096
	touched := three
	touched.Touched = 6
	for _, c := range []struct {
		name  string
		load  Load
		n     int // batches
		set   func(*Machine)
		takes float64
		bound string
	}{
		// Served at 10, 20, 30, answered 90 later; copied in 3, computed in 5.
		{"three reads", three, 1, func(*Machine) {}, 7 + 120 + 3 + 5, "latency"},
		{"one at a time", three, 1, func(m *Machine) { m.Software.InFlight = 1 }, 7 + 300 + 3 + 5, "requests in flight"},
		{"two in flight", three, 1, func(m *Machine) { m.Software.InFlight = 2 }, 7 + 200 + 3 + 5, "requests in flight"},
		{"two at the drive", three, 1, func(m *Machine) { m.Drive.Depth = 2 }, 7 + 200 + 3 + 5, ""},
		{"a thread of 20", three, 1, func(m *Machine) { m.Software.CostMicros = 20 }, 7 + 60 + 100 + 3 + 5, ""},
		{"two threads of 20", three, 1, func(m *Machine) { m.Software.CostMicros, m.Software.Threads = 20, 2 }, 7 + 40 + 100 + 3 + 5, ""},
		{"large reads", Load{Reads: []Reads{{Bytes: 409600, Count: 2}}, Striped: true}, 1, func(*Machine) {}, 2000 + 90, "drives"},
		{"large reads on two", Load{Reads: []Reads{{Bytes: 409600, Count: 2}}, Striped: true}, 1, func(m *Machine) { m.Drives = 2 }, 1000 + 90, "drives"},
		// Arriving at 100, 110, 120, each crosses in 1.
		{"direct", direct, 1, func(*Machine) {}, 7 + 121 + 5, ""},
		// A link of 40 for each: 140, 180, 220.
		{"direct, slow link", direct, 1, func(m *Machine) { m.Link /= 40 }, 7 + 220 + 5, ""},
		{"direct, of RAM too", buffered, 1, func(*Machine) {}, 7 + 121 + 5, ""},
		{"touches", touched, 1, func(m *Machine) { m.Software = Software{Threads: 1, CostMicros: 20, TouchMicros: 5} }, 7 + 3*(20+10+100) + 3 + 5, "requests in flight"},
		{"touches alone", Load{Touched: 6, Copy: 4096}, 1, func(m *Machine) { m.Software = Software{Threads: 2, TouchMicros: 5} }, 15 + 1, "threads"},
		{"nothing", Load{}, 2, func(*Machine) {}, 0, "computing"},
		{"nothing overlaps", three, 3, func(*Machine) {}, 3 * 135, ""},
		// The second batch is sampled at 14, and its reads, submitted then, are served
		// behind the first's, which ended at 37: answered at 157, copied, computed.
		{"two slots", three, 2, func(m *Machine) { m.Slots = 2 }, 37 + 30 + 90 + 3 + 5, ""},
		{"assembling", Load{Assemble: 50 * us, Compute: 20 * us, Copy: 4096}, 4, func(m *Machine) { m.Slots = 2 }, 4*50 + 1 + 20, "assembling"},
		{"assembled before it is copied", Load{Assemble: 50 * us, Copy: 100 * 4096}, 2, func(m *Machine) { m.Slots = 2 }, 50 + 2*100, "link"},
		{"computing", Load{Compute: 50 * us, Copy: 4096}, 4, func(m *Machine) { m.Slots = 2 }, 1 + 4*50, "computing"},
		{"sampling", Load{Sample: 50 * us, Copy: 4096}, 4, func(m *Machine) { m.Slots = 2 }, 4*50 + 1, "sampling"},
	} {
		m := plain()
		c.set(&m)
		r := mustRun(t, slices.Repeat([]Load{c.load}, c.n), m)
		if math.Abs(r.Seconds*1e6-c.takes) > 1e-6 {
			t.Errorf("%s: %.3f µs, want %.3f", c.name, r.Seconds*1e6, c.takes)
		}
		if c.bound != "" && r.Bound != c.bound {
			t.Errorf("%s: bound by %s, want %s (%+v)", c.name, r.Bound, c.bound, r)
		}
	}
}

func TestResultByHand(t *testing.T) {
	l := Load{Reads: []Reads{{Bytes: 4096, Count: 2}, {Bytes: 8192, Count: 1}}, Copy: 4096, Sample: 7 * us, Assemble: 19 * us, Compute: 5 * us, Rows: 4, Hits: 1, Useful: 2000}
	got := mustRun(t, []Load{l, l}, plain())
	// Of one batch: served until 10, 20, 40; answered at 100, 110, 130; assembled at 149; copied at 150.
	read := 2 * 150e-6
	want := Result{
		Drives: 1, Batches: 2, Seconds: 2 * (7 + 150 + 5) * 1e-6, SampleSeconds: 14e-6, ReadSeconds: read, AssembleSeconds: 38e-6, ComputeSeconds: 10e-6,
		Rows: 8, HitRatio: 0.25, Requests: 6, BytesRead: 2 * 4 * 4096, UsefulBytes: 4000,
		RequestsPerSecond: 6 / read, BytesPerSecond: 8 * 4096 / read, UsefulPerSecond: 4000 / read,
		DrivesBusy: 80.0 / 300, LinkBusy: 2.0 / 300, InFlight: 2 * 340.0 / 1024 / 300,
		MeanLatency: 340.0 / 3 * 1e-6, P99Latency: 130e-6, DriveQueue: 2 * 30.0 / 324, Bound: "latency",
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-5*max(math.Abs(a), math.Abs(b)) })); d != "" {
		t.Error(d)
	}
}

// The first batch is copied while the second is assembled, the second read while the first is:
// neither adds to the time of assembling.
func TestEstimateOfDifferentBatches(t *testing.T) {
	loads := []Load{{Assemble: us, Copy: 1000, Rows: 1}, {Assemble: us, Touched: 1, Rows: 1}}
	m := plain()
	m.Slots, m.Software.TouchMicros = 2, 1
	if got, r := Estimate(loads, m), mustRun(t, loads, m); math.Abs(got-2e-6) > 1e-12 || math.Abs(r.Seconds-2e-6) > 1e-12 {
		t.Errorf("estimated %v, simulated %v, want 2e-06", got, r.Seconds)
	}
}

func drawLoad(t *rapid.T, reads int64) Load {
	l := Load{
		Sample: kernel.Time(rapid.IntRange(0, 50).Draw(t, "sample")) * us, Compute: kernel.Time(rapid.IntRange(0, 200).Draw(t, "compute")) * us,
		Assemble: kernel.Time(rapid.IntRange(0, 100).Draw(t, "assemble")) * us,
		Striped:  rapid.Bool().Draw(t, "striped"), Direct: rapid.Bool().Draw(t, "direct"),
		Touched: rapid.Int64Range(0, 20).Draw(t, "touched"), Rows: 10, Useful: 1000,
	}
	if l.Direct {
		l.Zero = rapid.Int64Range(0, 1<<20).Draw(t, "zero")
	} else {
		l.Copy = rapid.Int64Range(0, 1<<20).Draw(t, "copy")
	}
	for _, bytes := range []int64{Page, 2 * Page, 1 << 20}[:rapid.IntRange(0, 3).Draw(t, "kinds")] {
		l.Reads = append(l.Reads, Reads{Bytes: bytes, Count: rapid.Int64Range(0, reads).Draw(t, "count")})
	}
	return l
}

func drawMachine(t *rapid.T) Machine {
	return Machine{
		Drive: Drive{
			LatencyMicros: rapid.Float64Range(0, 300).Draw(t, "latency"), Requests: rapid.Int64Range(10_000, 3_000_000).Draw(t, "requests"),
			Bytes: rapid.Int64Range(100_000_000, 9_000_000_000).Draw(t, "bytes"), Depth: rapid.IntRange(1, 300).Draw(t, "depth"),
		},
		Drives: rapid.IntRange(1, 5).Draw(t, "drives"), Link: rapid.Int64Range(1e9, 50e9).Draw(t, "link"), Slots: rapid.IntRange(1, 4).Draw(t, "slots"),
		Software: Software{
			Threads: rapid.IntRange(1, 8).Draw(t, "threads"), CostMicros: rapid.Float64Range(0, 30).Draw(t, "cost"),
			TouchMicros: rapid.Float64Range(0, 3).Draw(t, "touch"), InFlight: rapid.IntRange(0, 200).Draw(t, "in flight"),
		},
	}
}

// A run is never faster than the estimate, nor slower than all of it one after another; and
// what goes in comes out.
func TestRunProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loads := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Load { return drawLoad(t, 40) }), 1, 6).Draw(t, "loads")
		m := drawMachine(t)
		if m.Software.InFlight > 0 {
			m.Software.InFlight = max(m.Software.InFlight, m.Software.Threads)
		}
		r, err := Run(context.Background(), loads, m)
		if err != nil {
			t.Fatal(err)
		}
		// Each duration of a run is rounded to picoseconds.
		rounding := 1e-12 * float64(10*len(loads)+10*int(r.Requests))
		if low, high := Estimate(loads, m), serial(loads, m); r.Seconds < low-rounding || r.Seconds > high+rounding {
			t.Fatalf("%v s, not within %v and %v", r.Seconds, low, high)
		}
		again, err := Run(context.Background(), loads, m)
		if err != nil || again != r {
			t.Fatalf("%+v, then %+v, %v", r, again, err)
		}
		n, bytes := int64(0), int64(0)
		for i := range loads {
			for _, one := range loads[i].Reads {
				n, bytes = n+one.Count, bytes+one.Count*one.Bytes
			}
		}
		if r.Requests != n || r.BytesRead != bytes || r.Batches != len(loads) {
			t.Fatalf("%+v: want %d requests, %d bytes", r, n, bytes)
		}
		for _, share := range []float64{r.DrivesBusy, r.LinkBusy, r.ThreadsBusy, r.InFlight} {
			if share < 0 || share > 1+1e-9 {
				t.Fatalf("%+v", r)
			}
		}
		if r.ReadSeconds > r.Seconds || r.P99Latency < r.MeanLatency && n == 1 {
			t.Fatalf("%+v", r)
		}
		m.Drives *= 2
		if more := Estimate(loads, m); more > Estimate(loads, Machine{m.Drive, m.Drives / 2, m.Link, m.Software, m.Slots}) {
			t.Fatal("more drives are estimated to be slower")
		}
	})
}

// Queues are empty at the end: all that was lent is given back.
func TestRunEndsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loads := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Load { return drawLoad(t, 40) }), 1, 6).Draw(t, "loads")
		r := newRun(loads, drawMachine(t))
		r.start()
		for e := (kernel.Event{}); r.Next(&e); {
			r.handle(&e)
		}
		n := int64(0)
		for i := range loads {
			k, _ := loads[i].Requests()
			n += k
		}
		if r.total != n || r.latency.Count() != n || len(r.idle) != len(r.requests) || r.inFlight != 0 || r.reading != 0 || r.slots.Lent() != 0 || r.issuing != len(loads) {
			t.Fatalf("%d of %d requests, %d in flight, %d batches submitted", r.total, n, r.inFlight, r.issuing)
		}
		for i, q := range r.queues {
			if q.Lent() != 0 || q.Waiting() != 0 {
				t.Fatalf("drive %d has %d requests, %d wait", i, q.Lent(), q.Waiting())
			}
		}
	})
}

// For large batches of which none overlap the estimate is close.
func TestEstimateIsClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLoad(t, 1)
		l.Reads = []Reads{{Bytes: Page, Count: rapid.Int64Range(3000, 6000).Draw(t, "pages")}}
		m := drawMachine(t)
		m.Software.InFlight, m.Drive.Depth, m.Slots = 1000*m.Drives, 1024, 1
		loads := []Load{l, l}
		r, err := Run(context.Background(), loads, m)
		if err != nil {
			t.Fatal(err)
		}
		if low := Estimate(loads, m); r.Seconds > 1.25*low {
			t.Fatalf("%v s, estimated as %v: %+v", r.Seconds, low, r)
		}
	})
}

// TestEstimateByHand: in µs, of one batch, with the machine of TestByHand.
func TestEstimateByHand(t *testing.T) {
	large := Load{Reads: []Reads{{Bytes: 100 * Page, Count: 3}}, Striped: true, Sample: 7 * us, Compute: 5 * us, Copy: 2 * Page}
	small := Load{Reads: []Reads{{Bytes: Page, Count: 40}}, Direct: true, Zero: 60 * Page}
	assembled, slow := large, large
	assembled.Assemble, slow.Assemble = 11*us, 5000*us
	for _, c := range []struct {
		name  string
		loads []Load
		set   func(*Machine)
		want  float64
	}{
		{"three large reads", []Load{large}, func(*Machine) {}, 7 + 3000 + 90 + 2 + 5},
		{"on two drives", []Load{large}, func(m *Machine) { m.Drives = 2 }, 7 + 2000 + 90 + 2 + 5},
		{"on four", []Load{large}, func(m *Machine) { m.Drives = 4 }, 7 + 1000 + 90 + 2 + 5},
		{"one after another", []Load{large, large}, func(*Machine) {}, 2 * (7 + 3000 + 90 + 2 + 5)},
		{"at once", []Load{large, large}, func(m *Machine) { m.Slots = 2 }, 7 + 2*3000 + 5},
		{"small reads", []Load{small}, func(*Machine) {}, 400 + 90},
		{"by slow threads", []Load{small}, func(m *Machine) { m.Software.CostMicros = 20 }, 800 + 10 + 90 + 1},
		{"over a slow link", []Load{small}, func(m *Machine) { m.Link /= 10 }, 1000},
		{"one at a time", []Load{small}, func(m *Machine) { m.Software.InFlight = 1 }, 40 * (10 + 90 + 1)},
		{"assembled", []Load{assembled}, func(*Machine) {}, 7 + 3000 + 90 + 11 + 2 + 5},
		{"assembled at once", []Load{assembled, assembled}, func(m *Machine) { m.Slots = 2 }, 7 + 2*3000 + 11 + 5},
		{"by a slow host", []Load{slow, slow}, func(m *Machine) { m.Slots = 2 }, 2*5000 + 7 + 3090 + 2 + 5},
		{"nothing", nil, func(*Machine) {}, 0},
	} {
		m := plain()
		c.set(&m)
		if got := 1e6 * Estimate(c.loads, m); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %v µs, want %v", c.name, got, c.want)
		}
	}
}

func TestEnough(t *testing.T) {
	// A drive takes 100 ms for what the link carries in 10: ten drives, less 5 %.
	l := Load{Reads: []Reads{{Bytes: Page, Count: 10_000}}, Direct: true}
	m := plain()
	m.Slots, m.Drive.LatencyMicros, m.Software.InFlight = 8, 10, 1<<20
	if n := Enough(slices.Repeat([]Load{l}, 50), m); n != 10 {
		t.Errorf("%d drives are enough, want 10", n)
	}
	if n := Enough([]Load{{Compute: us}}, m); n != 1 {
		t.Errorf("%d drives are enough for nothing", n)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		set  func(*Machine)
		kind error
		says string
	}{
		{func(m *Machine) { m.Drives = 0 }, fault.ErrUsage, "0 drives"},
		{func(m *Machine) { m.Drives = MaxDrives + 1 }, fault.ErrUsage, "1 to 1024"},
		{func(m *Machine) { m.Link = 0 }, fault.ErrUsage, "link of 0"},
		{func(m *Machine) { m.Slots = 0 }, fault.ErrUsage, "0 batches at once"},
		{func(m *Machine) { m.Drive.Requests = 0 }, fault.ErrInput, "requests_per_second"},
		{func(m *Machine) { m.Drive.Depth = 0 }, fault.ErrInput, "queue_depth"},
		{func(m *Machine) { m.Drive.LatencyMicros = math.NaN() }, fault.ErrInput, "latency_us"},
		{func(m *Machine) { m.Software.Threads = 0 }, fault.ErrInput, "threads"},
		{func(m *Machine) { m.Software.CostMicros = -1 }, fault.ErrInput, "cost_us"},
		{func(m *Machine) { m.Software.InFlight = -1 }, fault.ErrInput, "in_flight"},
	} {
		m := plain()
		c.set(&m)
		if _, err := Run(context.Background(), nil, m); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
	if _, err := Run(context.Background(), []Load{{Compute: kernel.Never}}, plain()); !errors.Is(err, fault.ErrInput) {
		t.Error("an endless batch:", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, []Load{{Reads: []Reads{{Bytes: 1, Count: 1 << 20}}}}, plain()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestPresets(t *testing.T) {
	p := Known()
	for _, s := range Stores() {
		if _, ok := p.Software[s]; !ok {
			t.Errorf("nothing is known of the software of %s", s)
		}
	}
	d := p.Drives["micron-9400"]
	if d.service(Page) != 625*kernel.Nanosecond || d.delay() != 69*us-625*kernel.Nanosecond || d.service(7_000_000_000) != kernel.Second {
		t.Errorf("%+v", d)
	}
	file := filepath.Join(t.TempDir(), "f.yaml")
	read := func(text string) (Presets, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadPresets(vfs.OS, file)
	}
	p, err := read("drives:\n  mine: {latency_us: 80, requests_per_second: 100000, bytes_per_second: 2000000000, queue_depth: 32}\nlinks:\n  pcie4x16: {bytes_per_second: 7}\n")
	if err != nil || p.Drives["mine"].Depth != 32 || p.Drives["micron-9400"] != d || p.Links["pcie4x16"].Bytes != 7 || p.Links["pcie5x16"].Bytes != 49_200_000_000 {
		t.Error(p, err)
	}
	for text, says := range map[string]string{
		"drives: {a: {latency_us: 80, requests_per_second: 1, queue_depth: 1}}": "drive a: requests_per_second and bytes",
		"drives: {a: {speed: 80}}":                    `unknown field "speed"`,
		"links: {a: {bytes_per_second: 0}}":           "link a",
		"software: {disk: {threads: 1}}":              "the stores are rows",
		"software: {rows: {threads: 0}}":              "threads 0",
		"software: {rows: {threads: 1, cost_us: -3}}": "cost_us -3",
		"drives: [": "f.yaml",
	} {
		if _, err := read(text); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	if _, err := ReadPresets(vfs.OS, file+"x"); err == nil {
		t.Error("a file that is not there")
	}
}

// BenchmarkRun simulates requests: three events each, four of them if direct.
func BenchmarkRun(b *testing.B) {
	m := plain()
	m.Drives, m.Slots = 4, 2
	r := newRun([]Load{{Reads: []Reads{{Bytes: Page, Count: int64(b.N)}}, Direct: true}}, m)
	b.ReportAllocs()
	r.start()
	for e := (kernel.Event{}); r.Next(&e); {
		r.handle(&e)
	}
	b.ReportMetric(float64(r.Events())/b.Elapsed().Seconds()/1e6, "Mevents/s")
}
