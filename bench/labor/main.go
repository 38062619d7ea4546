// Command labor shows what LABOR does to batches, to packs of them and to scores, beside
// uniform sampling: it samples, packs and trains what examples/ describe with each way of
// sampling and several seeds, and prints a line of JSON for each.
//
//	go run ./bench/labor -bin bin/diskgnn -data DIR computers-sage tolokers-sage
//	go run ./bench/labor -bin bin/diskgnn -data DIR -train=false -samplers uniform,labor-256 computers-sage
//
// Bytes are those of `diskgnn pack --plan`, which decides what a pack consists of and writes
// none: the pack of policy static with caches of 5 and 10 % of the rows, and what an epoch
// reads of it. With -min a pack of policy min is made too, with a cache of 10 %, and what its
// index says an epoch reads. Scores are those of the best validation epoch's weights by
// `diskgnn eval --exact`, every node from all neighbours, which no sampler decides. Samplers
// take turns; every run that is over is logged.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/bench/internal/tool"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

// flagsOf returns the flags of presample for a sampler's name: uniform, labor, labor-K of a
// batch dependency of K, labor-layer, labor-layer-K.
func flagsOf(name string) ([]string, error) {
	rest, labor := strings.CutPrefix(name, "labor")
	if !labor && name != "uniform" {
		return nil, fmt.Errorf("no sampler %q", name)
	}
	if !labor {
		return nil, nil
	}
	flags := []string{"--sampler", "labor"}
	if r, ok := strings.CutPrefix(rest, "-layer"); ok {
		flags, rest = append(flags, "--layer-dependency"), r
	}
	if rest == "" {
		return flags, nil
	}
	dependency, dash := strings.CutPrefix(rest, "-")
	if k, err := strconv.Atoi(dependency); !dash || err != nil || k < 1 {
		return nil, fmt.Errorf("no sampler %q", name)
	}
	return append(flags, "--batch-dependency", dependency), nil
}

// run is what one seed came to. Nodes, edges and bytes read are those of an epoch's
// training batches, on average.
type run struct {
	InputNodes float64 `json:"input_nodes"`
	Edges      float64 `json:"edges"`
	Disk5      float64 `json:"disk_bytes_5"` // of the pack, of all epochs
	Disk10     float64 `json:"disk_bytes_10"`
	Read5      float64 `json:"epoch_bytes_5"`
	Read10     float64 `json:"epoch_bytes_10"`
	Min10      float64 `json:"epoch_bytes_min_10,omitempty"`
	Exact      float64 `json:"exact,omitempty"` // percent
}

// quantities are what is summed over the seeds.
var quantities = []struct {
	name string
	of   func(*run) float64
}{
	{"input_nodes", func(r *run) float64 { return r.InputNodes }},
	{"edges", func(r *run) float64 { return r.Edges }},
	{"disk_bytes_5", func(r *run) float64 { return r.Disk5 }},
	{"disk_bytes_10", func(r *run) float64 { return r.Disk10 }},
	{"epoch_bytes_5", func(r *run) float64 { return r.Read5 }},
	{"epoch_bytes_10", func(r *run) float64 { return r.Read10 }},
	{"epoch_bytes_min_10", func(r *run) float64 { return r.Min10 }},
	{"exact", func(r *run) float64 { return r.Exact }},
}

// quantity is a quantity over the seeds, and over that of the first sampler.
type quantity struct {
	Mean  float64 `json:"mean"`
	SD    float64 `json:"sd"`
	Ratio float64 `json:"ratio"`
}

type bench struct {
	*tool.Examples
	threads                    string
	first, seeds               int
	train, min                 bool
	samplers                   []string
	presampleFlags, trainFlags []string
}

func main() {
	log.SetFlags(0)
	b := bench{Examples: tool.FlagExamples("labor")}
	flag.IntVar(&b.first, "first", 0, "the first seed")
	flag.IntVar(&b.seeds, "seeds", 5, "seeds")
	flag.StringVar(&b.threads, "threads", "2", "threads of a run")
	flag.BoolVar(&b.train, "train", true, "train, for the scores")
	flag.BoolVar(&b.min, "min", false, "make packs of policy min")
	samplers := flag.String("samplers", "uniform,labor,labor-16,labor-64", "what to compare, the others with the first")
	presample := flag.String("presample", "", "more flags of presample, separated by spaces")
	train := flag.String("train-flags", "", "more flags of train, separated by spaces")
	flag.Parse()
	b.samplers, b.presampleFlags, b.trainFlags = strings.Split(*samplers, ","), strings.Fields(*presample), strings.Fields(*train)
	for _, example := range flag.Args() {
		if err := b.compare(context.Background(), example); err != nil {
			log.Fatal(err)
		}
	}
}

// compare measures an example with all samplers, which take turns, and prints what they
// came to.
func (b *bench) compare(ctx context.Context, example string) error {
	if err := os.MkdirAll(b.Work, 0o777); err != nil {
		return err
	}
	dataset := filepath.Join(b.Work, tool.Graph(example))
	if err := b.MakeDataset(ctx, example, dataset); err != nil {
		return err
	}
	runs := make([][]run, len(b.samplers))
	for seed := b.first; seed < b.first+b.seeds; seed++ {
		for i, sampler := range b.samplers {
			r, err := b.measure(ctx, example, dataset, sampler, seed)
			if err != nil {
				return err
			}
			line, err := json.Marshal(r)
			if err != nil {
				return err
			}
			log.Printf("%s, %s, seed %d: %s", example, sampler, seed, line)
			runs[i] = append(runs[i], r)
		}
	}
	for i, sampler := range b.samplers {
		if err := tool.Print(summary(example, sampler, runs[i], runs[0])); err != nil {
			return err
		}
	}
	return nil
}

// summary puts the runs of a sampler beside those of the first.
func summary(example, sampler string, runs, first []run) map[string]any {
	out := map[string]any{"example": example, "sampler": sampler, "seeds": len(runs)}
	for _, q := range quantities {
		values := func(of []run) (v []float64) {
			for i := range of {
				v = append(v, q.of(&of[i]))
			}
			return v
		}
		mean, sd := tool.MeanSD(values(runs))
		if mean == 0 { // not measured
			continue
		}
		base, _ := tool.MeanSD(values(first))
		out[q.name] = quantity{mean, sd, mean / base}
	}
	return out
}

// measure samples, plans the pack, and trains.
func (b *bench) measure(ctx context.Context, example, dataset, sampler string, seed int) (r run, err error) {
	flags, err := flagsOf(sampler)
	if err != nil {
		return r, err
	}
	dir, err := os.MkdirTemp(b.Work, example)
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	do := func(result any, command string, args ...string) error {
		return b.Run(ctx, result, append([]string{command, "--config", b.Config(example)}, args...)...)
	}
	samples := filepath.Join(dir, "samples")
	if err := do(new(any), "presample", slices.Concat([]string{"--dataset", dataset, "--out", samples, "--seed", strconv.Itoa(seed)}, flags, b.presampleFlags)...); err != nil {
		return r, err
	}
	var inspected struct{ Samples mbfile.Description }
	if err := b.Run(ctx, &inspected, "inspect", samples); err != nil {
		return r, err
	}
	f := &inspected.Samples.Facts
	r.InputNodes, r.Edges = float64(f.Train.InputNodes)/float64(f.Epochs), float64(f.Train.Edges)/float64(f.Epochs)

	from := []string{"--dataset", dataset, "--samples", samples, "--out"}
	for share, to := range map[string][2]*float64{"5": {&r.Disk5, &r.Read5}, "10": {&r.Disk10, &r.Read10}} {
		var plan cut.Plan
		if err := do(&plan, "pack", append(from, filepath.Join(dir, "none"), "--plan", "--cache", share+"%", "--bands", share)...); err != nil {
			return r, err
		}
		*to[0], *to[1] = float64(plan.Chosen.DiskBytes), float64(plan.Chosen.EpochBytes)
	}
	if b.min {
		if r.Min10, err = b.readUnderMin(ctx, do, append(from, filepath.Join(dir, "min"))); err != nil {
			return r, err
		}
	}
	if b.train {
		r.Exact, err = b.score(do, from, dir, dataset, seed)
	}
	return r, err
}

// command runs a command with the configuration of an example.
type command func(result any, name string, args ...string) error

// readUnderMin returns the bytes that an epoch reads of a pack of policy min.
func (b *bench) readUnderMin(ctx context.Context, do command, pack []string) (float64, error) {
	if err := do(new(any), "pack", append(pack, "--cache", "10%", "--policy", "min")...); err != nil {
		return 0, err
	}
	var inspected struct{ Pack packfile.Description }
	out := pack[len(pack)-1]
	if err := b.Run(ctx, &inspected, "inspect", out); err != nil {
		return 0, err
	}
	c := inspected.Pack.Caches[0] // the only one
	return float64(c.ColdBytes+c.GraphBytes) / float64(inspected.Pack.Epochs), os.RemoveAll(out)
}

// score trains on a pack of the samples, and returns the exact score in percent.
func (b *bench) score(do command, from []string, dir, dataset string, seed int) (float64, error) {
	pack, run := filepath.Join(dir, "pack"), filepath.Join(dir, "run")
	if err := do(new(any), "pack", append(from, pack)...); err != nil {
		return 0, err
	}
	if err := do(new(any), "train", append([]string{"--pack", pack, "--out", run, "--seed", strconv.Itoa(seed), "--threads", b.threads}, b.trainFlags...)...); err != nil {
		return 0, err
	}
	var scored struct {
		Test float64 `json:"test_accuracy"`
	}
	err := do(&scored, "eval", "--run", run, "--dataset", dataset, "--exact", "--threads", b.threads)
	return 100 * scored.Test, err
}
