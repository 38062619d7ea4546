package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// jobCommand measures a whole job, from a tree of arrays to the predicted class of every node, by stage:
//
//	PYG=…/pyg/bin/python GB=…/gb/bin/python go run ./bench job -dir DIR [-nodes 2000000] [-dim 64]
//
// It generates a graph, or takes the dataset of -dataset, and exports it as the tree, outside the clock. The sides take turns: diskgnn with a pack,
// diskgnn with all features in memory (train --dataset), and bench/job/peer.py with PyTorch Geometric and with
// GraphBolt, which hold everything in memory. All train a GraphSAGE with the same batches, widths and rates,
// validate on sampled batches after every epoch, and predict all nodes from all neighbours. Before each side the
// tree is dropped from the page cache.
//
// A stage's seconds are the wall time of its command. Bytes are those that the kernel counts at the drive for the
// process; peak_rss_bytes is the kernel's maximum of resident memory, with mapped pages. A peer is one process: its
// peak is the peak so far. The stage "job" is the sum of the seconds and bytes, with the largest peak. test_accuracy
// compares the predictions of the test nodes with their labels.
func jobCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	j := job{peers: h.peers(f)}
	j.scripts = "bench/job" // PEERS_DIR has the scripts of other subcommands
	f.Lookup("peers").DefValue = j.scripts
	f.StringVar(&j.dataset, "dataset", "", "dataset to take in place of a generated graph")
	f.IntVar(&j.nodes, "nodes", 2_000_000, "nodes of the generated graph")
	f.IntVar(&j.dim, "dim", 64, "width of its features")
	f.StringVar(&j.ratio, "train-ratio", "0.01", "share of the nodes for training; validation and test get a fifth of it each")
	f.StringVar(&j.fanout, "fanout", "10,15,20", "fanout of training and of validation")
	f.IntVar(&j.hidden, "hidden", 128, "hidden width")
	f.IntVar(&j.epochs, "epochs", 3, "epochs")
	f.StringVar(&j.memory, "memory", "", "--memory of all commands of diskgnn")
	f.StringVar(&j.cache, "cache", "5%", "--cache of pack, and the share of the rows that training holds")
	f.StringVar(&j.engine, "engine", "auto", "--engine of diskgnn")
	f.StringVar(&j.device, "device", "cpu", "device of the peers: cpu or cuda")
	f.BoolVar(&j.exact, "exact", false, "measure eval --exact too, outside the job")
	return func(ctx context.Context, _ []string) error {
		if err := j.prepare(ctx); err != nil {
			return err
		}
		sides := []jobSide{
			{"diskgnn", func(ctx context.Context) ([]jobStage, error) { return j.ours(ctx, true) }},
			{"diskgnn in memory", func(ctx context.Context) ([]jobStage, error) { return j.ours(ctx, false) }},
		}
		for _, p := range []struct{ lib, python string }{{"pyg", j.pyg}, {"graphbolt", j.gb}} {
			if p.python != "" {
				sides = append(sides, jobSide{p.lib, func(ctx context.Context) ([]jobStage, error) { return j.peer(ctx, p.python, p.lib) }})
			}
		}
		return j.measure(ctx, sides)
	}
}

type job struct {
	*peers
	nodes, dim, hidden, epochs                            int
	dataset, ratio, fanout, memory, cache, engine, device string
	exact                                                 bool
}

// jobSide is one way to do the job, and jobStage a part of it. The stages of a side have the same names in every round.
type jobSide struct {
	name string
	run  func(ctx context.Context) ([]jobStage, error)
}

type jobStage struct {
	Stage   string  `json:"stage"`
	Seconds float64 `json:"seconds"`
	Peak    int64   `json:"peak_rss_bytes"`
	Read    int64   `json:"drive_read_bytes"`
	Written int64   `json:"drive_written_bytes"`
	Train   float64 `json:"train_epoch"` // of the stage train: the medians of its epochs
	Valid   float64 `json:"valid_epoch"`
}

const (
	jobTree    = "tree"
	jobClasses = "classes.npy"
)

// prepare makes the tree, unless it is there.
func (j *job) prepare(ctx context.Context) error {
	if _, err := j.place(); err != nil {
		return err
	}
	if _, err := os.Stat(j.path(jobTree)); err == nil {
		return nil
	}
	export := func(dataset string) error {
		return j.do(ctx, []string{"export", "--dataset", dataset, "--format", "graphbolt", "--out", j.path(jobTree)})
	}
	if j.dataset != "" {
		return export(j.dataset)
	}
	generated := j.path("generated")
	err := j.do(ctx, []string{"generate", "--out", generated, "--nodes", strconv.Itoa(j.nodes), "--dim", strconv.Itoa(j.dim), "--train-ratio", j.ratio})
	if err == nil {
		err = export(generated)
	}
	return errors.Join(err, os.RemoveAll(generated))
}

// measure runs the sides in turn, and reports the medians and spreads of each stage of each side, and then of the
// figures of each side's training.
func (j *job) measure(ctx context.Context, sides []jobSide) error {
	stages, training := map[string]found{}, found{} // the former by side, with stages as its sides
	for round := range j.rounds {
		for _, s := range sides {
			all, trained, err := j.once(ctx, s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if stages[s.name] == nil {
				stages[s.name] = found{}
			}
			for _, st := range all {
				r := st.row()
				stages[s.name][st.Stage] = append(stages[s.name][st.Stage], r)
				if err := j.progress(append(row{{"side", s.name}, {"stage", st.Stage}, {"round", round}}, r...)); err != nil {
					return err
				}
			}
			training[s.name] = append(training[s.name], trained)
		}
	}
	spread := func(v []float64) any { return spreadOf(v) }
	for _, s := range sides {
		for _, name := range jobOrder {
			if stages[s.name][name] == nil {
				continue
			}
			sum := stages[s.name].summary(name, spread)
			if err := j.report(append(row{{"side", s.name}, {"stage", name}}, sum[1:]...)); err != nil {
				return err
			}
		}
	}
	for _, s := range sides {
		if err := j.report(training.summary(s.name, spread)); err != nil {
			return err
		}
	}
	return nil
}

// jobOrder has the stages in the order of the report.
var jobOrder = []string{"load", "import", "presample", "pack", "train", "predict", jobWhole, jobExact}

const (
	jobWhole = "job"
	jobExact = "eval --exact" // outside the job
)

// once does the job once, and adds the stage of the whole job. It returns the figures of the training too.
func (j *job) once(ctx context.Context, s jobSide) ([]jobStage, row, error) {
	if err := drop(j.path(jobTree)); err != nil {
		return nil, nil, err
	}
	stages, err := s.run(ctx)
	if err != nil {
		return nil, nil, err
	}
	whole, trained := jobStage{Stage: jobWhole}, row{}
	for _, st := range stages {
		if st.Stage == "train" {
			trained = row{{"train_epoch", st.Train}, {"valid_epoch", st.Valid}}
		}
		if st.Stage != jobExact {
			whole.Seconds += st.Seconds
			whole.Peak = max(whole.Peak, st.Peak)
			whole.Read += st.Read
			whole.Written += st.Written
		}
	}
	accuracy, err := j.accuracy()
	if err != nil {
		return nil, nil, err
	}
	return append(stages, whole), append(trained, field{"test_accuracy", accuracy}), os.Remove(j.path(jobClasses))
}

func (s *jobStage) row() row {
	return row{{"seconds", s.Seconds}, {"peak_rss_bytes", s.Peak}, {"drive_read_bytes", s.Read}, {"drive_written_bytes", s.Written}}
}

// accuracy compares the predicted classes with the labels of the test nodes.
func (j *job) accuracy() (float64, error) {
	dir := j.path("")
	classes, err := readNPY[int32](dir, strings.TrimSuffix(jobClasses, ".npy"), "<i4")
	if err != nil {
		return 0, err
	}
	seeds, err := readNPY[int64](j.path(jobTree), "test_seeds", "<i8")
	if err != nil {
		return 0, err
	}
	labels, err := readNPY[int64](j.path(jobTree), "test_labels", "<i8")
	if err != nil {
		return 0, err
	}
	right := 0
	for i, v := range seeds {
		if int(v) >= len(classes) {
			return 0, fmt.Errorf("%s has %d rows", jobClasses, len(classes))
		}
		if int64(classes[v]) == labels[i] {
			right++
		}
	}
	return float64(right) / float64(max(1, len(seeds))), nil
}

// ours does the job with the program, with a pack or from memory.
func (j *job) ours(ctx context.Context, packed bool) (stages []jobStage, err error) {
	graph, samples, pack, run := j.path("graph"), j.path("samples"), j.path("pack"), j.path("run")
	defer func() {
		for _, dir := range []string{graph, samples, pack, run} {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	model := []string{"--out", run, "--model", "sage", "--hidden", strconv.Itoa(j.hidden), "--epochs", strconv.Itoa(j.epochs), "--engine", j.engine, "--threads", strconv.Itoa(j.threads)}
	commands := [][]string{{"import", "--format", "graphbolt", "--out", graph, j.path(jobTree)}}
	if packed {
		commands = append(commands,
			[]string{"presample", "--dataset", graph, "--out", samples, "--fanout", j.fanout, "--epochs", strconv.Itoa(j.epochs)},
			[]string{"pack", "--dataset", graph, "--samples", samples, "--out", pack, "--cache", j.cache},
			append([]string{"train", "--pack", pack, "--ram-cache", j.cache}, model...))
	} else {
		commands = append(commands, append([]string{"train", "--dataset", graph, "--fanout", j.fanout}, model...))
	}
	commands = append(commands, []string{"predict", "--run", run, "--dataset", graph, "--out", j.path(jobClasses), "--output", "classes", "--force"})
	if j.exact {
		commands = append(commands, []string{"eval", "--exact", "--run", run, "--dataset", graph})
	}
	for _, args := range commands {
		if j.memory != "" {
			args = append(args, "--memory", j.memory)
		}
		st, err := j.stage(ctx, args)
		if err != nil {
			return nil, err
		}
		stages = append(stages, st)
	}
	return stages, os.Remove(j.path(jobClasses) + ".lineage.json")
}

// stage runs a command of the program, and returns the kernel's figures about it.
func (j *job) stage(ctx context.Context, args []string) (st jobStage, err error) {
	var t training
	if args[0] == "train" {
		t, err = j.train(ctx, args[1:]...)
	} else {
		err = j.do(ctx, args)
	}
	if err != nil {
		return st, err
	}
	w := &j.watched // the kernel counts KiB of memory, and blocks of 512 bytes
	st = jobStage{Stage: args[0], Seconds: w.seconds, Peak: w.usage.Maxrss << 10, Read: 512 * w.usage.Inblock, Written: 512 * w.usage.Oublock}
	if slices.Contains(args, "--exact") {
		st.Stage = jobExact
	}
	var valid []float64
	for _, e := range t.Epochs {
		valid = append(valid, e.ValidSeconds)
	}
	if valid != nil {
		st.Train, st.Valid = median(secondsOf(t.Epochs)), median(valid)
	}
	return st, nil
}

// peer does the job with a library.
func (j *job) peer(ctx context.Context, python, lib string) ([]jobStage, error) {
	var r struct {
		Stages []jobStage `json:"stages"`
	}
	err := j.script(ctx, &r, python, "peer.py", j.path(jobTree), j.path(jobClasses), "--lib", lib, "--fanout", j.fanout, "--hidden", strconv.Itoa(j.hidden),
		"--epochs", strconv.Itoa(j.epochs), "--threads", strconv.Itoa(j.threads), "--device", j.device)
	return r.Stages, err
}
