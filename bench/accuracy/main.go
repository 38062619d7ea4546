// Command accuracy trains what examples/ describe, with several seeds, and prints the
// scores beside a peer's by the same protocol and beside published ones.
//
//	go run ./bench/accuracy -bin bin/diskgnn -data DIR computers-sage tolokers-gcn
//	go run ./bench/accuracy -bin bin/diskgnn -data DIR -seeds 3 -peers dgl.jsonl fb100-sage
//
// Peers are PyTorch Geometric, by the scores that this program knows, or what -peers has:
// lines that peers.sh has printed.
//
// DIR holds amazon-computers.npz, coauthor-physics.npz, fb100.npz with their
// _split.npz, and the unpacked GraphBolt tree tolokers/. A result is a line of JSON.
// Every epoch has a sample of its own, as in the file, unless -sampled: 1 replays one.
//
// Of each run there are three test scores, all of the best validation epoch's weights:
// test, as the file's eval-fanout has it; sampled, with the fanout of training; exact,
// by `diskgnn eval --exact`. The peers evaluate all nodes from all neighbours: the exact score
// is compared with theirs, if there is one.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/bench/internal/tool"
	"diskgnn/internal/errgroup"
)

// score is somebody else's: in percent, with its standard deviation over so many seeds.
type score struct {
	Peer  string  `json:"peer"`
	Mean  float64 `json:"mean"`
	SD    float64 `json:"sd"`
	Seeds int     `json:"seeds"`
}

const pyg = "PyTorch Geometric"

// known are PyTorch Geometric's, sampled in memory, by the protocol of the example.
var known = map[string]score{
	"computers-sage": {pyg, 91.74, 0.41, 3}, "computers-gcn": {pyg, 90.29, 0.42, 3}, "computers-gat": {pyg, 91.47, 0.64, 3},
	"tolokers-sage": {pyg, 82.07, 0.35, 3}, "tolokers-gcn": {pyg, 75.35, 0.13, 3}, "tolokers-gat": {pyg, 75.29, 1.08, 3},
	"physics-sage": {pyg, 97.12, 0, 1},
}

// readPeers reads what peers.sh printed, by the names of the examples.
func readPeers(name string) (map[string]score, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	scores := make(map[string]score)
	for line := range bytes.Lines(text) {
		var r struct {
			Peer, Dataset, Model string
			Mean                 float64  `json:"test_mean"`
			SD                   *float64 `json:"test_sd"`
			Runs                 []any
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		graph := r.Dataset
		for ours, source := range tool.Sources {
			if strings.TrimSuffix(source, ".npz") == graph {
				graph = ours
			}
		}
		s := score{Peer: r.Peer, Mean: 100 * r.Mean, Seeds: len(r.Runs)}
		if r.SD != nil {
			s.SD = 100 * *r.SD
		}
		scores[graph+"-"+r.Model] = s
	}
	return scores, nil
}

// published are of full batches, tuned (Luo et al., NeurIPS 2024; tolokers: Platonov
// et al., ICLR 2023).
var published = map[string]float64{
	"computers-sage": 93.25, "computers-gcn": 93.99, "computers-gat": 94.09,
	"tolokers-sage": 82.43, "tolokers-gcn": 83.64, "tolokers-gat": 83.70,
	"physics-sage": 97.19, "physics-gcn": 97.46, "physics-gat": 97.25,
}

// result is what an example came to: scores in percent.
type result struct {
	Example      string    `json:"example"`
	SampledEpoch int       `json:"sampled_epochs,omitempty"` // 0: one for every epoch
	Test         []float64 `json:"test"`
	Mean         float64   `json:"mean"`
	SD           float64   `json:"sd"`
	Sampled      []float64 `json:"sampled,omitempty"`
	SampledMean  float64   `json:"sampled_mean,omitempty"`
	Exact        []float64 `json:"exact,omitempty"`
	ExactMean    float64   `json:"exact_mean,omitempty"`
	ExactSD      float64   `json:"exact_sd,omitempty"`
	Peer         *score    `json:"peer,omitempty"`
	Published    float64   `json:"published,omitempty"`
	Difference   *float64  `json:"difference_points,omitempty"` // from the peer's mean
	TwoSE        *float64  `json:"two_standard_errors,omitempty"`
	BestEpochs   []int     `json:"best_epochs"`
	EpochSeconds float64   `json:"epoch_seconds_median"`
	PeakRSS      int64     `json:"peak_rss_bytes"`
	PeakAnon     int64     `json:"peak_anon_bytes"`
}

type bench struct {
	*tool.Examples
	seeds, sampled int
	threads        string
	train, sample  []string // more flags of train and of presample
	exact, drawn   bool
	peers          map[string]score
}

func main() {
	log.SetFlags(0)
	b := bench{Examples: tool.FlagExamples("accuracy"), peers: known}
	flag.IntVar(&b.seeds, "seeds", 5, "seeds")
	flag.IntVar(&b.sampled, "sampled", 0, "epochs presampled, which the others replay; 0: all")
	flag.StringVar(&b.threads, "threads", "2", "threads of a run")
	flag.BoolVar(&b.exact, "exact", true, "score with eval --exact too")
	flag.BoolVar(&b.drawn, "drawn", true, "score with training's fanout too")
	jobs := flag.Int("jobs", 1, "runs at a time")
	more := flag.String("train", "", "more flags of train, separated by spaces")
	drawing := flag.String("presample", "", "more flags of presample, separated by spaces")
	peers := flag.String("peers", "", "lines of peers.sh; empty: what is known of PyTorch Geometric")
	loud := flag.Bool("progress", false, "show the program's progress")
	flag.Parse()
	b.Quiet, b.train, b.sample = !*loud, strings.Fields(*more), strings.Fields(*drawing)
	if *peers != "" {
		var err error
		if b.peers, err = readPeers(*peers); err != nil {
			log.Fatal(err)
		}
	}
	if err := b.run(context.Background(), flag.Args(), *jobs); err != nil {
		log.Fatal(err)
	}
}

// run measures all examples, the runs of all of them in parallel.
func (b *bench) run(ctx context.Context, examples []string, jobs int) error {
	if err := os.MkdirAll(b.Work, 0o777); err != nil {
		return err
	}
	for _, name := range examples {
		if err := b.MakeDataset(ctx, name, b.dataset(name)); err != nil {
			return err
		}
	}
	runs := make([][]run, len(examples))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(jobs)
	for i, name := range examples {
		runs[i] = make([]run, b.seeds)
		for seed := range b.seeds {
			g.Go(func() (err error) {
				runs[i][seed], err = b.runSeed(ctx, name, seed)
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, name := range examples {
		if err := tool.Print(b.sum(name, runs[i])); err != nil {
			return err
		}
	}
	return nil
}

// dataset returns where an example's graph lies: what is tuned may import it otherwise.
func (b *bench) dataset(name string) string {
	graph := tool.Graph(name)
	if strings.HasSuffix(name, tuning) {
		graph += tuning
	}
	return filepath.Join(b.Work, graph)
}

// tuning ends the names of examples with other options than the peer's protocol has.
const tuning = "-tuned"

// run is what one seed came to.
type run struct {
	training       tool.Training
	sampled, exact float64
}

func (b *bench) runSeed(ctx context.Context, name string, seed int) (r run, err error) {
	dir, err := os.MkdirTemp(b.Work, name)
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	var presample []string
	if b.sampled > 0 {
		presample = []string{"--epochs", strconv.Itoa(b.sampled)}
	}
	pack, err := b.pack(ctx, name, filepath.Join(dir, "train"), seed, presample...)
	if err != nil {
		return r, err
	}
	out := filepath.Join(dir, "run")
	args := append([]string{"train", "--config", b.Config(name), "--pack", pack, "--out", out, "--seed", strconv.Itoa(seed), "--threads", b.threads}, b.train...)
	if err := b.Run(ctx, &r.training, args...); err != nil {
		return r, err
	}
	log.Printf("%s, seed %d: test %.2f %%, validation %.2f %% after epoch %d, %.2f s an epoch", name, seed,
		100*r.training.TestAccuracy, 100*r.training.ValidAccuracy, r.training.BestEpoch, r.training.EpochSeconds())
	var scored struct {
		Test float64 `json:"test_accuracy"`
	}
	if b.exact {
		if err := b.Run(ctx, &scored, "eval", "--config", b.Config(name), "--run", out, "--dataset", b.dataset(name), "--exact", "--threads", b.threads); err != nil {
			return r, err
		}
		r.exact = scored.Test
	}
	if b.drawn {
		if pack, err = b.pack(ctx, name, filepath.Join(dir, "eval"), seed, "--epochs", "1", "--eval-fanout", "same"); err != nil {
			return r, err
		}
		if err := b.Run(ctx, &scored, "eval", "--config", b.Config(name), "--run", out, "--pack", pack, "--threads", b.threads); err != nil {
			return r, err
		}
		r.sampled = scored.Test
	}
	return r, nil
}

// pack samples and packs, and leaves the pack alone.
func (b *bench) pack(ctx context.Context, name, dir string, seed int, more ...string) (string, error) {
	samples, pack := dir+".samples", dir+".pack"
	args := []string{"presample", "--config", b.Config(name), "--dataset", b.dataset(name), "--out", samples, "--seed", strconv.Itoa(seed), "--workers", b.threads}
	if err := b.Run(ctx, new(any), slices.Concat(args, b.sample, more)...); err != nil {
		return "", err
	}
	if err := b.Run(ctx, new(any), "pack", "--config", b.Config(name), "--dataset", b.dataset(name), "--samples", samples, "--out", pack, "--workers", b.threads); err != nil {
		return "", err
	}
	return pack, os.RemoveAll(samples)
}

// sum puts the seeds together, and beside what others reached.
func (b *bench) sum(name string, runs []run) result {
	r := result{Example: name, SampledEpoch: b.sampled, Published: published[strings.TrimSuffix(name, tuning)]}
	var epochs []float64
	for _, s := range runs {
		r.Test = append(r.Test, 100*s.training.TestAccuracy)
		r.BestEpochs = append(r.BestEpochs, s.training.BestEpoch)
		r.PeakRSS, r.PeakAnon = max(r.PeakRSS, s.training.PeakRSS), max(r.PeakAnon, s.training.PeakAnon)
		epochs = append(epochs, s.training.EpochSeconds())
		if b.exact {
			r.Exact = append(r.Exact, 100*s.exact)
		}
		if b.drawn {
			r.Sampled = append(r.Sampled, 100*s.sampled)
		}
	}
	r.EpochSeconds = tool.Median(epochs)
	r.Mean, r.SD = tool.MeanSD(r.Test)
	r.ExactMean, r.ExactSD = tool.MeanSD(r.Exact)
	r.SampledMean, _ = tool.MeanSD(r.Sampled)
	if peer, ok := b.peers[name]; ok {
		mean, ownSD := r.Mean, r.SD
		if b.exact {
			mean, ownSD = r.ExactMean, r.ExactSD
		}
		// One seed's standard deviation is not known: the other side's stands for it.
		n, sd, peerSD := float64(len(runs)), cmp.Or(ownSD, peer.SD), cmp.Or(peer.SD, ownSD)
		difference, two := mean-peer.Mean, 2*math.Sqrt(sd*sd/n+peerSD*peerSD/float64(peer.Seeds))
		r.Peer, r.Difference, r.TwoSE = &peer, &difference, &two
	}
	return r
}
