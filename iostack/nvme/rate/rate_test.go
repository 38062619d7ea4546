package rate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/internal/driverate"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/gpuqueue/plain"
	"diskgnn/iostack/nvme/rate"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

func up(t *testing.T, drives, queues, depth int, o soft.Options) (cs []*nvme.Controller) {
	t.Helper()
	for range drives {
		name := filepath.Join(t.TempDir(), "drive")
		if err := os.WriteFile(name, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := soft.Open(vfs.OS, name, o)
		if err != nil {
			t.Fatal(err)
		}
		c, err := nvme.Open(context.Background(), d, nvme.Options{Queues: queues, Depth: depth + 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		cs = append(cs, c)
	}
	return cs
}

var brief = driverate.Effort{For: time.Millisecond}

// Both count the requests that the drives saw, all of the size and in the range that they
// should be.
func TestRates(t *testing.T) {
	for _, null := range []bool{false, true} {
		for _, from := range []string{"host", "gpu"} {
			var seen, wrong atomic.Int64
			o := soft.Options{Null: null, Fate: func(c *spec.Command) (f soft.Fate) {
				seen.Add(1)
				if first, n := c.Blocks(); n != 16 || first%16 != 0 || c.Opcode() != spec.Read {
					wrong.Add(1)
				}
				return f
			}}
			cs := up(t, 2, 3, 8, o)
			l := rate.Load{BlockBytes: 8192, Submitters: 2, Seed: 1, Effort: brief}
			var r rate.Result
			var err error
			if from == "host" {
				r, err = rate.Host(context.Background(), cs, l)
			} else {
				var d *cuda.Device
				if d, err = cuda.OpenEmulated((&plain.Emulator{}).Run, cuda.Options{}); err != nil {
					t.Fatal(err)
				}
				r, err = rate.GPU(context.Background(), d, cs, l)
				if device, pinned := d.Held(); device != 0 || pinned != 0 || d.Left() != nil {
					t.Errorf("left behind: %d, %d, %v", device, pinned, d.Left())
				}
				if n := r.Latency.Count(); n*12 != seen.Load() || r.Submit != time.Millisecond*1000/12 || r.Complete != r.Submit || r.Latency.Max() != 3*time.Millisecond {
					t.Errorf("%d micro-batches of 12, %d reads; %v %v %v", n, seen.Load(), r.Submit, r.Complete, r.Latency.Max())
				}
			}
			if err != nil || r.PerSecond <= 0 || r.Seconds < 1e-3 {
				t.Errorf("%s: %+v, %v", from, r.Rate, err)
			}
			if from == "host" && r.Latency.Count() != seen.Load() || r.Requests != seen.Load() || wrong.Load() > 0 {
				t.Errorf("%s: %d latencies of %d reads, %d of them wrong", from, r.Latency.Count(), seen.Load(), wrong.Load())
			}
		}
	}
}

// What fails ends the measurement, and so does its context.
func TestFailures(t *testing.T) {
	cs := up(t, 1, 1, 4, soft.Options{Fate: func(*spec.Command) soft.Fate { return soft.Fate{Status: spec.UnrecoveredReadError} }})
	if _, err := rate.Host(context.Background(), cs, rate.Load{BlockBytes: 512, Effort: brief}); !errors.Is(err, spec.UnrecoveredReadError) {
		t.Error(err)
	}
	d, _ := cuda.OpenEmulated((&plain.Emulator{}).Run, cuda.Options{})
	cs = up(t, 1, 1, 4, soft.Options{Fate: func(*spec.Command) soft.Fate { return soft.Fate{Status: spec.UnrecoveredReadError} }})
	if _, err := rate.GPU(context.Background(), d, cs, rate.Load{BlockBytes: 512, Effort: brief}); !errors.Is(err, spec.UnrecoveredReadError) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	cs = up(t, 1, 1, 4, soft.Options{})
	for _, l := range []rate.Load{{BlockBytes: 511}, {BlockBytes: 0}, {BlockBytes: 1 << 18}} {
		if _, err := rate.Host(context.Background(), cs, l); !errors.Is(err, fault.ErrUsage) {
			t.Error(err)
		}
	}
	if _, err := rate.Host(ctx, cs, rate.Load{BlockBytes: 512, Effort: driverate.Effort{For: time.Hour}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := rate.GPU(ctx, d, cs, rate.Load{BlockBytes: 512, Effort: driverate.Effort{For: time.Hour}}); err == nil {
		t.Error("queues that were used are lent")
	}
	if _, err := rate.GPU(ctx, d, up(t, 1, 1, 4, soft.Options{}), rate.Load{BlockBytes: 512, Effort: driverate.Effort{For: time.Hour}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Quantiles are exact below 32 ns, and within 1/16 above.
func TestLatencies(t *testing.T) {
	var l rate.Latencies
	if l.Quantile(0.5) != 0 {
		t.Error("quantiles of nothing")
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	var all []time.Duration
	for range 1000 {
		d := time.Duration(rnd.Uint64N(1 << rnd.IntN(40)))
		all = append(all, d)
		l.Add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.001, 0.1, 0.5, 0.9, 0.99, 1} {
		want := all[int(q*1000+0.5)-1]
		if got := l.Quantile(q); got < want || got > want+want/16 || want < 32 && got != want {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
	if l.Max() != all[999] || l.Count() != 1000 {
		t.Error(l.Max(), l.Count())
	}
}
