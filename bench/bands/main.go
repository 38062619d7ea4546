// Command bands shows what serving several cache sizes with one pack costs: it packs
// once with band edges, and once for every edge alone, and compares what an epoch of
// the loader reads with a cache of that size. It prints a line of JSON for each size.
//
//	go run ./bench/bands -dataset DATASET -samples SAMPLES -caches 5,10,20,30,50
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"diskgnn/bench/internal/tool"
)

// size is one cache size.
type size struct {
	Cache     string  `json:"cache"`
	OneRead   int64   `json:"one_pack_bytes_read"` // in an epoch
	OwnRead   int64   `json:"own_pack_bytes_read"`
	Ratio     float64 `json:"ratio"`
	OneEpoch  float64 `json:"one_pack_epoch_seconds"`
	OwnEpoch  float64 `json:"own_pack_epoch_seconds"`
	OneBlowup float64 `json:"one_pack_blowup"`
	OwnBlowup float64 `json:"own_pack_blowup"`
}

type comparison struct {
	tool             *tool.Tool
	dataset, samples string
	dir              string
	epochs           int
}

func main() {
	log.SetFlags(0)
	c := comparison{tool: tool.Flag()}
	flag.StringVar(&c.dataset, "dataset", "", "the dataset")
	flag.StringVar(&c.samples, "samples", "", "its samples")
	flag.StringVar(&c.dir, "dir", "", "where the packs go; empty: the temporary directory")
	flag.IntVar(&c.epochs, "epochs", 3, "to load; the first is left out")
	caches := flag.String("caches", "5,10,20,30,50", "in percents of the rows, ascending")
	flag.Parse()
	if err := c.run(context.Background(), strings.Split(*caches, ",")); err != nil {
		log.Fatal(err)
	}
}

// run compares every size; one pack beside the common one is there at a time.
func (c *comparison) run(ctx context.Context, caches []string) (err error) {
	if c.dir, err = os.MkdirTemp(c.dir, "bands"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	one := filepath.Join(c.dir, "one")
	oneBlowup, err := c.pack(ctx, one, caches[0]+"%", strings.Join(caches, ","))
	if err != nil {
		return err
	}
	for _, cache := range caches {
		s := size{Cache: cache + "%", OneBlowup: oneBlowup}
		if s.OneRead, s.OneEpoch, err = c.load(ctx, one, s.Cache); err != nil {
			return err
		}
		own := filepath.Join(c.dir, "own")
		if s.OwnBlowup, err = c.pack(ctx, own, s.Cache, "none"); err != nil {
			return err
		}
		if s.OwnRead, s.OwnEpoch, err = c.load(ctx, own, s.Cache); err != nil {
			return err
		}
		if err := os.RemoveAll(own); err != nil {
			return err
		}
		s.Ratio = float64(s.OneRead) / float64(s.OwnRead)
		if err := tool.Print(s); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) pack(ctx context.Context, out, cache, bands string) (blowup float64, err error) {
	var r struct {
		Blowup float64 `json:"blowup"`
	}
	err = c.tool.Run(ctx, &r, "pack", "--dataset", c.dataset, "--samples", c.samples, "--out", out, "--cache", cache, "--bands", bands)
	return r.Blowup, err
}

// load returns what an epoch of loading reads, and the mean of the seconds that count.
func (c *comparison) load(ctx context.Context, pack, cache string) (bytes int64, seconds float64, err error) {
	run := filepath.Join(c.dir, "run")
	var t tool.Training
	err = c.tool.Run(ctx, &t, "train", "--pack", pack, "--out", run, "--force", "--engine", "none", "--epochs", fmt.Sprint(c.epochs), "--ram-cache", cache)
	if err != nil {
		return 0, 0, err
	}
	return t.Epochs[len(t.Epochs)-1].BytesRead, tool.SteadySeconds(t.Epochs), nil
}
