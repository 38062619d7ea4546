// Command simulated holds `simulate drives` against epochs that were measured on the drive
// that is here. In turn, several times, it measures what a data sheet would say of the drive
// (latency, random reads of 4 KiB, reads in sequence), trains on each store and records the
// reads, and replays them on a drive of these figures: seconds of an epoch, measured and
// simulated, and the error between them. The figures are taken before the epochs, and nothing
// is fitted. What else the simulation assumes is its presets' for a recorded store: 0.244 µs of
// a processor for a request, which are submitted one after another; and no link, as nothing
// is copied to a GPU.
//
// A throttled drive is faster for a second or more after it was idle: no figure, and no
// epoch, counts before the drive has been loaded for three seconds, and those that count take
// ten or more together. A round takes a minute for the figures and half of one for a store.
//
// In a directory with room for some 6 GB it makes the graph, samples and pack that are not
// there yet. It needs the program beside itself and nothing else:
//
//	make build && go build -o bin/bench/ ./bench/simulated
//	bin/bench/simulated -bin bin/diskgnn -dir DIR
//
// It prints each round, and medians with the least and the most, as lines of JSON, and a
// table on standard error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"diskgnn/bench/internal/tool"
	"diskgnn/dataset"
	"diskgnn/internal/driverate"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/simulate/drives"
	"diskgnn/simulate/trace"
)

func main() {
	log.SetFlags(0)
	b := bench{Tool: tool.Flag()}
	flag.StringVar(&b.dir, "dir", "", "directory for the graph, samples, pack and runs")
	flag.StringVar(&b.kind, "io", "auto", "--io")
	flag.StringVar(&b.engine, "engine", "cpu", "--engine; none: the loader alone")
	flag.StringVar(&b.cache, "ram-cache", "5%", "--ram-cache, and the pack's --cache")
	flag.StringVar(&b.memory, "memory", "4GiB", "--memory")
	flag.IntVar(&b.hidden, "hidden", 16, "--hidden: little, so that the drive is the bound")
	nodes := flag.Int("nodes", 4_000_000, "of the graph")
	dim := flag.Int("dim", 256, "float32s of a row")
	seeds := flag.Int("seeds", 16_000, "of an epoch")
	stores := flag.String("stores", "rows,ginex,packed", "stores to train on")
	rounds := flag.Int("rounds", 3, "rounds")
	flag.Parse()
	if b.dir == "" {
		log.Fatal("simulated: -dir is missing")
	}
	b.stores = strings.Split(*stores, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := b.run(ctx, *nodes, *dim, *seeds, *rounds); err != nil {
		log.Fatal("simulated: ", err)
	}
}

// bench is what the rounds share.
type bench struct {
	*tool.Tool
	dir, kind, engine, cache, memory string
	hidden                           int
	stores                           []string

	drive  *tool.Drive
	epochs map[string]int // of a training on each store
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// round is what one round found.
type round struct {
	Figures figures  `json:"figures"`
	Stores  []result `json:"stores"`
}

// figures are the drive's, as a data sheet has them.
type figures struct {
	drives.Drive
	Random []random `json:"random"`
}

type random struct {
	Depth             int     `json:"depth"`
	RequestsPerSecond float64 `json:"requests_per_second"`
}

// result is what was found of one store: seconds of an epoch.
type result struct {
	Store     string  `json:"store"`
	Epochs    int     `json:"epochs"` // that count
	Measured  float64 `json:"measured_seconds"`
	Simulated float64 `json:"simulated_seconds"`
	Error     float64 `json:"error"` // of the simulated, as a fraction of the measured
	Requests  int64   `json:"requests"`
	BytesRead int64   `json:"bytes_read"` // of an epoch, likewise
	Sampling  float64 `json:"sampling_seconds"`
	Assembled float64 `json:"assembling_seconds"`
	Computing float64 `json:"computing_seconds"`
	Bound     string  `json:"bound"` // of the simulated
}

func (b *bench) run(ctx context.Context, nodes, dim, seeds, rounds int) error {
	if err := b.prepare(ctx, nodes, dim, seeds); err != nil {
		return err
	}
	var found []round
	for range rounds {
		r, err := b.round(ctx)
		if err != nil {
			return err
		}
		if err := tool.Print(r); err != nil {
			return err
		}
		found = append(found, r)
	}
	return b.summarize(found)
}

// prepare makes what is not there, and learns how long the epochs are.
func (b *bench) prepare(ctx context.Context, nodes, dim, seeds int) error {
	ratio := strconv.FormatFloat(float64(seeds)/float64(nodes), 'g', -1, 64)
	for _, args := range [][]string{
		{"generate", "--out", b.path("graph"), "--nodes", strconv.Itoa(nodes), "--dim", strconv.Itoa(dim), "--classes", "16", "--train-ratio", ratio},
		{"presample", "--dataset", b.path("graph"), "--out", b.path("samples"), "--batch-size", "512", "--fanout", "10,10", "--eval-fanout", "1,1"},
		{"pack", "--dataset", b.path("graph"), "--samples", b.path("samples"), "--out", b.path("pack"), "--cache", b.cache, "--bands", "none"},
	} {
		log.Print(args[0])
		var any map[string]any
		if err := b.Run(ctx, &any, args...); err != nil {
			return err
		}
	}
	b.drive = tool.NewDrive(b.kind, filepath.Join(b.path("graph"), dataset.FeaturesFile))
	b.epochs = map[string]int{}
	for _, store := range b.stores {
		t, err := b.train(ctx, store, 2)
		if err != nil {
			return err
		}
		b.epochs[store] = tool.SteadyEpochs(1, 1/t.Epochs[1].Seconds)
		log.Printf("%s: %d epochs of some %.3g s", store, b.epochs[store], t.Epochs[1].Seconds)
	}
	return nil
}

// train trains on a store and records what it reads.
func (b *bench) train(ctx context.Context, store string, epochs int) (t tool.Training, err error) {
	if err := errors.Join(os.RemoveAll(b.path("run")), os.RemoveAll(b.path("trace"))); err != nil {
		return t, err
	}
	args := []string{"train", "--store", store, "--out", b.path("run"), "--record", b.path("trace"), "--io", b.kind, "--engine", b.engine, "--memory", b.memory,
		"--ram-cache", b.cache, "--hidden", strconv.Itoa(b.hidden), "--epochs", strconv.Itoa(epochs), "--validate-every", strconv.Itoa(epochs), "--checkpoint-every", "0"}
	if store == "packed" {
		args = append(args, "--pack", b.path("pack"))
	} else {
		args = append(args, "--dataset", b.path("graph"), "--samples", b.path("samples"))
	}
	return t, b.Run(ctx, &t, args...)
}

func (b *bench) round(ctx context.Context) (r round, err error) {
	if r.Figures, err = b.measure(ctx); err != nil {
		return r, err
	}
	for _, store := range b.stores {
		one, err := b.compare(ctx, store, r.Figures.Drive)
		if err != nil {
			return r, fmt.Errorf("%s: %w", store, err)
		}
		log.Printf("%s: measured %.4g s, simulated %.4g s, %+.1f %%", store, one.Measured, one.Simulated, 100*one.Error)
		r.Stores = append(r.Stores, one)
	}
	return r, nil
}

// measure takes the drive's figures.
func (b *bench) measure(ctx context.Context) (f figures, err error) {
	most := 0.0
	for i, depth := range []int{1, 32, 128, 512} {
		rate, err := b.random(ctx, depth, uint64(i))
		if err != nil {
			return f, err
		}
		f.Random = append(f.Random, random{depth, rate})
		most = max(most, rate)
	}
	sequential, err := b.drive.Rate(ctx)
	if err != nil {
		return f, err
	}
	f.Drive = drives.Drive{
		LatencyMicros: 1e6 / f.Random[0].RequestsPerSecond, Requests: int64(most), Bytes: int64(sequential), Depth: 1024,
		Source: "measured: the latency of reads one by one, the most requests of these depths, the fastest reads in sequence",
	}
	log.Printf("drive: %.0f µs, %.0f requests/s, %.3g GB/s", f.LatencyMicros, most, sequential/1e9)
	return f, nil
}

// random returns the reads of 4 KiB per second that the drive keeps up with so many in flight.
func (b *bench) random(ctx context.Context, depth int, seed uint64) (perSecond float64, err error) {
	stack, _, err := all.Open(b.kind, iostack.Options{Workers: depth})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stack.Close()) }()
	rate, err := iostack.Random(ctx, stack, b.drive.Paths[0], drives.Page, seed<<32, driverate.Sustained)
	return rate.PerSecond, err
}

// compare trains on a store, and simulates the epochs that count.
func (b *bench) compare(ctx context.Context, store string, d drives.Drive) (r result, err error) {
	t, err := b.train(ctx, store, b.epochs[store])
	if err != nil {
		return r, err
	}
	seconds := make([]float64, len(t.Epochs))
	for i, e := range t.Epochs {
		seconds[i] = e.Seconds
	}
	first := tool.SteadyFrom(seconds)
	var w drives.Workload
	h, err := trace.Open(vfs.OS, b.path("trace"), func(from *trace.Reader, batch *trace.Batch) error {
		w.LongestRead, w.Files = int64(from.Header().LongestRead), from.Files()
		return w.Add(batch)
	})
	if err != nil {
		return r, err
	}
	loads, err := drives.Plan("recorded", &w, drives.Caches{Warmup: first * h.BatchesPerEpoch})
	if err != nil {
		return r, err
	}
	const none = 1 << 49 // bytes per second of a link that nothing waits for
	on := drives.Machine{Drive: d, Drives: 1, Link: none, Software: drives.Known().Software["recorded"], Slots: h.Slots}
	on.Software.InFlight = h.InFlight
	got, err := drives.Run(ctx, loads, on)
	if err != nil {
		return r, err
	}
	n := len(t.Epochs) - first
	each := 1 / float64(n)
	r = result{
		Store: store, Epochs: n, Measured: tool.SteadySeconds(t.Epochs), Simulated: got.Seconds * each,
		Requests: got.Requests / int64(n), BytesRead: got.BytesRead / int64(n), Sampling: got.SampleSeconds * each, Assembled: got.AssembleSeconds * each, Computing: got.ComputeSeconds * each, Bound: got.Bound,
	}
	r.Error = r.Simulated/r.Measured - 1
	return r, nil
}

// summarize prints the spreads of all rounds, and a table of their medians.
func (b *bench) summarize(found []round) error {
	out := map[string]any{"figures": tool.Summary(found,
		tool.Named("latency_us", func(r round) float64 { return r.Figures.LatencyMicros }),
		tool.Named("requests_per_second", func(r round) float64 { return float64(r.Figures.Requests) }),
		tool.Named("bytes_per_second", func(r round) float64 { return float64(r.Figures.Bytes) }),
	)}
	table := tabwriter.NewWriter(os.Stderr, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "store\tmeasured, s\tsimulated, s\terror\tbound")
	for i, store := range b.stores {
		var of []result
		for _, r := range found {
			of = append(of, r.Stores[i])
		}
		out[store] = tool.Summary(of,
			tool.Named("measured_seconds", func(r result) float64 { return r.Measured }),
			tool.Named("simulated_seconds", func(r result) float64 { return r.Simulated }),
			tool.Named("error", func(r result) float64 { return r.Error }),
		)
		spread := func(f func(result) float64) tool.Spread {
			var v []float64
			for _, r := range of {
				v = append(v, f(r))
			}
			return tool.SpreadOf(v)
		}
		e := spread(func(r result) float64 { return r.Error })
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%+.0f %% (%+.0f–%+.0f)\t%s\n", store, spread(func(r result) float64 { return r.Measured }), spread(func(r result) float64 { return r.Simulated }),
			math.Round(100*e.Median), 100*e.Min, 100*e.Max, of[len(of)-1].Bound)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return tool.Print(out)
}
