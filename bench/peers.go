package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// peers are Python programs that are measured beside ours.
type peers struct {
	*harness
	scripts, gb, pyg string
}

func (h *harness) peers(f *flag.FlagSet) *peers {
	p := &peers{harness: h}
	f.StringVar(&p.scripts, "peers", os.Getenv("PEERS_DIR"), "directory of the peers' scripts")
	f.StringVar(&p.gb, "gb", os.Getenv("GB"), "Python with GraphBolt; empty: not measured")
	f.StringVar(&p.pyg, "pyg", os.Getenv("PYG"), "Python with PyTorch Geometric; empty: not measured")
	return p
}

// script runs a script and decodes the last line that it prints.
func (p *peers) script(ctx context.Context, result any, python, script string, args ...string) error {
	cmd := exec.CommandContext(ctx, python, append([]string{filepath.Join(p.scripts, script)}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = lastLine(out, result)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", script, err, out)
	}
	return nil
}

// side returns a peer as one of the sides that take turns; none if its Python is missing.
func (p *peers) side(name, python string, run func(ctx context.Context, round int) (row, error)) []side {
	if python == "" {
		return nil
	}
	return []side{{name, run}}
}

// over reports the ratio of our median to the median of the fastest peer: the peer with the least
// seconds, or with the most of any other quantity.
func (p *peers) over(all found, ours string, theirs []side, quantity string) error {
	var best float64
	for _, s := range theirs {
		m := all.median(s.name, quantity)
		if best == 0 || (m < best) == (quantity == "epoch_seconds") {
			best = m
		}
	}
	if best == 0 {
		return nil
	}
	return p.report(row{{quantity, all.median(ours, quantity)}, {"of_the_fastest_peer", best}, {"ratio", all.median(ours, quantity) / best}})
}

// sampleCommand compares sampling with GraphBolt and PyTorch Geometric, on the same R-MAT graph and the
// same cores. The programs take turns:
//
//	PEERS_DIR=… GB=…/gb/bin/python PYG=…/pyg/bin/python go run ./bench sample -dir DIR
//
// PEERS_DIR holds bench_sample.py, which makes the graph (2,097,152 nodes, 40 million edges, kept
// in -dir as a GraphBolt source tree) and times one sampler on it.
//
// A peer's time is the time to draw its batches in memory, without keeping them. The time of diskgnn
// is from the first draw until the last sample is durable on disk; a second figure is the time of
// the whole command, with the verification of the dataset. A training epoch of that graph has 64
// batches; -epochs sets the number of drawn epochs.
func sampleCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	p := h.peers(f)
	epochs := f.Int("epochs", 4, "epochs of 64 batches that diskgnn draws in each round")
	batches := f.Int("batches", 40, "batches of GraphBolt in each round")
	pygBatches := f.Int("pyg-batches", 10, "batches of PyTorch Geometric in each round")
	const batch, fanout = "1024", "10,15,20" // of the script, by default
	return func(ctx context.Context, _ []string) error {
		if p.scripts == "" || p.gb == "" && p.pyg == "" {
			return errors.New("give PEERS_DIR, and GB or PYG")
		}
		dir, err := h.place()
		if err != nil {
			return err
		}
		sampler := func(python, engine string, batches int) []side {
			return p.side(engine, python, func(ctx context.Context, _ int) (row, error) {
				var r struct {
					Runs []struct {
						MsPerBatch     float64 `json:"ms_per_batch"`
						EdgesPerSecond float64 `json:"edges_per_second"`
					} `json:"runs"`
				}
				err := p.script(ctx, &r, python, "bench_sample.py", "--engine", engine, "--save", dir, "--batch", batch, "--fanout", fanout, "--batches", strconv.Itoa(batches), "--threads", strconv.Itoa(h.threads))
				if err != nil || len(r.Runs) == 0 {
					return nil, errors.Join(err, errors.New("no run"))
				}
				return row{{"edges_per_second", r.Runs[0].EdgesPerSecond}, {"batches_per_second", 1000 / r.Runs[0].MsPerBatch}}, nil
			})
		}
		theirs := append(sampler(p.gb, "graphbolt", *batches), sampler(p.pyg, "pyg", *pygBatches)...)
		source, data := h.path("2097152-40000000-0"), h.path("dataset")
		if _, err := os.Stat(filepath.Join(source, "metadata.yaml")); err != nil {
			if _, err := theirs[0].run(ctx, 0); err != nil { // which makes it
				return err
			}
		}
		if err := h.do(ctx, []string{"import", "--format", "graphbolt", "--out", data, source}); err != nil {
			return err
		}
		ours := side{"diskgnn", func(ctx context.Context, round int) (row, error) {
			var r struct {
				Batches          int     `json:"batches"`
				Edges            float64 `json:"edges"`
				Seconds          float64 `json:"seconds"`
				EdgesPerSecond   float64 `json:"edges_per_second"`
				BatchesPerSecond float64 `json:"batches_per_second"`
				PeakAnon         int64   `json:"peak_anon_bytes"`
			}
			out := h.path("samples")
			err := h.run(ctx, &r, "presample", "--force", "--dataset", data, "--out", out, "--batch-size", batch, "--fanout", fanout,
				"--epochs", strconv.Itoa(*epochs), "--seed", strconv.Itoa(round), "--workers", strconv.Itoa(h.threads))
			return row{{"edges_per_second", r.EdgesPerSecond}, {"batches_per_second", r.BatchesPerSecond}, {"command_edges_per_second", r.Edges / r.Seconds},
				{"command_batches_per_second", float64(r.Batches) / r.Seconds}, {"peak_anon_bytes", r.PeakAnon}}, errors.Join(err, os.RemoveAll(out))
		}}
		all, err := h.turns(ctx, append([]side{ours}, theirs...)...)
		if err != nil {
			return err
		}
		return errors.Join(p.over(all, ours.name, theirs, "edges_per_second"), p.over(all, ours.name, theirs, "batches_per_second"))
	}
}

// epochCommand measures whole training epochs beside PyTorch Geometric and GraphBolt with DGL. The
// programs take turns on the same cores, with hidden width 256 and dropout 0.5. diskgnn reads a pack,
// sampled before; the others sample while training, with everything in memory. It also compares peak
// resident memory, and reports the seconds of sampling and packing for each sample epoch:
//
//	PEERS_DIR=… GB=…/gb/bin/python PYG=…/pyg/bin/python DISKGNN_DATA=… go run ./bench epoch -graph computers -model gcn
//
// PEERS_DIR holds peer_train.py and peer_graphbolt.py.
func epochCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	e := epochs{peers: h.peers(f)}
	f.StringVar(&e.data, "data", os.Getenv("DISKGNN_DATA"), "directory of the graphs")
	f.StringVar(&e.peerData, "peer-data", "", "directory of the graphs for the peers' scripts, which read tolokers.tar.gz; empty: -data")
	f.StringVar(&e.graph, "graph", "computers", "computers, tolokers, physics or fb100")
	f.StringVar(&e.model, "model", "sage", "sage, gcn or gat")
	f.StringVar(&e.memory, "memory", "", "--memory of train")
	return func(ctx context.Context, _ []string) error {
		var ok bool
		if e.setup, ok = setups[e.graph]; !ok {
			return fmt.Errorf("no graph %q", e.graph)
		}
		pack, before, err := e.prepare(ctx)
		if err != nil {
			return err
		}
		theirs := append(e.peer(e.pyg, "peer_train.py"), e.peer(e.gb, "peer_graphbolt.py")...)
		all, err := h.turns(ctx, append([]side{{"diskgnn", func(ctx context.Context, round int) (row, error) { return e.ours(ctx, pack, round) }}}, theirs...)...)
		if err != nil {
			return err
		}
		return errors.Join(h.report(before), e.over(all, "diskgnn", theirs, "epoch_seconds"))
	}
}

// setup has, for a graph, the number of the peers' epochs in a round, and the options of diskgnn's pack.
type setup struct {
	peerName string
	batch    int
	fanout   [2]string // of sage, and of the others
	epochs   int
	sampled  int // sample epochs
	cache    string
}

var setups = map[string]setup{
	"computers": {"amazon-computers", 1000, [2]string{"10,10,10", "10,10"}, 4, 4, "100%"},
	"tolokers":  {"tolokers", 1000, [2]string{"10,10,10", "10,10"}, 4, 4, "100%"},
	"physics":   {"coauthor-physics", 512, [2]string{"5,5", "5,5"}, 2, 1, "50%"},
	"fb100":     {"fb100", 1000, [2]string{"5,5", "5,5"}, 2, 1, "20%"},
}

type epochs struct {
	*peers
	setup
	data, peerData, graph, model, memory string
}

// fanout returns the fanout for the model.
func (e *epochs) fanout() string {
	if e.model == "sage" {
		return e.setup.fanout[0]
	}
	return e.setup.fanout[1]
}

// prepare imports, samples and packs. It keeps an existing dataset, but makes samples and pack again,
// since their seconds for each sample epoch are results.
func (e *epochs) prepare(ctx context.Context) (pack string, r row, err error) {
	if _, err := e.place(); err != nil {
		return "", nil, err
	}
	ds := e.path(e.graph)
	samples, pack := ds+"-"+e.fanout()+".samples", ds+"-"+e.fanout()+".pack"
	imported := []string{"import", "--format", "gnn-benchmark", "--binarize", "--row-normalize"}
	if e.graph == "tolokers" {
		imported = []string{"import", "--format", "graphbolt"}
	}
	for _, args := range [][]string{
		append(imported, "--out", ds, filepath.Join(e.data, sources[e.graph])),
		{"presample", "--force", "--dataset", ds, "--out", samples, "--batch-size", strconv.Itoa(e.batch), "--fanout", e.fanout(), "--epochs", strconv.Itoa(e.sampled)},
		{"pack", "--force", "--dataset", ds, "--samples", samples, "--out", pack, "--cache", e.cache},
	} {
		var made struct {
			Seconds float64 `json:"seconds"`
		}
		if err := e.run(ctx, &made, args...); err != nil {
			return "", nil, err
		}
		r = append(r, field{args[0] + "_seconds", made.Seconds / float64(e.sampled)})
	}
	return pack, r[1:], nil
}

func (e *epochs) ours(ctx context.Context, pack string, round int) (row, error) {
	args := []string{"--pack", pack, "--model", e.model, "--epochs", strconv.Itoa(e.setup.epochs), "--lr", "0.01", "--seed", strconv.Itoa(round), "--threads", strconv.Itoa(e.threads),
		"--validate-every", strconv.Itoa(e.setup.epochs)} // as the peers, which do not validate between epochs
	if e.memory != "" {
		args = append(args, "--memory", e.memory)
	}
	t, err := e.train(ctx, args...)
	if err != nil {
		return nil, err
	}
	return append(trained(&t, t.PeakRSS), field{"bytes_read", t.last().BytesRead}), nil
}

func trained(t *training, rss int64) row {
	return row{{"epoch_seconds", t.epochSeconds()}, {"peak_rss_bytes", rss}, {"last_loss", t.last().Loss}}
}

func (e *epochs) peer(python, script string) []side {
	return e.side(script, python, func(ctx context.Context, round int) (row, error) {
		var r struct {
			RSS  float64    `json:"peak_rss_mib_training"`
			Runs []training `json:"runs"`
		}
		err := e.script(ctx, &r, python, script, e.peerName, "--data", cmp.Or(e.peerData, e.data), "--model", e.model, "--no-eval",
			"--epochs", strconv.Itoa(e.setup.epochs), "--seeds", strconv.Itoa(round), "--batch", strconv.Itoa(e.batch), "--fanout", e.fanout(), "--lr", "0.01")
		if err == nil && (len(r.Runs) == 0 || slices.ContainsFunc(r.Runs, func(t training) bool { return len(t.Epochs) == 0 })) {
			err = errors.New("no epoch was trained")
		}
		if err != nil {
			return nil, err
		}
		return trained(&r.Runs[0], int64(r.RSS*(1<<20))), nil
	})
}
