// Command policy counts the rows that training reads from disk under the policies
// static and min, for caches of several sizes, without packing anything.
//
//	go run ./bench/policy -samples DIR
//
// Rows are counted per cycle, which is all epochs that were presampled, and per epoch.
// What fills the cache is read once, at the beginning; read_min and read_static charge
// it to the first cycle. lower_bound is what no cache of the size can do without, if
// what it begins with is free and need not be what it ends with. Each cache is a line
// of JSON.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"diskgnn/bench/internal/tool"
	"diskgnn/internal/vfs"
	"diskgnn/pack/cut"
	"diskgnn/presample/mbfile"
)

type result struct {
	Samples  string  `json:"samples"`
	Share    float64 `json:"cache_percent"`
	Rows     int64   `json:"cache_rows"`
	Epochs   int     `json:"epochs"`
	Batches  int     `json:"batches"`
	Accesses int64   `json:"accesses"`

	MissesStatic int64   `json:"misses_static"` // per cycle
	MissesMin    int64   `json:"misses_min"`
	LowerBound   int64   `json:"lower_bound"`
	Ratio        float64 `json:"ratio"` // of misses

	ReadStatic      int64   `json:"read_static"` // in the first cycle, the cache's filling included
	ReadMin         int64   `json:"read_min"`
	ReadRatio       float64 `json:"read_ratio"`
	EpochReadStatic float64 `json:"read_static_per_epoch"`
	EpochReadMin    float64 `json:"read_min_per_epoch"`

	Admitted int64   `json:"admitted"` // rows copied into the cache, per cycle
	Cycles   []int64 `json:"cycle_hits"`
	Periodic bool    `json:"periodic"`
	Seconds  float64 `json:"seconds"` // of this cache, without the trace that all share
}

func main() {
	log.SetFlags(0)
	samples := flag.String("samples", "", "what presample made")
	shares := flag.String("cache", "5,10,20", "caches, in percent of the nodes")
	scratch := flag.String("scratch", os.TempDir(), "directory for 8 bytes per input node of all batches")
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "goroutines")
	flag.Parse()
	if err := run(context.Background(), *samples, *shares, *scratch, *workers); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir, shares, scratch string, workers int) (err error) {
	r, err := mbfile.Open(vfs.OS, dir)
	if err != nil {
		return err
	}
	defer r.Close()
	hotness, err := r.Hotness()
	if err != nil {
		return err
	}
	slices.SortFunc(hotness, func(a, b uint32) int { return int(b) - int(a) })
	touched, accesses := int64(0), int64(0)
	for _, n := range hotness {
		if n > 0 {
			touched++
		}
		accesses += int64(n)
	}
	f := r.Facts()
	var all []result
	for s := range strings.SplitSeq(shares, ",") {
		share, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return err
		}
		n := min(int64(share/100*float64(f.Nodes)), touched)
		res := result{Samples: dir, Share: share, Rows: n, Epochs: f.Epochs, Batches: f.TrainBatches, Accesses: accesses, MissesStatic: accesses}
		for _, hot := range hotness[:n] {
			res.MissesStatic -= int64(hot)
		}
		all = append(all, res)
	}
	tmp, err := os.MkdirTemp(scratch, "policy")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	sim, err := cut.NewSimulator(ctx, vfs.OS, tmp, r, max(workers, 1)+1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sim.Close()) }()
	for i := range all {
		res := &all[i]
		began := time.Now()
		s, err := sim.Run(ctx, res.Rows, nil, nil)
		if err != nil {
			return err
		}
		res.MissesMin, res.Admitted, res.Cycles, res.Periodic = s.Accesses-s.Hits, s.Admitted, s.Cycles, s.Periodic
		res.LowerBound = s.Accesses - s.Cycles[0]
		res.ReadStatic, res.ReadMin = res.MissesStatic+res.Rows, res.MissesMin+res.Rows
		epochs := float64(max(f.Epochs, 1))
		res.EpochReadStatic, res.EpochReadMin = float64(res.ReadStatic)/epochs, float64(res.ReadMin)/epochs
		res.Ratio = float64(res.MissesMin) / float64(max(res.MissesStatic, 1))
		res.ReadRatio = float64(res.ReadMin) / float64(max(res.ReadStatic, 1))
		res.Seconds = time.Since(began).Seconds()
		if err := tool.Print(res); err != nil {
			return err
		}
	}
	return nil
}
