// Command topology makes a graph whose topology is twice --memory, samples it and trains on it
// live with --topology mapped and cached in turn, and prints a line of JSON for each.
//
//	go run ./bench/topology -bin bin/diskgnn -dir DIR
//	go run ./bench/topology -orders DATASET…
//
// The page cache has no limit here but the machine's: what is mapped may lie in memory as a
// whole, beside --memory, which does not count it. Run it in a cgroup of --memory, or a little
// more, to see both under the same limit; -drop empties the page cache of the files before every
// run. All runs of a kind must make the same samples, or train to the same loss.
//
// With -orders it draws an epoch of each dataset named with the neighbours of 5, 10, 25 and 50 %
// of the topology held, by each order, and prints how often they were held and what was read of
// the others.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"diskgnn/bench/internal/tool"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

// settings are the flags.
type settings struct {
	dir, fanout string
	memory      int // MiB
	degree      int
	batch       int
	rounds      int
	drop        bool
	tool        *tool.Tool
}

// run is one line.
type run struct {
	What     string  `json:"what"` // presample, or train
	Topology string  `json:"topology"`
	Round    int     `json:"round"`
	Seconds  float64 `json:"seconds"` // of sampling, or of an epoch: the second
	Batches  int     `json:"batches"`
	Bytes    int64   `json:"topology_bytes_per_batch"`
	Requests int64   `json:"topology_requests_per_batch"`
	Held     int64   `json:"topology_memory_bytes"`
	PeakAnon int64   `json:"peak_anon_bytes"`
	Memory   int64   `json:"memory_bytes"`
	Same     any     `json:"same"` // fingerprint, or loss
}

func main() {
	log.SetFlags(0)
	s := settings{tool: tool.Flag()}
	orders := flag.Bool("orders", false, "compare orders on the datasets that are named")
	method := flag.String("sampler", sampler.Uniform, "of -orders: uniform or labor")
	flag.StringVar(&s.dir, "dir", "", "where the graph and what is made of it go")
	flag.StringVar(&s.fanout, "fanout", "10,10", "neighbours to draw")
	flag.IntVar(&s.memory, "memory", 128, "MiB that the program may hold; the topology has twice as many")
	flag.IntVar(&s.degree, "avg-degree", 60, "of the graph")
	flag.IntVar(&s.batch, "batch-size", 512, "seed nodes of a batch")
	flag.IntVar(&s.rounds, "rounds", 2, "of everything, in turn")
	flag.BoolVar(&s.drop, "drop", true, "drop the dataset from the page cache before every run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *orders:
		err = s.orders(ctx, *method, flag.Args())
	case s.dir == "":
		err = errors.New("-dir: where to?")
	default:
		err = s.compare(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func (s *settings) orders(ctx context.Context, method string, dirs []string) (err error) {
	p := mbfile.Params{BatchSize: s.batch, Epochs: 2, TrainRatio: 1, Order: sampler.Random}
	if p.Fanout, err = sampler.ParseFanout(s.fanout); err != nil {
		return err
	}
	p.EvalFanout = p.Fanout
	if err := sampler.SetMethod(&p, method, 1, false); err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := compareOrders(ctx, filepath.Base(dir), dir, p); err != nil {
			return err
		}
	}
	return nil
}

// compare makes the graph and runs both stages on both levels.
func (s *settings) compare(ctx context.Context) error {
	memory := int64(s.memory) << 20
	nodes := 2 * memory / int64(4*s.degree+8)
	graph := filepath.Join(s.dir, fmt.Sprintf("graph-%d-%d", nodes, s.degree))
	var none struct{}
	if err := s.tool.Run(ctx, &none, "generate", "--out", graph, "--nodes", strconv.FormatInt(nodes, 10), "--avg-degree", strconv.Itoa(s.degree),
		"--dim", "16", "--train-ratio", "0.02"); err != nil {
		return err
	}
	// The table of pages is made beforehand: by a run that is not measured.
	if _, err := s.presample(ctx, graph, "cached", 0); err != nil {
		return err
	}
	first := map[string]any{}
	for round := range s.rounds {
		for _, level := range []string{"mapped", "cached"} {
			for _, stage := range []func(context.Context, string, string, int) (run, error){s.presample, s.train} {
				if s.drop {
					if err := drop(graph); err != nil {
						return err
					}
				}
				r, err := stage(ctx, graph, level, round)
				if err != nil {
					return err
				}
				r.Topology, r.Round, r.Memory = level, round, memory
				if err := tool.Print(r); err != nil {
					return err
				}
				if was, ok := first[r.What]; ok && was != r.Same {
					return fmt.Errorf("%s, %s: %v, before %v", r.What, level, r.Same, was)
				}
				first[r.What] = r.Same
			}
		}
	}
	return nil
}

func (s *settings) presample(ctx context.Context, graph, level string, _ int) (run, error) {
	out := filepath.Join(s.dir, "samples")
	if err := os.RemoveAll(out); err != nil {
		return run{}, err
	}
	var r struct {
		Fingerprint string  `json:"fingerprint"`
		Batches     int     `json:"batches"`
		Seconds     float64 `json:"sample_seconds"`
		Bytes       int64   `json:"topology_bytes_read"`
		Requests    int64   `json:"topology_requests"`
		Held        int64   `json:"topology_memory_bytes"`
		PeakAnon    int64   `json:"peak_anon_bytes"`
	}
	err := s.tool.Run(ctx, &r, "presample", "--dataset", graph, "--out", out, "--fanout", s.fanout, "--batch-size", strconv.Itoa(s.batch), "--epochs", "2",
		"--topology", level, "--memory", fmt.Sprint(s.memory, "MiB"))
	n := int64(max(r.Batches, 1))
	return run{What: "presample", Seconds: r.Seconds, Batches: r.Batches, Bytes: r.Bytes / n, Requests: r.Requests / n, Held: r.Held, PeakAnon: r.PeakAnon, Same: r.Fingerprint}, err
}

func (s *settings) train(ctx context.Context, graph, level string, _ int) (run, error) {
	out := filepath.Join(s.dir, "run")
	if err := os.RemoveAll(out); err != nil {
		return run{}, err
	}
	var r struct {
		Held     int64 `json:"topology_memory_bytes"`
		PeakAnon int64 `json:"peak_anon_bytes"`
		Epochs   []struct {
			Loss     float64 `json:"loss"`
			Seconds  float64 `json:"seconds"`
			Batches  int     `json:"batches"`
			Bytes    int64   `json:"topology_bytes_read"`
			Requests int64   `json:"topology_requests"`
		} `json:"epochs"`
	}
	args := []string{"train"}
	if level == "cached" {
		args = append(args, "--topology-memory", fmt.Sprint(s.memory/8, "MiB"))
	}
	if err := s.tool.Run(ctx, &r, append(args, "--dataset", graph, "--out", out, "--store", "rows", "--ram-cache", "5%", "--fanout", s.fanout, "--batch-size", strconv.Itoa(s.batch),
		"--epochs", "2", "--hidden", "16", "--dry-epochs", "0.1", "--topology", level, "--memory", fmt.Sprint(s.memory, "MiB"))...); err != nil {
		return run{}, err
	}
	e := r.Epochs[1]
	n := int64(max(e.Batches, 1))
	return run{What: "train", Seconds: e.Seconds, Batches: e.Batches, Bytes: e.Bytes / n, Requests: e.Requests / n, Held: r.Held, PeakAnon: r.PeakAnon, Same: e.Loss}, nil
}

// drop drops the files of a directory from the page cache.
func drop(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range files {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		err = errors.Join(unix.Fdatasync(int(f.Fd())), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
		if err != nil {
			return err
		}
	}
	return nil
}
