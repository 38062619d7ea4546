package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/simulate/drives"
	"diskgnn/simulate/trace"
)

// simulatedCommand compares `simulate drives` with epochs measured on the machine's drive. In turn,
// it measures the drive's data-sheet figures (latency, random reads of 4 KiB, sequential reads),
// trains on each store and records the reads, and replays them on a simulated drive with these
// figures: it prints the seconds of an epoch, measured and simulated, and the error. The figures
// are measured before the epochs, and nothing is fitted. The other assumptions are the simulation's
// presets for a recorded store: 0.244 µs of a processor for each request, submitted one after
// another; and no link, as nothing is copied to a GPU:
//
//	go run ./bench simulated -dir DIR
//
// A throttled drive is faster for a second or more after it was idle: no figure, and no epoch,
// counts before the drive has been loaded for three seconds, and the counted ones take ten seconds
// or more together. A round takes a minute for the figures and half a minute for a store. The
// command makes a missing graph, samples and pack in the directory, which needs some 6 GB.
func simulatedCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	b := simulation{harness: h}
	f.StringVar(&b.engine, "engine", "cpu", "--engine; none: the loader alone")
	f.StringVar(&b.cache, "ram-cache", "5%", "--ram-cache of train, and --cache of pack")
	f.StringVar(&b.memory, "memory", "4GiB", "--memory")
	f.IntVar(&b.hidden, "hidden", 16, "--hidden; small, so that the drive is the bound")
	nodes := f.Int("nodes", 4_000_000, "nodes of the graph")
	dim := f.Int("dim", 256, "elements of a feature row, float32")
	seeds := f.Int("seeds", 16_000, "training nodes of an epoch")
	stores := f.String("stores", "rows,ginex,packed", "stores to train on")
	return func(ctx context.Context, _ []string) error {
		if _, err := h.place(); err != nil {
			return err
		}
		graph, samples := h.path("graph"), h.path("samples")
		if err := h.do(ctx,
			[]string{"generate", "--out", graph, "--nodes", strconv.Itoa(*nodes), "--dim", strconv.Itoa(*dim), "--classes", "16", "--train-ratio", fmt.Sprint(float64(*seeds) / float64(*nodes))},
			[]string{"presample", "--dataset", graph, "--out", samples, "--batch-size", "512", "--fanout", "10,10", "--eval-fanout", "1,1"},
			[]string{"pack", "--dataset", graph, "--samples", samples, "--out", h.path("pack"), "--cache", b.cache, "--bands", "none"},
		); err != nil {
			return err
		}
		b.drive = newDrive(h.io, filepath.Join(graph, dataset.FeaturesFile))
		sides := []side{{"drive", b.sheet}}
		for store := range strings.SplitSeq(*stores, ",") {
			epochs := 0
			sides = append(sides, side{store, func(ctx context.Context, _ int) (row, error) {
				if epochs == 0 { // their duration is measured once
					t, err := b.record(ctx, store, 2)
					if err != nil {
						return nil, err
					}
					epochs = steadyEpochs(1, 1/t.Epochs[1].Seconds)
				}
				return b.compare(ctx, store, epochs)
			}})
		}
		_, err := h.turns(ctx, sides...)
		return err
	}
}

type simulation struct {
	*harness
	engine, cache, memory string
	hidden                int
	drive                 *steadyDrive
	found                 drives.Drive // of this round
}

// record trains on a store and records its reads.
func (b *simulation) record(ctx context.Context, store string, epochs int) (t training, err error) {
	if err := os.RemoveAll(b.path("trace")); err != nil {
		return t, err
	}
	args := []string{"--store", store, "--record", b.path("trace"), "--io", b.io, "--engine", b.engine, "--memory", b.memory,
		"--ram-cache", b.cache, "--hidden", strconv.Itoa(b.hidden), "--epochs", strconv.Itoa(epochs), "--validate-every", strconv.Itoa(epochs), "--checkpoint-every", "0"}
	if store == "packed" {
		return b.train(ctx, append(args, "--pack", b.path("pack"))...)
	}
	return b.train(ctx, append(args, "--dataset", b.path("graph"), "--samples", b.path("samples"))...)
}

// sheet measures the drive's data-sheet figures.
func (b *simulation) sheet(ctx context.Context, _ int) (r row, err error) {
	most, latency := 0.0, 0.0
	for i, depth := range []int{1, 32, 128, 512} {
		rate, err := b.random(ctx, depth, uint64(i))
		if err != nil {
			return nil, err
		}
		if depth == 1 {
			latency = 1e6 / rate
		}
		r = append(r, field{"requests_per_second_at_" + strconv.Itoa(depth), rate})
		most = max(most, rate)
	}
	sequential, err := b.drive.rate(ctx)
	b.found = drives.Drive{
		LatencyMicros: latency, Requests: int64(most), Bytes: int64(sequential), Depth: 1024,
		Source: "measured: the latency of reads one by one, the most requests of these depths, the fastest reads in sequence",
	}
	return append(r, field{"latency_us", latency}, field{"requests_per_second", most}, field{"bytes_per_second", sequential}), err
}

// random returns the drive's sustained random reads of 4 KiB per second, with depth in flight.
func (b *simulation) random(ctx context.Context, depth int, seed uint64) (perSecond float64, err error) {
	stack, _, err := all.Open(b.io, iostack.Options{Workers: depth})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stack.Close()) }()
	rate, err := iostack.Random(ctx, stack, b.drive.Paths[0], drives.Page, seed<<32, effort)
	return rate.PerSecond, err
}

// compare trains on a store, and simulates the counted epochs.
func (b *simulation) compare(ctx context.Context, store string, epochs int) (row, error) {
	t, err := b.record(ctx, store, epochs)
	if err != nil {
		return nil, err
	}
	n := len(steady(t.Epochs))
	var w drives.Workload
	h, err := trace.Open(vfs.OS, b.path("trace"), func(from *trace.Reader, batch *trace.Batch) error {
		w.LongestRead, w.Files = int64(from.Header().LongestRead), from.Files()
		return w.Add(batch)
	})
	if err != nil {
		return nil, err
	}
	loads, err := drives.Plan("recorded", &w, drives.Caches{Warmup: (len(t.Epochs) - n) * h.BatchesPerEpoch})
	if err != nil {
		return nil, err
	}
	const none = 1 << 49 // bytes per second of the link: too fast to be a bound
	on := drives.Machine{Drive: b.found, Drives: 1, Link: none, Software: drives.Known().Software["recorded"], Slots: h.Slots}
	on.Software.InFlight = h.InFlight
	got, err := drives.Run(ctx, loads, on)
	if err != nil {
		return nil, err
	}
	each := 1 / float64(n)
	measured, simulated := steadySeconds(t.Epochs), got.Seconds*each
	return row{
		{"epochs", n}, {"measured_seconds", measured}, {"simulated_seconds", simulated}, {"error", simulated/measured - 1},
		{"requests", got.Requests / int64(n)}, {"bytes_read", got.BytesRead / int64(n)},
		{"sampling_seconds", got.SampleSeconds * each}, {"assembling_seconds", got.AssembleSeconds * each}, {"computing_seconds", got.ComputeSeconds * each}, {"bound", got.Bound},
	}, nil
}
