// Command loader measures the loader alone against the disk: in turn, several
// times, the sequential rate of the pack's own cold files through the I/O
// backend, an epoch of `train --engine none`, and the decoding of the epoch's
// graphs. It prints every round and the medians, as lines of JSON.
//
//	go run ./bench/loader -pack PACK -cache 10% -rounds 5
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
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
	EpochSeconds   float64 `json:"epoch_seconds"`
	UsefulBytes    int64   `json:"useful_bytes"`
	BytesRead      int64   `json:"bytes_read"`
	DecodeSeconds  float64 `json:"decode_seconds"`
	DecodeShare    float64 `json:"decode_share_of_reading"`
}

func main() {
	log.SetFlags(0)
	bin := flag.String("bin", "bin/diskgnn", "the program")
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
	t := &tool.Tool{Binary: *bin, Quiet: true}
	var results []round
	for range *rounds {
		m, err := measure(t, r, *cache, *kind)
		if err != nil {
			log.Fatal(err)
		}
		print(m)
		results = append(results, m)
	}
	print(map[string]any{
		"medians_of":                   *rounds,
		"sequential_bytes_per_second":  median(results, func(m round) float64 { return m.SequentialRate }),
		"useful_bytes_per_second":      median(results, func(m round) float64 { return m.UsefulRate }),
		"fraction_of_sequential":       median(results, func(m round) float64 { return m.Fraction }),
		"decode_share_of_reading":      median(results, func(m round) float64 { return m.DecodeShare }),
		"lowest_fraction_of_any_round": lowest(results),
	})
}

func print(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(b))
}

func median(all []round, of func(round) float64) float64 {
	var v []float64
	for _, m := range all {
		v = append(v, of(m))
	}
	return tool.Median(v)
}

func lowest(all []round) float64 {
	v := all[0].Fraction
	for _, m := range all {
		v = min(v, m.Fraction)
	}
	return v
}

func measure(t *tool.Tool, r *packfile.Reader, cache, kind string) (round, error) {
	ctx := context.Background()
	var m round
	var err error
	if m.SequentialRate, err = tool.SequentialCold(ctx, kind, r); err != nil {
		return m, err
	}
	out, err := os.MkdirTemp("", "loader")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(out)
	var tr tool.Training
	if err := t.Run(ctx, &tr, "train", "--pack", r.Dir(), "--out", filepath.Join(out, "run"), "--engine", "none", "--epochs", "2", "--ram-cache", cache, "--io", kind); err != nil {
		return m, err
	}
	e := tr.Epochs[1] // the first is charged with filling the cache
	m.EpochSeconds, m.UsefulBytes, m.BytesRead = e.Seconds, e.UsefulBytes, e.BytesRead
	m.UsefulRate = float64(e.UsefulBytes) / e.Seconds
	m.Fraction = m.UsefulRate / m.SequentialRate
	if m.DecodeSeconds, err = decode(r); err != nil {
		return m, err
	}
	m.DecodeShare = m.DecodeSeconds / (float64(e.BytesRead) / m.SequentialRate)
	return m, nil
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
