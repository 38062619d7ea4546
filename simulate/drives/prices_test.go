package drives

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
	"diskgnn/internal/vfs"
	"diskgnn/simulate/kernel"
	"diskgnn/simulate/trace"
)

// TestReport: the totals of the report, to the dollar.
func TestReport(t *testing.T) {
	p, err := ReadPrices(vfs.OS, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"a": 48_971, "b": 78_794, "c": 8 * 45_275} {
		m, err := p.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.TCO(m); got != want {
			t.Errorf("machine %s costs %v, want %v", name, got, want)
		}
	}
	known := Known()
	for name, m := range p.Machines {
		if _, ok := known.Links[m.Link]; !ok {
			t.Errorf("machine %s has the link %q, which nothing is known of", name, m.Link)
		}
	}
	for name := range p.Drives {
		if _, ok := known.Drives[name]; !ok {
			t.Errorf("the drive %s has a price, and nothing is known of it", name)
		}
	}
	if _, err := p.Find("d"); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "the machines are a, b, c") {
		t.Error(err)
	}
}

func TestMemoryBeyondTheChassis(t *testing.T) {
	p := Prices{MemoryPerGiB: 3, Drives: map[string]float64{"d": 10}}
	m := Priced{Chassis: 100, Drive: "d", MemoryGiB: 4, Nodes: 2}
	for memory, want := range map[int64]float64{0: 2 * 120, 4 << 30: 2 * 120, 6 << 30: 2 * 126} {
		if got := p.With(m, 2, memory); got != want {
			t.Errorf("with %d bytes it costs %v, want %v", memory, got, want)
		}
	}
}

func TestFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.yaml")
	read := func(text string) (*Prices, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadPrices(vfs.OS, file)
	}
	p, err := read("machines: {m: {chassis: 5, drive: d, drives: 2, nodes: 3}}\ndrives: {d: 1.5}\n")
	if err != nil || p.TCO(p.Machines["m"]) != 24 || p.Currency != "USD" {
		t.Error(p, err)
	}
	for text, says := range map[string]string{
		"currency: EUR": "no machines",
		"machines: {m: {chassis: 5, nodes: 1, colour: 3}}":               `unknown field "colour"`,
		"machines: {m: {chassis: -5, nodes: 1}}":                         "chassis of machine m: -5 is not a price",
		"machines: {m: {chassis: 5}}":                                    "machine m: 0 nodes",
		"machines: {m: {nodes: 1}}":                                      "its total cost is not more than 0",
		"machines: {m: {chassis: 5, nodes: 1, gpus: 1, gpu: x}}":         `the GPU "x" has no price`,
		"machines: {m: {chassis: 5, nodes: 1, drives: 1, drive: x}}":     `the drive "x" has no price`,
		"machines: {m: {chassis: 5, nodes: 1, drives: -1}}":              "-1 drives",
		"machines: {m: {chassis: 5, nodes: 1}}\ndrives: {d: .nan}":       "drive d: NaN is not a price",
		"machines: {m: {chassis: 5, nodes: 1}}\nmemory_per_gib: 1e100\n": "memory_per_gib",
	} {
		if _, err := read(text); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	if _, err := ReadPrices(vfs.OS, file+"x"); err == nil {
		t.Error("a file that is not there")
	}
}

// TestSuggestByHand: reading takes 100 ms on one drive, computing 22. With n drives a batch
// takes max(100/n, 22), the last 20 more, and costs 100 + 10·n: 11,000, 6,000, 4,333, 3,500, 3,300 with five,
// which compute just as long as with more.
func TestSuggestByHand(t *testing.T) {
	p := &Prices{Drives: map[string]float64{"d": 10}}
	m := Priced{Chassis: 100, Drive: "d", Nodes: 1}
	load := Load{Striped: true, Reads: []Reads{{Bytes: 1 << 20, Count: 1000}}, Compute: 22 * kernel.Millisecond}
	on := Machine{
		Drive: Drive{Requests: 1 << 40, Bytes: 10_000 << 20, Depth: 1 << 20}, Link: 1 << 50, Slots: 100,
		Software: Software{Threads: 1, InFlight: 1 << 20},
	}
	s, err := p.Suggest(m, on, 12, []int64{0}, func(int64) ([]Load, error) {
		loads := make([]Load, 1000)
		for i := range loads {
			loads[i] = load
		}
		return loads, nil
	})
	if err != nil || s.Drives != 5 || s.Cost != 150 || math.Abs(s.Seconds-22.02) > 1e-3 || s.PerCost != 1000/s.Seconds/150 {
		t.Errorf("%+v, %v", s, err)
	}
	failed := errors.New("no plan")
	if _, err := p.Suggest(m, on, 12, []int64{0}, func(int64) ([]Load, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
}

// What is suggested without a simulation reaches nine tenths of the best of all that were
// simulated, for any prices and workloads.
func TestSuggestionHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Prices{
			Drives:       map[string]float64{"d": float64(rapid.IntRange(20, 3000).Draw(t, "drive"))},
			MemoryPerGiB: float64(rapid.IntRange(0, 16_000_000).Draw(t, "memory")), // the table is small
		}
		m := Priced{Chassis: float64(rapid.IntRange(500, 40_000).Draw(t, "chassis")), Drive: "d", Nodes: 1}
		store := rapid.SampledFrom([]string{"rows", "packed", "gids", "mmap"}).Draw(t, "store")
		w := &Workload{Nodes: 5000, RowBytes: rapid.SampledFrom([]int64{512, 4096}).Draw(t, "row")}
		if store == "packed" {
			w.RowBytes = 64 << 10 // lest a batch is a handful of reads of 1 MiB
		}
		r := rng.New(rapid.Uint64().Draw(t, "seed"))
		compute := rapid.Int64Range(0, 10_000_000).Draw(t, "compute ns")
		rows := rapid.IntRange(800, 1600).Draw(t, "rows")
		for range 10 {
			b := trace.Batch{ComputeNanos: compute, SampleNanos: compute / 8}
			for range rows {
				x := r.Float64()
				b.Rows = append(b.Rows, uint32(x*x*x*float64(w.Nodes)))
			}
			if err := w.Add(&b); err != nil {
				t.Fatal(err)
			}
		}
		known := Known()
		on := Machine{
			Drive: known.Drives[rapid.SampledFrom([]string{"intel-p5510", "samsung-980pro", "optane-p5800x"}).Draw(t, "kind")],
			Link:  24_600_000_000, Software: known.Software[store], Slots: rapid.IntRange(1, 4).Draw(t, "slots"),
		}
		on.Drive.Requests /= 10 // lest a batch ends before the first answer
		on.Drive.Bytes /= 10
		const most = 6
		memory := []int64{0, w.TableBytes() / 4}
		plan := func(bytes int64) ([]Load, error) { return Plan(store, w, Caches{Memory: bytes}) }
		s, err := p.Suggest(m, on, most, memory, plan)
		if err != nil {
			t.Fatal(err)
		}
		best, got := 0.0, 0.0
		for _, bytes := range memory {
			loads, err := plan(bytes)
			if err != nil {
				t.Fatal(err)
			}
			for n := 1; n <= most; n++ {
				on.Drives = n
				res, err := Run(context.Background(), loads, on)
				if err != nil {
					t.Fatal(err)
				}
				tpc := PerCost(len(loads), res.Seconds, p.With(m, n, bytes))
				best = max(best, tpc)
				if n == s.Drives && bytes == s.Memory {
					got = tpc
				}
			}
		}
		if got < 0.9*best {
			t.Fatalf("%+v reaches %.3f of the best", s, got/best)
		}
	})
}
