// Command sample measures sampling against GraphBolt and PyTorch Geometric on the
// same R-MAT graph and the same cores, the programs taking turns.
//
//	go build -o bin/diskgnn ./cmd/diskgnn
//	PEERS_DIR=… GB=…/gb/bin/python PYG=…/pyg/bin/python go run ./bench/sample
//
// PEERS_DIR holds bench_sample.py, which makes the graph (2,097,152 nodes, 40
// million edges, kept under -graph as a GraphBolt source tree) and times one
// sampler on it; GB is a Python with DGL's GraphBolt, PYG one with PyTorch
// Geometric, left out when not given.
//
// A peer's time is that of its batches, in memory and thrown away. Ours runs from
// the first draw until the last sample is durable on disk, and is given once more
// with the dataset's verification and everything else that the command does. A
// training epoch of that graph has 64 batches; -epochs sets how many are drawn.
// Prints a line for every run, a table of medians, and one JSON object.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"diskgnn/bench/internal/tool"
)

// The graph that bench_sample.py makes by default, and its options.
const (
	graphName = "2097152-40000000-0"
	batchSize = 1024
	fanout    = "10,15,20"
)

type options struct {
	tool                  *tool.Tool
	peers, gb, pyg, graph string
	threads, runs, epochs int
	batches, pygBatches   int
}

func main() {
	log.SetFlags(0)
	o := options{tool: tool.Flag()}
	flag.StringVar(&o.peers, "peers", os.Getenv("PEERS_DIR"), "directory of bench_sample.py")
	flag.StringVar(&o.gb, "gb", os.Getenv("GB"), "Python with GraphBolt; none: not measured")
	flag.StringVar(&o.pyg, "pyg", os.Getenv("PYG"), "Python with PyTorch Geometric; none: not measured")
	flag.StringVar(&o.graph, "graph", filepath.Join(os.TempDir(), "rmat"), "directory of the graph, kept")
	flag.IntVar(&o.threads, "threads", 2, "threads of GraphBolt, workers of ours")
	flag.IntVar(&o.runs, "runs", 5, "rounds")
	flag.IntVar(&o.epochs, "epochs", 4, "epochs of 64 batches that we draw in each")
	flag.IntVar(&o.batches, "batches", 40, "batches of GraphBolt in each")
	flag.IntVar(&o.pygBatches, "pyg-batches", 10, "batches of PyTorch Geometric in each")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		log.Fatal(err)
	}
}

// rates are one sampler's, one value a round.
type rates struct {
	Edges   []float64 `json:"edges_per_second"`
	Batches []float64 `json:"batches_per_second"`
}

func (r *rates) add(edges, batches float64) {
	r.Edges, r.Batches = append(r.Edges, edges), append(r.Batches, batches)
}

func run(ctx context.Context, o options) error {
	if o.peers == "" || o.gb == "" && o.pyg == "" {
		return errors.New("give PEERS_DIR, and GB or PYG")
	}
	source := filepath.Join(o.graph, graphName)
	if _, err := os.Stat(filepath.Join(source, "metadata.yaml")); err != nil {
		log.Printf("making %s", source)
		python, engine := o.gb, "graphbolt"
		if python == "" {
			python, engine = o.pyg, "pyg"
		}
		if _, err := o.peer(ctx, python, engine, 1); err != nil {
			return err
		}
	}
	dataset := filepath.Join(o.graph, "dataset")
	var ignore map[string]any
	if err := o.tool.Run(ctx, &ignore, "import", "--format", "graphbolt", "--out", dataset, source); err != nil {
		return err
	}
	ours, whole, all := &rates{}, &rates{}, map[string]*rates{}
	all["diskgnn"], all["diskgnn, whole command"] = ours, whole
	for round := range o.runs {
		if err := o.ours(ctx, dataset, round, ours, whole); err != nil {
			return err
		}
		for _, p := range []struct {
			python, engine string
			batches        int
		}{{o.gb, "graphbolt", o.batches}, {o.pyg, "pyg", o.pygBatches}} {
			if p.python == "" {
				continue
			}
			r, err := o.peer(ctx, p.python, p.engine, p.batches)
			if err != nil {
				return err
			}
			if all[r.Engine] == nil {
				all[r.Engine] = &rates{}
			}
			one := r.Runs[0]
			all[r.Engine].add(one.EdgesPerSecond, 1000/one.MsPerBatch)
			log.Printf("round %d: %s: %.1f M edges/s, %.1f batches/s", round, r.Engine, one.EdgesPerSecond/1e6, 1000/one.MsPerBatch)
		}
	}
	return report(o, all)
}

// ours samples into a fresh directory, removed afterwards.
func (o *options) ours(ctx context.Context, dataset string, round int, ours, whole *rates) error {
	out := filepath.Join(o.graph, "samples")
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	defer os.RemoveAll(out)
	var r struct {
		Batches          int     `json:"batches"`
		Edges            float64 `json:"edges"`
		Seconds          float64 `json:"seconds"`
		EdgesPerSecond   float64 `json:"edges_per_second"`
		BatchesPerSecond float64 `json:"batches_per_second"`
		PeakAnon         int64   `json:"peak_anon_bytes"`
	}
	err := o.tool.Run(ctx, &r, "presample", "--dataset", dataset, "--out", out, "--batch-size", strconv.Itoa(batchSize), "--fanout", fanout,
		"--epochs", strconv.Itoa(o.epochs), "--seed", strconv.Itoa(round), "--workers", strconv.Itoa(o.threads))
	if err != nil {
		return err
	}
	ours.add(r.EdgesPerSecond, r.BatchesPerSecond)
	whole.add(r.Edges/r.Seconds, float64(r.Batches)/r.Seconds)
	log.Printf("round %d: diskgnn: %.1f M edges/s, %.1f batches/s; whole command %.1f M edges/s; %d MiB anonymous",
		round, r.EdgesPerSecond/1e6, r.BatchesPerSecond, r.Edges/r.Seconds/1e6, r.PeakAnon>>20)
	return nil
}

// peerResult is what bench_sample.py prints.
type peerResult struct {
	Engine string `json:"engine"`
	Runs   []struct {
		MsPerBatch     float64 `json:"ms_per_batch"`
		EdgesPerSecond float64 `json:"edges_per_second"`
	} `json:"runs"`
}

func (o *options) peer(ctx context.Context, python, engine string, batches int) (peerResult, error) {
	var r peerResult
	cmd := exec.CommandContext(ctx, python, filepath.Join(o.peers, "bench_sample.py"), "--engine", engine, "--save", o.graph,
		"--batch", strconv.Itoa(batchSize), "--fanout", fanout, "--batches", strconv.Itoa(batches), "--threads", strconv.Itoa(o.threads))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("%s: %w", engine, err)
	}
	if err := tool.LastLine(out, &r); err != nil || len(r.Runs) == 0 {
		return r, fmt.Errorf("%s printed no result: %s", engine, out)
	}
	return r, nil
}

// report prints medians with the least and the most, and how many times the fastest peer we
// are.
func report(o options, all map[string]*rates) error {
	type row struct {
		Rounds  *rates      `json:"rounds"`
		Edges   tool.Spread `json:"edges_per_second_spread"`
		Batches tool.Spread `json:"batches_per_second_spread"`
	}
	rows := map[string]row{}
	var peer row
	for name, r := range all {
		x := row{r, tool.SpreadOf(r.Edges), tool.SpreadOf(r.Batches)}
		rows[name] = x
		fmt.Printf("%-24s %v edges/s, %v batches/s\n", name, x.Edges, x.Batches)
		if name != "diskgnn" && name != "diskgnn, whole command" && x.Edges.Median > peer.Edges.Median {
			peer = x
		}
	}
	edges := rows["diskgnn"].Edges.Median / peer.Edges.Median
	batches := rows["diskgnn"].Batches.Median / peer.Batches.Median
	fmt.Printf("edges/s %.2f times the faster peer's, batches/s %.2f times\n", edges, batches)
	return tool.Print(map[string]any{"threads": o.threads, "runs": o.runs, "samplers": rows, "edges_ratio": edges, "batches_ratio": batches})
}
