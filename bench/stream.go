package main

import (
	"context"
	"flag"
	"slices"
	"strconv"
	"time"

	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
)

// streamCommand shows the cost of streaming rows from disk to the GPU: the time of training epochs,
// over the larger of two lower bounds: the drive's time for the batches' bytes, and the GPU's time
// to compute. The drive's sustained sequential rate is measured first in each round:
//
//	go run ./bench stream -pack PACK -memory 100% -serial -- --model gat --gpu-cache 50% --ram-cache 0
//
// The arguments are passed to train. With -memory every round also trains with this share of the rows
// on the GPU. If the pack allows that no row is read from disk, this is the GPU's time alone. With
// -serial it also trains with one batch under way at a time. The first epoch of each run fills the
// caches and does not count. No epoch is followed by validation, so the drive is never idle. The
// counted epochs should read 10 GB or last ten seconds (-epochs).
//
// Rows have the share of time in which the GPU ran kernels (in steps and gathers), the number of
// busy processors, and the run's peak memory with its growth after the first epoch: anonymous
// memory by the kernel, and the GPU's by nvidia-smi.
func streamCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	h.need(f, "pack")
	h.binary = "bin/diskgnn-gpu"
	engine := f.String("engine", "gpu", "--engine")
	memory := f.String("memory", "", "--gpu-cache that holds all rows; empty: no run in memory")
	serial := f.Bool("serial", false, "also train with one batch at a time")
	epochs := f.Int("epochs", 3, "epochs of a run")
	return func(ctx context.Context, more []string) error {
		r, err := packfile.Open(vfs.OS, h.inputs["pack"])
		if err != nil {
			return err
		}
		h.every = 250 * time.Millisecond
		train := func(name string, flags ...string) side {
			args := slices.Concat([]string{"--pack", r.Dir(), "--engine", *engine, "--io", h.io, "--epochs", strconv.Itoa(*epochs), "--validate-every", strconv.Itoa(*epochs)}, more, flags)
			return side{name, func(ctx context.Context, _ int) (row, error) {
				t, err := h.train(ctx, args...)
				if err != nil {
					return nil, err
				}
				return streamed(&t, &h.watched), nil
			}}
		}
		sides := []side{coldDrive(h.io, r).side(), train("streamed")}
		computing := "streamed"
		if *memory != "" {
			computing = "in memory"
			sides = append(sides, train(computing, "--gpu-cache", *memory))
		}
		if *serial {
			sides = append(sides, train("serial", "--slots", "1"))
		}
		all, err := h.turns(ctx, sides...)
		if err != nil {
			return err
		}
		return h.report(unavoidable(all, computing))
	}
}

// streamed returns the figures of a run, as medians of its epochs if epochs have them.
func streamed(t *training, w *watched) row {
	epochs := t.Epochs[min(1, len(t.Epochs)-1):]
	busy := make(map[string][]float64)
	var links []string
	var over, shares []float64
	for i := range epochs {
		e := &epochs[i]
		over = append(over, e.Seconds/e.BoundSeconds)
		share := 0.0
		for _, s := range e.Links {
			if busy[s.Link] == nil {
				links = append(links, s.Link)
			}
			busy[s.Link] = append(busy[s.Link], s.Alone())
			if s.Link == "compute" || s.Link == "GPU gather" {
				share += s.Busy / e.Seconds
			}
		}
		shares = append(shares, share)
	}
	last := t.last()
	r := row{
		{"device", t.Device}, {"cache_rows", t.CacheRows}, {"gpu_cache_rows", t.GPUCacheRows}, {"epoch_seconds", t.epochSeconds()}, {"all_epochs", secondsOf(epochs)},
		{"useful_bytes", last.UsefulBytes}, {"bytes_read", last.BytesRead}, {"bound_stage", last.BoundLink}, {"epoch_over_slowest_stage", median(over)},
		{"gpu_busy_share", median(shares)}, {"processors_busy", w.processors},
		{"memory_allowed", t.Memory}, {"memory_planned", t.Planned}, {"peak_anonymous", w.anon.most}, {"anonymous_growth", w.anon.growth()},
		{"peak_locked", w.locked.most}, {"locked_growth", w.locked.growth()}, {"gpu_held", t.GPUBytes}, {"peak_gpu", w.gpu.most}, {"gpu_growth", w.gpu.growth()},
	}
	for _, link := range links { // of each, over its workers
		r = append(r, field{"busy_seconds_of_" + link, median(busy[link])})
	}
	return r
}

// unavoidable compares with the lower bounds: disk is the drive's time for the useful bytes of an epoch;
// compute is the GPU's time for the steps, measured with all rows in memory if that was run, else while
// rows are streamed.
func unavoidable(all found, computing string) row {
	var disk, compute, ratios []float64
	seconds, rates := all.values("streamed", "epoch_seconds"), all.values("drive", "sequential_bytes_per_second")
	for i, useful := range all.values("streamed", "useful_bytes") {
		disk = append(disk, useful/rates[i])
		compute = append(compute, all.values(computing, "busy_seconds_of_compute")[i])
		ratios = append(ratios, seconds[i]/max(disk[i], compute[i]))
	}
	r := row{{"disk_seconds", spreadOf(disk)}, {"compute_seconds", spreadOf(compute)}, {"streamed_epoch", spreadOf(seconds)}, {"ratio", spreadOf(ratios)}}
	if serial := all.values("serial", "epoch_seconds"); serial != nil {
		r = append(r, field{"serial_over_streamed", median(serial) / median(seconds)})
	}
	return r
}
