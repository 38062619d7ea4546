// Command packing holds `diskgnn pack` against the drive it packs on: in turn, several
// times, the rates that the drive keeps up reading the feature table in sequence, and
// taking large writes where the pack will lie, and a packing. The bound is what its bytes
// take at these rates, one after the other, the last sync included. It prints every round,
// and medians with the least and the most, as lines of JSON.
//
//	go run ./bench/packing -dataset DATASET -samples SAMPLES -out DIR -rounds 5 -- --memory 512MiB
//
// What follows -- goes to pack. With -individual N, N batches are also packed as the
// systems do that read each row where it lies: a page for every row, as many reads in
// flight as the backend takes. That time is multiplied up to all batches, and said to be.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"diskgnn/bench/internal/tool"
	"diskgnn/dataset"
	"diskgnn/internal/driverate"
	"diskgnn/internal/vfs"
)

type round struct {
	ReadRate  float64 `json:"read_bytes_per_second"`
	WriteRate float64 `json:"write_bytes_per_second"`
	packed
	Bound    float64 `json:"bound_seconds"`
	Fraction float64 `json:"fraction_of_bound"`

	Individual *individual `json:"individual,omitempty"`
}

// packed is what pack says of itself.
type packed struct {
	Seconds      float64 `json:"seconds"`
	GraphSeconds float64 `json:"graph_seconds"`
	RowSeconds   float64 `json:"row_seconds"`
	BytesRead    int64   `json:"bytes_read"`
	BytesWritten int64   `json:"bytes_written"`
	Ranges       int     `json:"ranges"`
	PeakAnon     int64   `json:"peak_anon_bytes"`
}

type bench struct {
	tool       *tool.Tool
	dataset    string
	samples    string
	out        string
	kind       string
	individual int
	writeBytes int64
	args       []string
	drive      *tool.Drive // of the feature table; nil until it is measured
}

func main() {
	log.SetFlags(0)
	b := bench{tool: tool.Flag()}
	flag.StringVar(&b.dataset, "dataset", "", "the dataset")
	flag.StringVar(&b.samples, "samples", "", "its samples")
	flag.StringVar(&b.out, "out", os.TempDir(), "where packs are made, and removed")
	flag.StringVar(&b.kind, "io", "auto", "--io")
	flag.IntVar(&b.individual, "individual", 0, "batches to pack row by row")
	flag.Int64Var(&b.writeBytes, "write-bytes", 16<<30, "of the file that is written for the drive's rate")
	rounds := flag.Int("rounds", 5, "rounds")
	flag.Parse()
	b.args = flag.Args()
	if err := tool.Rounds(context.Background(), *rounds, b.measure,
		tool.Named("read_bytes_per_second", func(m round) float64 { return m.ReadRate }),
		tool.Named("write_bytes_per_second", func(m round) float64 { return m.WriteRate }),
		tool.Named("seconds", func(m round) float64 { return m.Seconds }),
		tool.Named("bound_seconds", func(m round) float64 { return m.Bound }),
		tool.Named("fraction_of_bound", func(m round) float64 { return m.Fraction }),
		tool.Named("peak_anon_bytes", func(m round) float64 { return float64(m.PeakAnon) }),
	); err != nil {
		log.Fatal(err)
	}
}

// measure is one round. Rates of shared drives change within seconds: they are taken
// before and after the packing, and averaged.
func (b *bench) measure(ctx context.Context) (m round, err error) {
	var read, write [2]float64
	if read[0], write[0], err = b.rates(ctx); err != nil {
		return m, err
	}
	out := filepath.Join(b.out, fmt.Sprintf("packing-%d", os.Getpid()))
	defer os.RemoveAll(out)
	args := append([]string{"pack", "--dataset", b.dataset, "--samples", b.samples, "--out", out, "--io", b.kind}, b.args...)
	if err := b.tool.Run(ctx, &m.packed, args...); err != nil {
		return m, err
	}
	if err := os.RemoveAll(out); err != nil {
		return m, err
	}
	if read[1], write[1], err = b.rates(ctx); err != nil {
		return m, err
	}
	m.ReadRate, m.WriteRate = (read[0]+read[1])/2, (write[0]+write[1])/2
	m.Bound = float64(m.BytesRead)/m.ReadRate + float64(m.BytesWritten)/m.WriteRate
	m.Fraction = m.Bound / m.Seconds
	if b.individual > 0 {
		if m.Individual, err = b.rowByRow(ctx); err != nil {
			return m, err
		}
	}
	return m, nil
}

// rates measures the drive: sequential reads of the table, and large writes.
func (b *bench) rates(ctx context.Context) (read, write float64, err error) {
	if b.drive == nil {
		ds, err := dataset.Open(vfs.OS, b.dataset)
		if err != nil {
			return 0, 0, err
		}
		features, err := ds.Features()
		if err != nil {
			return 0, 0, err
		}
		b.drive = tool.NewDrive(b.kind, features.Path())
		if err := features.Close(); err != nil {
			return 0, 0, err
		}
	}
	if read, err = b.drive.Rate(ctx); err != nil {
		return 0, 0, err
	}
	write, err = b.writeRate(ctx)
	return read, write, err
}

// writeRate writes a file in large pieces, several at a time, past the page cache
// where that can be, and syncs it.
func (b *bench) writeRate(ctx context.Context) (float64, error) {
	name := filepath.Join(b.out, fmt.Sprintf("packing-%d.rate", os.Getpid()))
	defer os.Remove(name)
	r, err := driverate.Write(ctx, vfs.OS, name, driverate.Writes{Bytes: b.writeBytes, Load: driverate.Sustained})
	return r.PerSecond, err
}
