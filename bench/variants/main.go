// Command variants shows what saving bytes does to the score: it trains on a dataset
// with float32 rows in random order, and again with each variant: bf16 or int8 rows,
// batches in the order of overlap, the policy min. Everything else, the seeds
// included, is the same. It prints a line of JSON for each, with the difference from
// the first.
//
//	go run ./bench/variants -dataset DATASET -seeds 3 -epochs 40 -batch 1000 -fanout 10,10,10
package main

import (
	"context"
	"flag"
	"log"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"diskgnn/bench/internal/tool"
)

// variant is what differs.
type variant struct{ presample, pack []string }

var variants = map[string]variant{
	"float32": {},
	"bf16":    {pack: []string{"--dtype", "bf16"}},
	"int8":    {pack: []string{"--dtype", "int8"}},
	"overlap": {presample: []string{"--order", "overlap"}},
	"min":     {pack: []string{"--policy", "min"}},
}

// result is what a variant came to.
type result struct {
	Variant    string    `json:"variant"`
	Test       []float64 `json:"test"` // percent
	Mean       float64   `json:"mean"`
	SD         float64   `json:"sd"`
	Difference float64   `json:"difference_points"` // of the means, from the first variant's
	TwoSE      float64   `json:"two_standard_errors"`
	DiskBytes  int64     `json:"disk_bytes"`
	EpochBytes int64     `json:"epoch_bytes_read"`
}

// bench is how all of them are trained.
type bench struct {
	tool             *tool.Tool
	dataset, work    string
	batch, fanout    string
	evalFanout       string
	cache            string
	seeds            int
	epochs, sampled  int
	hidden, lr, rate string
}

func main() {
	log.SetFlags(0)
	b := bench{tool: tool.Flag()}
	flag.StringVar(&b.dataset, "dataset", "", "the dataset")
	flag.StringVar(&b.work, "work", filepath.Join(os.TempDir(), "diskgnn-variants"), "scratch directory")
	which := flag.String("variants", "float32,bf16,int8,overlap,min", "what to compare, the first with the others")
	flag.StringVar(&b.batch, "batch", "1024", "--batch-size")
	flag.StringVar(&b.fanout, "fanout", "10,15,20", "--fanout")
	flag.StringVar(&b.evalFanout, "eval-fanout", "same", "--eval-fanout")
	flag.StringVar(&b.cache, "cache", "10%", "--cache")
	flag.IntVar(&b.seeds, "seeds", 3, "seeds")
	flag.IntVar(&b.epochs, "epochs", 10, "epochs")
	flag.IntVar(&b.sampled, "sampled", 0, "presampled epochs; 0: as many as epochs")
	flag.StringVar(&b.hidden, "hidden", "256", "--hidden")
	flag.StringVar(&b.lr, "lr", "0.003", "--lr")
	flag.StringVar(&b.rate, "dropout", "0.5", "--dropout")
	flag.Parse()
	if b.sampled == 0 {
		b.sampled = b.epochs
	}
	var first *result
	for name := range strings.SplitSeq(*which, ",") {
		v, ok := variants[name]
		if !ok {
			log.Fatalf("no variant %q", name)
		}
		r, err := b.measure(context.Background(), name, v)
		if err != nil {
			log.Fatal(err)
		}
		if first == nil {
			first = &r
		}
		n := float64(b.seeds)
		r.Difference, r.TwoSE = r.Mean-first.Mean, 2*math.Sqrt((r.SD*r.SD+first.SD*first.SD)/n)
		if err := tool.Print(r); err != nil {
			log.Fatal(err)
		}
	}
}

// measure trains a variant with every seed.
func (b *bench) measure(ctx context.Context, name string, v variant) (result, error) {
	r := result{Variant: name}
	if err := os.MkdirAll(b.work, 0o777); err != nil {
		return r, err
	}
	for seed := range b.seeds {
		s := strconv.Itoa(seed)
		samples, pack, out := filepath.Join(b.work, "samples"), filepath.Join(b.work, "pack"), filepath.Join(b.work, "run")
		if err := os.RemoveAll(samples); err != nil {
			return r, err
		}
		if err := os.RemoveAll(pack); err != nil {
			return r, err
		}
		var ignore map[string]any
		if err := b.tool.Run(ctx, &ignore, append([]string{"presample", "--dataset", b.dataset, "--out", samples, "--batch-size", b.batch, "--fanout", b.fanout,
			"--eval-fanout", b.evalFanout, "--epochs", strconv.Itoa(b.sampled), "--seed", s}, v.presample...)...); err != nil {
			return r, err
		}
		var packed struct {
			DiskBytes int64 `json:"disk_bytes"`
		}
		if err := b.tool.Run(ctx, &packed, append([]string{"pack", "--dataset", b.dataset, "--samples", samples, "--out", pack, "--cache", b.cache}, v.pack...)...); err != nil {
			return r, err
		}
		var tr tool.Training
		if err := b.tool.Run(ctx, &tr, "train", "--pack", pack, "--out", out, "--force", "--hidden", b.hidden, "--epochs", strconv.Itoa(b.epochs),
			"--lr", b.lr, "--dropout", b.rate, "--seed", s); err != nil {
			return r, err
		}
		r.Test = append(r.Test, 100*tr.TestAccuracy)
		r.DiskBytes, r.EpochBytes = packed.DiskBytes, tr.Epochs[len(tr.Epochs)-1].BytesRead
	}
	r.Mean, r.SD = tool.MeanSD(r.Test)
	return r, os.RemoveAll(b.work)
}
