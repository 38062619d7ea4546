// Command nvme measures training from a volume on NVMe drives, `--io nvme:TARGET`, beside
// training from the files that were loaded onto it, in turn: packed mini-batches, and rows of a
// dataset (`--store rows`), each with a model, whose weights must be the same bytes, and once
// more without computing, so that reads are what takes the time.
//
// By default the drive is a file behind a controller in software: both sides read the same
// drive then, and what differs is the cost of queues that the program drives itself, of a
// controller that runs on the same processors, and of one more hop to the kernel. With -target
// it is another, whose content is replaced if it is a volume.
//
// In a directory with room for some 4 GB it makes the graph, samples and pack that are not
// there yet. It needs the program beside itself and nothing else:
//
//	make build && go build -o bin/bench/ ./bench/nvme
//	bin/bench/nvme -bin bin/diskgnn -dir DIR
//
// It prints each round, and medians with the least and the most, as lines of JSON. Seconds and
// bytes are of an epoch, of those but the first, which fills the caches.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/bench/internal/tool"
)

func main() {
	log.SetFlags(0)
	b := bench{Tool: tool.Flag()}
	flag.StringVar(&b.dir, "dir", "", "directory for the graph, samples, pack, drives and runs")
	flag.StringVar(&b.target, "target", "", "the drives; default: a file in -dir behind a controller in software")
	flag.StringVar(&b.beside, "io", "uring", "--io of what is compared with")
	flag.StringVar(&b.cache, "ram-cache", "5%", "--ram-cache, and the pack's --cache")
	flag.IntVar(&b.hidden, "hidden", 16, "--hidden: little, so that reads are a part of the time")
	flag.IntVar(&b.epochs, "epochs", 3, "--epochs, of which the first does not count")
	nodes := flag.Int("nodes", 1_000_000, "of the graph")
	dim := flag.Int("dim", 128, "float32s of a row")
	seeds := flag.Int("seeds", 16_000, "of an epoch")
	rounds := flag.Int("rounds", 3, "rounds")
	flag.Parse()
	if b.dir == "" {
		log.Fatal("nvme: -dir is missing")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := b.run(ctx, *nodes, *dim, *seeds, *rounds); err != nil {
		log.Fatal("nvme: ", err)
	}
}

// bench is what the rounds share.
type bench struct {
	*tool.Tool
	dir, target, beside, cache string
	hidden, epochs             int
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// source is what is trained on, and what of it lies on the drives.
type source struct {
	name   string
	loaded string
	train  []string
}

func (b *bench) sources() []source {
	return []source{
		{"packed", b.path("pack"), []string{"--pack", b.path("pack")}},
		{"rows", b.path("graph"), []string{"--dataset", b.path("graph"), "--samples", b.path("samples"), "--store", "rows"}},
	}
}

// result is what one round found of one source by one engine.
type result struct {
	Source string `json:"source"`
	Engine string `json:"engine"` // none: the loader alone

	Beside float64 `json:"beside_seconds"`
	NVMe   float64 `json:"nvme_seconds"`
	Ratio  float64 `json:"ratio"` // of the seconds, below one where NVMe is faster

	BesideBytes int64 `json:"beside_bytes_read"`
	NVMeBytes   int64 `json:"nvme_bytes_read"`

	SameWeights *bool `json:"same_weights,omitempty"` // nil without computing
}

func (b *bench) run(ctx context.Context, nodes, dim, seeds, rounds int) error {
	if err := b.prepare(ctx, nodes, dim, seeds); err != nil {
		return err
	}
	found := map[string][]result{}
	for round := range rounds {
		for _, s := range b.sources() {
			to, err := b.load(ctx, s)
			if err != nil {
				return err
			}
			for _, engine := range []string{"cpu", "none"} {
				r, err := b.measure(ctx, s, to, engine, round)
				if err != nil {
					return err
				}
				if err := tool.Print(r); err != nil {
					return err
				}
				found[s.name+" "+engine] = append(found[s.name+" "+engine], r)
			}
		}
	}
	for _, s := range b.sources() {
		for _, engine := range []string{"cpu", "none"} {
			rounds := found[s.name+" "+engine]
			summary := tool.Summary(rounds,
				tool.Named("beside_seconds", func(r result) float64 { return r.Beside }),
				tool.Named("nvme_seconds", func(r result) float64 { return r.NVMe }),
				tool.Named("ratio", func(r result) float64 { return r.Ratio }),
				tool.Named("beside_bytes_read", func(r result) float64 { return float64(r.BesideBytes) }),
				tool.Named("nvme_bytes_read", func(r result) float64 { return float64(r.NVMeBytes) }),
			)
			summary["source"], summary["engine"], summary["beside"] = s.name, engine, b.beside
			if err := tool.Print(summary); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepare makes what is not there.
func (b *bench) prepare(ctx context.Context, nodes, dim, seeds int) error {
	if err := os.MkdirAll(b.dir, 0o777); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"generate", "--out", b.path("graph"), "--nodes", strconv.Itoa(nodes), "--dim", strconv.Itoa(dim), "--train-ratio", fmt.Sprint(float64(seeds) / float64(nodes))},
		{"presample", "--dataset", b.path("graph"), "--out", b.path("samples"), "--batch-size", "1000", "--fanout", "5,5"},
		{"pack", "--dataset", b.path("graph"), "--samples", b.path("samples"), "--out", b.path("pack"), "--cache", b.cache},
	} {
		if err := b.Run(ctx, &struct{}{}, args...); err != nil {
			return err
		}
	}
	return nil
}

// load puts what is trained on onto the drives, and returns their target. Files are one for
// each source, so that nothing is loaded twice.
func (b *bench) load(ctx context.Context, s source) (string, error) {
	to := b.target
	args := []string{"nvme", "load", s.loaded}
	if to == "" {
		name := b.path(s.name + ".drive")
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			size, err := sizeOf(s.loaded)
			if err != nil {
				return "", err
			}
			args = append(args, "--size", fmt.Sprintf("%dMiB", size>>20+64))
		}
		to = "soft:" + name
	} else {
		args = append(args, "--force") // the other source's directory
	}
	return to, b.Run(ctx, &struct{}{}, append(args, to)...)
}

func sizeOf(dir string) (n int64, err error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range all {
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		n += info.Size() + 4096
	}
	return n, nil
}

// measure trains from files and from the drives, the one first in one round and the other in
// the next.
func (b *bench) measure(ctx context.Context, s source, target, engine string, round int) (r result, err error) {
	r = result{Source: s.name, Engine: engine}
	kinds := []string{b.beside, "nvme:" + target}
	if round%2 == 1 {
		slices.Reverse(kinds)
	}
	weights := map[string][]byte{}
	for _, kind := range kinds {
		tr, w, err := b.train(ctx, s, kind, engine)
		if err != nil {
			return r, err
		}
		weights[kind] = w
		read := tr.Epochs[len(tr.Epochs)-1].BytesRead
		if kind == b.beside {
			r.Beside, r.BesideBytes = tr.EpochSeconds(), read
		} else {
			r.NVMe, r.NVMeBytes = tr.EpochSeconds(), read
		}
	}
	r.Ratio = r.NVMe / r.Beside
	if engine != "none" {
		same := bytes.Equal(weights[kinds[0]], weights[kinds[1]])
		if r.SameWeights = &same; !same {
			return r, fmt.Errorf("%s: the weights of %s are others", s.name, strings.Join(kinds, " and "))
		}
	}
	return r, nil
}

// train trains once and returns what the run says, and its weights, if it has any.
func (b *bench) train(ctx context.Context, s source, kind, engine string) (tr tool.Training, weights []byte, err error) {
	out, err := os.MkdirTemp(b.dir, "run")
	if err != nil {
		return tr, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(out)) }()
	out = filepath.Join(out, "run")
	args := append([]string{"train", "--out", out, "--io", kind, "--engine", engine, "--epochs", strconv.Itoa(b.epochs),
		"--hidden", strconv.Itoa(b.hidden), "--ram-cache", b.cache, "--validate-every", strconv.Itoa(b.epochs)}, s.train...)
	if err = b.Run(ctx, &tr, args...); err == nil && engine != "none" {
		weights, err = os.ReadFile(filepath.Join(out, "weights.safetensors"))
	}
	return tr, weights, err
}
