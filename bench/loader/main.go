// Command loader measures the loader alone against the disk: in turn, several
// times, the rate that the drive keeps up reading the pack's own cold files in sequence,
// epochs of `train --engine none`, and the decoding of an epoch's graphs. Epochs are counted
// from when the caches are filled and the drive has been loaded for three seconds, for ten
// seconds at least. It prints every round, and medians with the least and the most, as
// lines of JSON.
//
//	go run ./bench/loader -pack PACK -cache 10% -rounds 5
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"diskgnn/bench/internal/tool"
	"diskgnn/graph"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
)

type round struct {
	SequentialRate float64 `json:"sequential_bytes_per_second"`
	UsefulRate     float64 `json:"useful_bytes_per_second"`
	Fraction       float64 `json:"fraction_of_sequential"`
	Epochs         int     `json:"epochs"`        // that count
	EpochSeconds   float64 `json:"epoch_seconds"` // mean
	UsefulBytes    int64   `json:"useful_bytes"`  // of an epoch
	BytesRead      int64   `json:"bytes_read"`
	DecodeSeconds  float64 `json:"decode_seconds"`
	DecodeShare    float64 `json:"decode_share_of_reading"`
}

func main() {
	log.SetFlags(0)
	program := tool.Flag()
	pack := flag.String("pack", "", "the pack")
	cache := flag.String("cache", "", "--ram-cache; empty: the pack's least")
	rounds := flag.Int("rounds", 5, "rounds")
	kind := flag.String("io", "auto", "--io")
	flag.Parse()
	r, err := packfile.Open(vfs.OS, *pack)
	if err != nil {
		log.Fatal(err)
	}
	if *cache == "" {
		edges := r.Index().Edges
		*cache = fmt.Sprintf("%dB", edges[len(edges)-1]*int64(r.Facts().RowBytes))
	}
	b := bench{program, r, tool.ColdDrive(*kind, r), *cache, *kind}
	if err := tool.Rounds(context.Background(), *rounds, b.measure,
		tool.Named("sequential_bytes_per_second", func(m round) float64 { return m.SequentialRate }),
		tool.Named("useful_bytes_per_second", func(m round) float64 { return m.UsefulRate }),
		tool.Named("fraction_of_sequential", func(m round) float64 { return m.Fraction }),
		tool.Named("epoch_seconds", func(m round) float64 { return m.EpochSeconds }),
		tool.Named("decode_share_of_reading", func(m round) float64 { return m.DecodeShare }),
	); err != nil {
		log.Fatal(err)
	}
}

// bench is what is measured.
type bench struct {
	tool        *tool.Tool
	pack        *packfile.Reader
	drive       *tool.Drive
	cache, kind string
}

func (b *bench) measure(ctx context.Context) (m round, err error) {
	if m.SequentialRate, err = b.drive.Rate(ctx); err != nil {
		return m, err
	}
	out, err := os.MkdirTemp("", "loader")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(out)
	var tr tool.Training
	epochs := tool.SteadyEpochs(b.epochBytes(), m.SequentialRate)
	if err := b.tool.Run(ctx, &tr, "train", "--pack", b.pack.Dir(), "--out", filepath.Join(out, "run"), "--engine", "none", "--epochs", strconv.Itoa(epochs), "--ram-cache", b.cache, "--io", b.kind); err != nil {
		return m, err
	}
	seconds := 0.0
	for _, e := range tool.Steady(tr.Epochs) {
		m.Epochs++
		seconds += e.Seconds
		m.UsefulBytes += e.UsefulBytes
		m.BytesRead += e.BytesRead
	}
	m.UsefulRate = float64(m.UsefulBytes) / seconds
	m.Fraction = m.UsefulRate / m.SequentialRate
	m.EpochSeconds = seconds / float64(m.Epochs)
	m.UsefulBytes /= int64(m.Epochs)
	m.BytesRead /= int64(m.Epochs)
	if m.DecodeSeconds, err = decode(b.pack); err != nil {
		return m, err
	}
	m.DecodeShare = m.DecodeSeconds / (float64(m.BytesRead) / m.SequentialRate)
	return m, nil
}

// epochBytes returns what an epoch reads whose trainer holds no more than the pack's least
// cache.
func (b *bench) epochBytes() (bytes int64) {
	x := b.pack.Index()
	for i := range b.pack.Facts().BatchesPerEpoch {
		t := &x.Train[i]
		bytes += t.Extent(b.pack.Form(), len(t.Bands)-1) + int64(t.GraphBytes)
	}
	return bytes
}

// decode decodes the graphs of one epoch's batches, whose bytes are in memory.
func decode(r *packfile.Reader) (float64, error) {
	var b graph.Batch
	var plan packfile.Plan
	var raw []byte
	seconds := 0.0
	for i := range r.Facts().BatchesPerEpoch {
		t := &r.Index().Train[i]
		f, err := os.Open(r.Path(packfile.GraphFile(r.Group(i))))
		if err != nil {
			return 0, err
		}
		raw = append(raw[:0], make([]byte, t.GraphBytes)...)
		_, err = io.ReadFull(io.NewSectionReader(f, t.GraphOffset, int64(t.GraphBytes)), raw)
		if err := f.Close(); err != nil {
			return 0, err
		}
		if err != nil {
			return 0, err
		}
		began := time.Now()
		if err := r.DecodeTrainGraph(i, raw, &b, &plan); err != nil {
			return 0, err
		}
		seconds += time.Since(began).Seconds()
	}
	return seconds, nil
}
