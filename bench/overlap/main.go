// Command overlap shows whether loading hides behind computing: it trains on a pack
// with a small part of the rows in memory and the others on disk, and with all rows in
// memory, taking turns, and compares the epochs.
//
//	diskgnn pack … --bands 100,50,20,10 --cache 10%
//	go run ./bench/overlap -pack PACK -caches 10%,100% -- --model sage
//
// What follows -- goes to train. Each run's first epoch, which fills the cache, is left
// out. Prints a line of JSON: the epochs' medians by cache, and the ratio of the first
// cache's to the last one's.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/bench/internal/tool"
)

// result is what a cache size came to.
type result struct {
	Cache   string      `json:"cache"`
	Rows    int64       `json:"cache_rows"`
	Seconds []float64   `json:"epoch_seconds"`
	Spread  tool.Spread `json:"spread"`          // of them
	Read    int64       `json:"bytes_read"`      // in an epoch
	Reading []float64   `json:"read_seconds"`    // that the reading link was busy
	Compute []float64   `json:"compute_seconds"` // and the computing one
}

func main() {
	log.SetFlags(0)
	t := tool.Flag()
	pack := flag.String("pack", "", "the pack")
	caches := flag.String("caches", "10%,100%", "--ram-cache, the last of them all rows")
	rounds := flag.Int("rounds", 5, "rounds")
	epochs := flag.Int("epochs", 2, "epochs of a run")
	flag.Parse()
	if err := run(context.Background(), t, *pack, strings.Split(*caches, ","), *rounds, *epochs, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, t *tool.Tool, pack string, caches []string, rounds, epochs int, more []string) error {
	dir, err := os.MkdirTemp("", "diskgnn-overlap")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all := make([]result, len(caches))
	for round := range rounds {
		for i, cache := range caches {
			r := &all[i]
			r.Cache = cache
			var tr struct {
				tool.Training
				Rows int64 `json:"cache_rows"`
			}
			args := []string{"train", "--pack", pack, "--out", filepath.Join(dir, "run"), "--force", "--epochs", strconv.Itoa(epochs), "--validate-every", strconv.Itoa(epochs), "--ram-cache", cache}
			if err := t.Run(ctx, &tr, append(args, more...)...); err != nil {
				return err
			}
			for _, e := range tr.Epochs[min(1, epochs-1):] {
				r.Seconds, r.Reading, r.Compute = append(r.Seconds, e.Seconds), append(r.Reading, e.ReadSeconds), append(r.Compute, e.ComputeSeconds)
				r.Rows, r.Read = tr.Rows, e.BytesRead
			}
			log.Printf("round %d, %s: %.2f s, lowest %.2f s", round, cache, r.Seconds[len(r.Seconds)-1], slices.Min(r.Seconds))
		}
	}
	for i := range all {
		all[i].Spread = tool.SpreadOf(all[i].Seconds)
	}
	return tool.Print(map[string]any{"rounds": rounds, "caches": all, "ratio": all[0].Spread.Median / all[len(all)-1].Spread.Median})
}
