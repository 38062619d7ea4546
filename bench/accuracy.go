package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

// accuracyCommand trains the models of examples/ with several seeds, and prints the scores in
// percent, beside the scores of a peer with the same protocol and beside published ones:
//
//	go run ./bench accuracy -data DIR computers-sage tolokers-gcn
//	go run ./bench accuracy -data DIR -seeds 3 -peers dgl.jsonl fb100-sage
//	go run ./bench accuracy -data DIR -variants uniform,labor,labor-16 -plan -drawn=false computers-sage
//	go run ./bench accuracy -dataset DATASET -variants float32,bf16,int8,int4,overlap,min -sampled 10
//
// The peer is PyTorch Geometric, with the scores in this package, or the program of the -peers
// file: lines printed by accuracy/peers.sh. The directory of -data holds amazon-computers.npz,
// coauthor-physics.npz, fb100.npz with their _split.npz, and the unpacked GraphBolt tree tolokers/.
// Every epoch has a sample of its own, as in the file, unless -sampled sets the number of sample
// epochs.
//
// Each run has three test scores, all with the best validation epoch's weights: test, with the
// file's eval-fanout; sampled, with the fanout of training; exact, by `diskgnn eval --exact`. The
// peers evaluate all nodes from all neighbours: the exact score is compared with theirs.
//
// Variants take turns, and each is compared with the first. Input nodes, edges and bytes are an
// epoch's, for the training batches. With -plan, bytes are counted by `diskgnn pack --plan`, for
// packs of policy static with caches of 5 and 10 % of the rows; with -min also for a pack of policy
// min with 10 %.
func accuracyCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	b := &accuracy{harness: h, more: map[string]*string{}}
	f.StringVar(&b.examples, "examples", "examples", "directory of the configurations")
	f.StringVar(&b.data, "data", os.Getenv("DISKGNN_DATA"), "directory of the graphs")
	f.StringVar(&b.dataset, "dataset", "", "a dataset, in place of examples")
	f.IntVar(&h.rounds, "seeds", 5, "seeds")
	f.IntVar(&b.first, "first", 0, "the first seed")
	f.IntVar(&b.sampled, "sampled", 0, "number of sample epochs, which training repeats in turn; 0: as in the file")
	variants := f.String("variants", "uniform", "variants that take turns: uniform, float32, labor[-layer][-K], bf16, int8, int4, overlap, min")
	f.BoolVar(&b.trained, "score", true, "train and print scores")
	f.BoolVar(&b.exact, "exact", true, "score with eval --exact too")
	f.BoolVar(&b.drawn, "drawn", true, "score with the fanout of training too")
	f.BoolVar(&b.plan, "plan", false, "count bytes from the plans of packs")
	f.BoolVar(&b.min, "min", false, "make packs of policy min, to count their bytes")
	for _, stage := range []string{"presample", "pack", "train"} {
		b.more[stage] = f.String(stage, "", "more flags of "+stage+", separated by spaces")
	}
	peers := f.String("peers", "", "file with the output of peers.sh; empty: the known scores of PyTorch Geometric")
	return func(ctx context.Context, examples []string) (err error) {
		b.peers = known
		if *peers != "" {
			if b.peers, err = readPeers(*peers); err != nil {
				return err
			}
		}
		if _, err := h.place(); err != nil {
			return err
		}
		if b.dataset != "" {
			examples = []string{""}
		}
		for _, name := range examples {
			if err := b.compare(ctx, name, strings.Split(*variants, ",")); err != nil {
				return err
			}
		}
		return nil
	}
}

// sources has the source of every imported graph, by the name of the examples, relative to the
// directory in DISKGNN_DATA.
var sources = map[string]string{"computers": "amazon-computers.npz", "physics": "coauthor-physics.npz", "fb100": "fb100.npz", "tolokers": "tolokers"}

// variant has a variant's flags.
type variant struct{ presample, pack []string }

// variantOf returns the flags of a variant; labor-K has a batch dependency of K.
func variantOf(name string) (v variant, err error) {
	switch name {
	case "uniform", "float32":
		return v, nil
	case "bf16", "int8", "int4":
		return variant{pack: []string{"--dtype", name}}, nil
	case "overlap":
		return variant{presample: []string{"--order", "overlap"}}, nil
	case "min":
		return variant{pack: []string{"--policy", "min"}}, nil
	}
	rest, labor := strings.CutPrefix(name, "labor")
	if !labor {
		return v, fmt.Errorf("no variant %q", name)
	}
	v.presample = []string{"--sampler", "labor"}
	if r, ok := strings.CutPrefix(rest, "-layer"); ok {
		v.presample, rest = append(v.presample, "--layer-dependency"), r
	}
	if rest == "" {
		return v, nil
	}
	dependency, dash := strings.CutPrefix(rest, "-")
	if k, err := strconv.Atoi(dependency); !dash || err != nil || k < 1 {
		return v, fmt.Errorf("no variant %q", name)
	}
	v.presample = append(v.presample, "--batch-dependency", dependency)
	return v, nil
}

type accuracy struct {
	*harness
	examples, data, dataset          string
	first, sampled                   int
	trained, exact, drawn, plan, min bool
	more                             map[string]*string // flags of stages
	peers                            map[string]score
}

// tuning ends the names of examples with options that differ from the peer's protocol.
const tuning = "-tuned"

// compare measures an example, or the dataset, in all variants.
func (b *accuracy) compare(ctx context.Context, example string, variants []string) error {
	dataset, err := b.imported(ctx, example)
	if err != nil {
		return err
	}
	var sides []side
	for _, name := range variants {
		v, err := variantOf(name)
		if err != nil {
			return err
		}
		sides = append(sides, side{name, func(ctx context.Context, round int) (row, error) {
			return b.seed(ctx, example, dataset, v, strconv.Itoa(b.first+round))
		}})
	}
	all, err := b.measure(ctx, sides...)
	if err != nil {
		return err
	}
	for _, name := range variants {
		sum := append(row{{"example", example}}, all.summary(name, func(v []float64) any { return scoresOf(v) })...)
		if err := b.report(append(sum, b.beside(example, all.values(name, "test"), all.values(name, "exact"))...)); err != nil {
			return err
		}
	}
	for _, name := range variants[1:] {
		if err := b.report(append(row{{"example", example}, {"side", name}, {"over", variants[0]}}, all.over(name, variants[0])...)); err != nil {
			return err
		}
	}
	return nil
}

// imported imports or generates an example's graph, unless it exists, and returns its directory. A
// tuned example has a directory of its own, since it may import with other options.
func (b *accuracy) imported(ctx context.Context, example string) (string, error) {
	if example == "" {
		return b.dataset, nil
	}
	graph, _, _ := strings.Cut(example, "-")
	args := []string{"generate"}
	if source, imported := sources[graph]; imported {
		args = []string{"import", filepath.Join(b.data, source)}
	}
	if strings.HasSuffix(example, tuning) {
		graph += tuning
	}
	out := b.path(graph)
	return out, b.do(ctx, append(args, "--config", b.config(example), "--out", out))
}

func (b *accuracy) config(example string) string { return filepath.Join(b.examples, example+".yaml") }

// trial is the run of an example with one seed.
type trial struct {
	*accuracy
	example, dataset, dir string
}

// stage runs a command with the configuration of the example.
func (t *trial) stage(ctx context.Context, result any, name string, args ...string) error {
	if t.example != "" {
		args = append([]string{"--config", t.config(t.example)}, args...)
	}
	if more := t.more[name]; more != nil {
		args = append(args, strings.Fields(*more)...)
	}
	return t.run(ctx, result, append([]string{name}, args...)...)
}

// seed measures a variant with one seed.
func (b *accuracy) seed(ctx context.Context, example, dataset string, v variant, seed string) (r row, err error) {
	dir, err := os.MkdirTemp(b.path("."), "seed")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t := trial{b, example, dataset, dir}
	samples := filepath.Join(dir, "samples")
	sampling := slices.Concat([]string{"--dataset", dataset, "--seed", seed, "--workers", strconv.Itoa(b.threads)}, v.presample)
	first := append(slices.Clone(sampling), "--out", samples)
	if b.sampled > 0 {
		first = append(first, "--epochs", strconv.Itoa(b.sampled))
	}
	if err := t.stage(ctx, new(any), "presample", first...); err != nil {
		return nil, err
	}
	var inspected struct{ Samples mbfile.Description }
	if err := b.run(ctx, &inspected, "inspect", samples); err != nil {
		return nil, err
	}
	f := &inspected.Samples.Facts
	r = row{{"input_nodes", float64(f.Train.InputNodes) / float64(f.Epochs)}, {"edges", float64(f.Train.Edges) / float64(f.Epochs)}}
	if b.plan {
		planned, err := t.plans(ctx, samples)
		if err != nil {
			return nil, err
		}
		r = append(r, planned...)
	}
	if b.min {
		bytes, err := t.underMin(ctx, samples)
		if err != nil {
			return nil, err
		}
		r = append(r, field{"epoch_bytes_min_10", bytes})
	}
	if !b.trained {
		return r, nil
	}
	scored, err := t.score(ctx, samples, seed, sampling, v.pack)
	return append(r, scored...), err
}

// plans returns the bytes of packs of policy static, and the bytes that an epoch reads from them.
func (t *trial) plans(ctx context.Context, samples string) (r row, err error) {
	for _, share := range []string{"5", "10"} {
		var plan cut.Plan
		if err := t.stage(ctx, &plan, "pack", "--dataset", t.dataset, "--samples", samples, "--out", filepath.Join(t.dir, "none"), "--plan", "--cache", share+"%", "--bands", share); err != nil {
			return nil, err
		}
		r = append(r, field{"disk_bytes_" + share, float64(plan.Chosen.DiskBytes)}, field{"epoch_bytes_" + share, float64(plan.Chosen.EpochBytes)})
	}
	return r, nil
}

// underMin returns the bytes that an epoch reads from a pack of policy min.
func (t *trial) underMin(ctx context.Context, samples string) (float64, error) {
	out := filepath.Join(t.dir, "min")
	if err := t.stage(ctx, new(any), "pack", "--dataset", t.dataset, "--samples", samples, "--out", out, "--cache", "10%", "--policy", "min"); err != nil {
		return 0, err
	}
	var inspected struct{ Pack packfile.Description }
	if err := t.run(ctx, &inspected, "inspect", out); err != nil {
		return 0, err
	}
	c := inspected.Pack.Caches[0] // the only one
	return float64(c.ColdBytes+c.GraphBytes) / float64(inspected.Pack.Epochs), os.RemoveAll(out)
}

// score packs, trains and evaluates.
func (t *trial) score(ctx context.Context, samples, seed string, sampling, packing []string) (row, error) {
	pack, out := filepath.Join(t.dir, "pack"), filepath.Join(t.dir, "run")
	threads := strconv.Itoa(t.threads)
	from := []string{"--dataset", t.dataset, "--samples", samples, "--out", pack, "--workers", threads}
	var p struct {
		DiskBytes int64 `json:"disk_bytes"`
	}
	if err := t.stage(ctx, &p, "pack", append(from, packing...)...); err != nil {
		return nil, err
	}
	var tr training
	if err := t.stage(ctx, &tr, "train", "--pack", pack, "--out", out, "--seed", seed, "--threads", threads); err != nil {
		return nil, err
	}
	r := row{
		{"test", 100 * tr.TestAccuracy}, {"best_epoch", tr.BestEpoch}, {"epoch_seconds", tr.epochSeconds()}, {"disk_bytes", p.DiskBytes}, {"epoch_bytes_read", tr.last().BytesRead},
		{"peak_rss_bytes", tr.PeakRSS}, {"peak_anon_bytes", tr.PeakAnon},
	}
	var scored struct {
		Test float64 `json:"test_accuracy"`
	}
	if t.exact {
		if err := t.stage(ctx, &scored, "eval", "--run", out, "--dataset", t.dataset, "--exact", "--threads", threads); err != nil {
			return nil, err
		}
		r = append(r, field{"exact", 100 * scored.Test})
	}
	if !t.drawn {
		return r, nil
	}
	if err := errors.Join(os.RemoveAll(samples), os.RemoveAll(pack)); err != nil {
		return nil, err
	}
	if err := t.stage(ctx, new(any), "presample", append(slices.Clone(sampling), "--out", samples, "--epochs", "1", "--eval-fanout", "same")...); err != nil {
		return nil, err
	}
	if err := t.stage(ctx, new(any), "pack", append(from, packing...)...); err != nil {
		return nil, err
	}
	err := t.stage(ctx, &scored, "eval", "--run", out, "--pack", pack, "--threads", threads)
	return append(r, field{"sampled", 100 * scored.Test}), err
}

// over compares a variant with the first one: scores by their difference, other figures by their
// ratio.
func (f found) over(name, first string) (r row) {
	for _, x := range f[name][0] {
		own, base := scoresOf(f.values(name, x.name)), scoresOf(f.values(first, x.name))
		switch x.name {
		case "test", "exact", "sampled":
			n := float64(len(own.Values))
			r = append(r, field{x.name + "_difference_points", own.Mean - base.Mean}, field{x.name + "_two_standard_errors", 2 * math.Sqrt((own.SD*own.SD+base.SD*base.SD)/n)})
		default:
			if base.Mean > 0 {
				r = append(r, field{x.name + "_ratio", own.Mean / base.Mean})
			}
		}
	}
	return r
}
