// Command stream shows what streaming rows from disk to the GPU costs over what cannot
// be avoided: epochs of training, over the larger of what the drive needs for the bytes
// that batches are made of and what the GPU needs to compute. What the drive keeps up in
// sequence is measured before each round.
//
//	go run ./bench/stream -pack PACK -memory 100% -serial -- --model gat --gpu-cache 50% --ram-cache 0
//
// What follows -- goes to train. With -memory every round also trains with so many rows
// on the GPU, none read from disk, if the pack was made for that: what the GPU needs
// alone. With -serial it trains with one batch under way at a time. Each run's first
// epoch, which fills the caches, is left out, and nothing is validated between the others:
// the drive is never idle. Let the others read 10 GB or last ten seconds (-epochs).
//
// Prints a line of JSON for every run and one of medians, with the least and the most. Of a run they say how busy the
// GPU was with kernels (in steps and gathers), how many processors were, and what the
// kernel says of its memory: anonymous, and the GPU's by nvidia-smi, at most, and by how
// much they grew after the first epoch.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"path/filepath"
	"strconv"

	"diskgnn/bench/internal/tool"
	"diskgnn/internal/vfs"
	"diskgnn/pack/packfile"
)

func main() {
	log.SetFlags(0)
	var b bench
	bin := flag.String("bin", "bin/diskgnn-gpu", "the program")
	pack := flag.String("pack", "", "the pack")
	flag.StringVar(&b.io, "io", "auto", "--io")
	flag.StringVar(&b.memory, "memory", "", "--gpu-cache that holds all rows; empty: don't")
	flag.BoolVar(&b.serial, "serial", false, "also train with one batch at a time")
	flag.IntVar(&b.rounds, "rounds", 3, "rounds")
	flag.IntVar(&b.epochs, "epochs", 3, "epochs of a run")
	flag.Parse()
	b.tool, b.more = &tool.Tool{Binary: *bin, Quiet: true}, flag.Args()
	if err := b.run(context.Background(), *pack); err != nil {
		log.Fatal(err)
	}
}

// bench is what to measure.
type bench struct {
	tool           *tool.Tool
	pack           *packfile.Reader
	drive          *tool.Drive
	dir            string
	io, memory     string
	serial         bool
	rounds, epochs int
	more           []string
}

// kinds of runs.
const (
	streamed = "streamed"
	inMemory = "in memory"
	serially = "serial"
)

func (b *bench) run(ctx context.Context, pack string) (err error) {
	if b.pack, err = packfile.Open(vfs.OS, pack); err != nil {
		return err
	}
	b.drive = tool.ColdDrive(b.io, b.pack)
	if b.dir, err = os.MkdirTemp("", "diskgnn-stream"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	kinds := []string{streamed}
	if b.memory != "" {
		kinds = append(kinds, inMemory)
	}
	if b.serial {
		kinds = append(kinds, serially)
	}
	var runs []figures
	for round := range b.rounds {
		rate, err := b.drive.Rate(ctx)
		if err != nil {
			return err
		}
		for _, kind := range kinds {
			f, err := b.measure(ctx, kind)
			if err != nil {
				return err
			}
			f.Round, f.Rate = round, rate
			runs = append(runs, f)
			if err := tool.Print(f); err != nil {
				return err
			}
		}
	}
	return tool.Print(summarize(runs))
}

// measure trains once.
func (b *bench) measure(ctx context.Context, kind string) (figures, error) {
	f := figures{Kind: kind}
	out := filepath.Join(b.dir, "run")
	if err := os.RemoveAll(out); err != nil {
		return f, err
	}
	args := append([]string{"train", "--pack", b.pack.Dir(), "--out", out, "--engine", "gpu", "--io", b.io,
		"--epochs", strconv.Itoa(b.epochs), "--validate-every", strconv.Itoa(b.epochs)}, b.more...)
	switch kind {
	case inMemory:
		args = append(args, "--gpu-cache", b.memory)
	case serially:
		args = append(args, "--slots", "1")
	}
	var tr training
	watch := watched{metrics: filepath.Join(out, "metrics.jsonl")}
	if err := watch.run(ctx, b.tool.Binary, args, &tr); err != nil {
		return f, err
	}
	f.take(&tr, &watch)
	return f, nil
}
