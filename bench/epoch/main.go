// Command epoch measures whole training epochs beside PyTorch Geometric and
// GraphBolt with DGL, the programs taking turns on the same cores: hidden 256, dropout
// 0.5. Ours reads a pack, which was sampled before; theirs sample as they train,
// everything in memory. It also compares peak resident memory, and says what sampling
// and packing took for each epoch that was sampled.
//
//	go build -o bin/diskgnn ./cmd/diskgnn
//	PEERS_DIR=… GB=…/gb/bin/python PYG=…/pyg/bin/python DISKGNN_DATA=… go run ./bench/epoch -graph computers -model gcn
//
// PEERS_DIR holds peer_train.py and peer_graphbolt.py; PYG and GB are their
// Pythons, a peer without one is left out.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"diskgnn/bench/internal/tool"
)

// setup is one graph's: the peers' epochs a round and how ours is packed.
type setup struct {
	source, peerName string
	batch            int
	fanout           [2]string // of sage, and of the others
	epochs           int
	sampled          int // epochs presampled
	cache            string
}

var setups = map[string]setup{
	"computers": {"amazon-computers.npz", "amazon-computers", 1000, [2]string{"10,10,10", "10,10"}, 4, 4, "100%"},
	"tolokers":  {"tolokers", "tolokers", 1000, [2]string{"10,10,10", "10,10"}, 4, 4, "100%"},
	"physics":   {"coauthor-physics.npz", "coauthor-physics", 512, [2]string{"5,5", "5,5"}, 2, 1, "50%"},
	"fb100":     {"fb100.npz", "fb100", 1000, [2]string{"5,5", "5,5"}, 2, 1, "20%"},
}

// fanoutOf returns the fanout for a model.
func (s *setup) fanoutOf(model string) string {
	if model == "sage" {
		return s.fanout[0]
	}
	return s.fanout[1]
}

type options struct {
	tool                                                       *tool.Tool
	peers, gb, pyg, data, peerData, work, graph, model, memory string
	rounds                                                     int
}

// rates are one program's, one value a round.
type rates struct {
	Seconds []float64 `json:"epoch_seconds"`
	RSS     []float64 `json:"peak_rss_bytes"`
	Loss    []float64 `json:"last_loss"`
	Read    []int64   `json:"bytes_read,omitempty"` // from disk in the last epoch; of ours
}

func main() {
	log.SetFlags(0)
	o := options{tool: tool.Flag()}
	flag.StringVar(&o.peers, "peers", os.Getenv("PEERS_DIR"), "directory of the peers' scripts")
	flag.StringVar(&o.gb, "gb", os.Getenv("GB"), "Python with GraphBolt; none: not measured")
	flag.StringVar(&o.pyg, "pyg", os.Getenv("PYG"), "Python with PyTorch Geometric; none: not measured")
	flag.StringVar(&o.data, "data", os.Getenv("DISKGNN_DATA"), "directory of the graphs")
	flag.StringVar(&o.peerData, "peer-data", "", "the same for the peers' scripts, which read tolokers.tar.gz; default: -data")
	flag.StringVar(&o.work, "work", filepath.Join(os.TempDir(), "diskgnn-epoch"), "scratch directory, kept")
	flag.StringVar(&o.graph, "graph", "computers", "computers, tolokers, physics or fb100")
	flag.StringVar(&o.model, "model", "sage", "sage, gcn or gat")
	flag.StringVar(&o.memory, "memory", "", "our --memory when training")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options) error {
	s, ok := setups[o.graph]
	if !ok {
		return fmt.Errorf("no graph %q", o.graph)
	}
	pack, before, err := prepare(ctx, o, s)
	if err != nil {
		return err
	}
	all := map[string]*rates{"diskgnn": {}}
	for round := range o.rounds {
		if err := ours(ctx, o, s, pack, round, all["diskgnn"]); err != nil {
			return err
		}
		for _, p := range []struct{ python, script string }{{o.pyg, "peer_train.py"}, {o.gb, "peer_graphbolt.py"}} {
			if p.python == "" {
				continue
			}
			if err := peer(ctx, o, s, p.python, p.script, round, all); err != nil {
				return err
			}
		}
	}
	return report(o, before, all)
}

// ahead is what sampling and packing took, for each epoch sampled.
type ahead struct {
	Presample float64 `json:"presample_seconds"`
	Pack      float64 `json:"pack_seconds"`
}

// prepare imports, samples and packs. A dataset that is there is kept; samples and pack are
// made again, since their seconds are results.
func prepare(ctx context.Context, o options, s setup) (pack string, a ahead, err error) {
	if err := os.MkdirAll(o.work, 0o777); err != nil {
		return "", a, err
	}
	ds := filepath.Join(o.work, o.graph)
	fanout := s.fanoutOf(o.model)
	smp, pack := ds+"-"+fanout+".samples", ds+"-"+fanout+".pack"
	var times [3]struct {
		Seconds float64 `json:"seconds"`
	}
	imported := []string{"import", "--format", "gnn-benchmark", "--binarize", "--row-normalize", "--out", ds, filepath.Join(o.data, s.source)}
	if o.graph == "tolokers" {
		imported = []string{"import", "--format", "graphbolt", "--out", ds, filepath.Join(o.data, s.source)}
	}
	for i, args := range [][]string{
		imported,
		{"presample", "--force", "--dataset", ds, "--out", smp, "--batch-size", strconv.Itoa(s.batch), "--fanout", fanout, "--epochs", strconv.Itoa(s.sampled)},
		{"pack", "--force", "--dataset", ds, "--samples", smp, "--out", pack, "--cache", s.cache},
	} {
		if err := o.tool.Run(ctx, &times[i], args...); err != nil {
			return "", a, err
		}
	}
	n := float64(s.sampled)
	a = ahead{times[1].Seconds / n, times[2].Seconds / n}
	log.Printf("for each epoch sampled: presample %.2f s, pack %.2f s", a.Presample, a.Pack)
	return pack, a, nil
}

func ours(ctx context.Context, o options, s setup, pack string, round int, r *rates) error {
	out, err := os.MkdirTemp(o.work, "run")
	if err != nil {
		return err
	}
	defer os.RemoveAll(out)
	args := []string{"train", "--pack", pack, "--out", filepath.Join(out, "run"), "--model", o.model, "--epochs", strconv.Itoa(s.epochs), "--lr", "0.01", "--seed", strconv.Itoa(round), "--threads", "2",
		"--validate-every", strconv.Itoa(s.epochs)} // as the peers, which do not validate between epochs
	if o.memory != "" {
		args = append(args, "--memory", o.memory)
	}
	var tr tool.Training
	if err := o.tool.Run(ctx, &tr, args...); err != nil {
		return err
	}
	last := &tr.Epochs[len(tr.Epochs)-1]
	r.add(tr.EpochSeconds(), float64(tr.PeakRSS), last.Loss)
	r.Read = append(r.Read, last.BytesRead)
	log.Printf("round %d: diskgnn: %.2f s an epoch, %.0f MiB, loss %.4f", round, tr.EpochSeconds(), float64(tr.PeakRSS)/(1<<20), tr.Epochs[len(tr.Epochs)-1].Loss)
	return nil
}

func (r *rates) add(seconds, rss, loss float64) {
	r.Seconds, r.RSS, r.Loss = append(r.Seconds, seconds), append(r.RSS, rss), append(r.Loss, loss)
}

func peer(ctx context.Context, o options, s setup, python, script string, round int, all map[string]*rates) error {
	cmd := exec.CommandContext(ctx, python, filepath.Join(o.peers, script), s.peerName, "--data", cmp.Or(o.peerData, o.data), "--model", o.model, "--no-eval",
		"--epochs", strconv.Itoa(s.epochs), "--seeds", strconv.Itoa(round), "--batch", strconv.Itoa(s.batch), "--fanout", s.fanoutOf(o.model), "--lr", "0.01")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", script, err)
	}
	var res struct {
		Peer string  `json:"peer"`
		RSS  float64 `json:"peak_rss_mib_training"`
		Runs []struct {
			Epochs []tool.Epoch `json:"epochs"`
		} `json:"runs"`
	}
	if err := tool.LastLine(out, &res); err != nil || len(res.Runs) == 0 {
		return fmt.Errorf("%s printed no result: %s", script, out)
	}
	tr := tool.Training{Epochs: res.Runs[0].Epochs}
	if all[res.Peer] == nil {
		all[res.Peer] = &rates{}
	}
	loss := tr.Epochs[len(tr.Epochs)-1].Loss
	all[res.Peer].add(tr.EpochSeconds(), res.RSS*(1<<20), loss)
	log.Printf("round %d: %s: %.2f s an epoch, %.0f MiB, loss %.4f", round, res.Peer, tr.EpochSeconds(), res.RSS, loss)
	return nil
}

func report(o options, before ahead, all map[string]*rates) error {
	fastest := 0.0
	for name, r := range all {
		m := tool.SpreadOf(r.Seconds).Median
		fmt.Printf("%-18s %v s an epoch, %8.0f MiB\n", name, tool.SpreadOf(r.Seconds), tool.Median(r.RSS)/(1<<20))
		if name != "diskgnn" && (fastest == 0 || m < fastest) {
			fastest = m
		}
	}
	us := all["diskgnn"]
	ratio := tool.Median(us.Seconds) / fastest
	fmt.Printf("%s, %s: %.2f times the faster peer's epoch; %d rounds; %.0f MB of an epoch from disk\n",
		o.graph, o.model, ratio, len(us.Seconds), float64(us.Read[0])/1e6)
	return tool.Print(map[string]any{"graph": o.graph, "model": o.model, "ahead": before, "rounds": o.rounds, "memory": o.memory, "programs": all, "epoch_ratio": ratio})
}
