package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"diskgnn/graph"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
)

// loaderCommand compares the loader with the drive. In turn, it measures the drive's sustained rate
// of sequential reads on the pack's own cold files, epochs of `train --engine none`, and the decoding
// of an epoch's graphs. Epochs count after the caches are filled and the drive has been loaded for
// three seconds, and for at least ten seconds:
//
//	go run ./bench loader -pack PACK -cache 10%
func loaderCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	h.need(f, "pack")
	cache := f.String("cache", "", "--ram-cache; empty: the smallest cache of the pack")
	return func(ctx context.Context, _ []string) error {
		r, err := packfile.Open(vfs.OS, h.inputs["pack"])
		if err != nil {
			return err
		}
		if *cache == "" {
			edges := r.Index().Edges
			*cache = fmt.Sprintf("%dB", edges[len(edges)-1]*int64(r.Facts().RowBytes))
		}
		drive := coldDrive(h.io, r)
		_, err = h.turns(ctx, side{"loader", func(ctx context.Context, _ int) (row, error) {
			rate, err := drive.rate(ctx)
			if err != nil {
				return nil, err
			}
			t, err := h.train(ctx, "--pack", r.Dir(), "--engine", "none", "--epochs", strconv.Itoa(steadyEpochs(epochBytes(r), rate)), "--ram-cache", *cache, "--io", h.io)
			if err != nil {
				return nil, err
			}
			decoding, err := decode(r)
			if err != nil {
				return nil, err
			}
			counted := steady(t.Epochs)
			sum, n := total(counted), int64(len(counted))
			useful := float64(sum.UsefulBytes) / sum.Seconds
			return row{
				{"sequential_bytes_per_second", rate}, {"useful_bytes_per_second", useful}, {"fraction_of_sequential", useful / rate},
				{"epochs", n}, {"epoch_seconds", sum.Seconds / float64(n)}, {"useful_bytes", sum.UsefulBytes / n}, {"bytes_read", sum.BytesRead / n},
				{"decode_seconds", decoding}, {"decode_share_of_reading", decoding / (float64(sum.BytesRead/n) / rate)},
			}, nil
		}})
		return err
	}
}

// epochBytes returns the bytes that an epoch reads if the trainer holds the smallest cache of the
// pack.
func epochBytes(r *packfile.Reader) (bytes int64) {
	for i := range r.Facts().BatchesPerEpoch {
		t := &r.Index().Train[i]
		bytes += t.Extent(r.Form(), len(t.Bands)-1) + int64(t.GraphBytes())
	}
	return bytes
}

// decode decodes the graphs of one epoch's batches in memory, and returns the seconds.
func decode(r *packfile.Reader) (seconds float64, err error) {
	var b graph.Batch
	var plan packfile.Plan
	for i := range r.Facts().BatchesPerEpoch {
		t := &r.Index().Train[i]
		f, err := os.Open(r.Path(packfile.GraphFile(r.Group(i))))
		if err != nil {
			return 0, err
		}
		raw := make([]byte, t.GraphBytes())
		_, err = io.ReadFull(io.NewSectionReader(f, t.GraphOffset, int64(len(raw))), raw)
		if err := f.Close(); err != nil {
			return 0, err
		}
		if err != nil {
			return 0, err
		}
		began := time.Now()
		if err := r.DecodeTrainGraph(i, packfile.Everything, raw, &b, &plan); err != nil {
			return 0, err
		}
		seconds += time.Since(began).Seconds()
	}
	return seconds, nil
}
