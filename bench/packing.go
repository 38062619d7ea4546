package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"

	"diskgnn/dataset"
	"diskgnn/internal/driverate"
	"diskgnn/internal/vfs"
)

// packingCommand compares `diskgnn pack` with its drive: in turn, it measures the sustained rates
// of reading the feature table in sequence and of large writes to the pack's file system, and a
// packing. The bound is the time for the packing's bytes at these rates, one after the other, the
// last sync included. Rates of shared drives change within seconds: they are measured before and
// after the packing, and averaged:
//
//	go run ./bench packing -dataset DATASET -samples SAMPLES -dir DIR -- --memory 512MiB
//
// The arguments are passed to pack.
func packingCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	h.need(f, "dataset", "samples")
	bytes := f.Int64("write-bytes", 16<<30, "bytes of the file that is written to measure the drive's rate")
	return func(ctx context.Context, args []string) error {
		dir, err := h.place()
		if err != nil {
			return err
		}
		drive := newDrive(h.io, filepath.Join(h.inputs["dataset"], dataset.FeaturesFile))
		rates := func() (read, write float64, err error) {
			if read, err = drive.rate(ctx); err != nil {
				return 0, 0, err
			}
			name := filepath.Join(dir, "packing.rate")
			r, err := driverate.Write(ctx, vfs.OS, name, driverate.Writes{Bytes: *bytes, Load: effort})
			return read, r.PerSecond, errors.Join(err, os.Remove(name))
		}
		_, err = h.turns(ctx, side{"packing", func(ctx context.Context, _ int) (row, error) {
			read, write, err := rates()
			if err != nil {
				return nil, err
			}
			out := filepath.Join(dir, "packing")
			var p struct {
				Seconds      float64 `json:"seconds"`
				GraphSeconds float64 `json:"graph_seconds"`
				RowSeconds   float64 `json:"row_seconds"`
				BytesRead    int64   `json:"bytes_read"`
				BytesWritten int64   `json:"bytes_written"`
				Ranges       int     `json:"ranges"`
				PeakAnon     int64   `json:"peak_anon_bytes"`
			}
			err = h.run(ctx, &p, slices.Concat([]string{"pack", "--dataset", h.inputs["dataset"], "--samples", h.inputs["samples"], "--out", out, "--io", h.io}, args)...)
			if err := errors.Join(err, os.RemoveAll(out)); err != nil {
				return nil, err
			}
			readAfter, writeAfter, err := rates()
			read, write = (read+readAfter)/2, (write+writeAfter)/2
			bound := float64(p.BytesRead)/read + float64(p.BytesWritten)/write
			return row{
				{"read_bytes_per_second", read}, {"write_bytes_per_second", write}, {"seconds", p.Seconds}, {"graph_seconds", p.GraphSeconds}, {"row_seconds", p.RowSeconds},
				{"bytes_read", p.BytesRead}, {"bytes_written", p.BytesWritten}, {"ranges", p.Ranges}, {"peak_anon_bytes", p.PeakAnon},
				{"bound_seconds", bound}, {"fraction_of_bound", bound / p.Seconds},
			}, err
		}})
		return err
	}
}
