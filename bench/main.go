// Package main measures the claims about diskgnn. Each subcommand measures one claim. All share one
// harness: the compared programs take turns, round by round, and the harness prints the median, the
// least and the most of every figure.
//
//	go run ./bench SUB [flags] [arguments]
//	go run ./bench SUB -help
//
// The measured program, -bin, must be built beforehand. README.md lists the subcommands. With -json
// each round and each summary is a line of JSON on standard output. Without it, rounds go to standard
// error and the summaries are a table. Files in the directory of -dir are kept and used again by the
// next call. Without -dir, a temporary directory is used.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
)

// command is a subcommand.
type command struct {
	name, about string
	rounds      int // default of -rounds; 0: the command has no such flag
	// set registers flags, and returns the measurement, a function of the other arguments.
	set func(h *harness, f *flag.FlagSet) func(ctx context.Context, args []string) error
}

func commands() []command {
	return []command{
		{"turns", "any command of the program with several lists of flags, in turn", 5, turnsCommand},
		{"accuracy", "scores of examples beside other programs, and by ways of sampling and packing", 0, accuracyCommand},
		{"importing", "importing a generated set, beside inflating it and writing its bytes", 0, importingCommand},
		{"tables", "importing tables of edges, and reading them alone", 3, tablesCommand},
		{"loader", "the loader alone beside the drive's rate", 5, loaderCommand},
		{"packing", "packing beside the drive's rates", 5, packingCommand},
		{"topology", "orders of nodes for a cache of neighbours", 0, topologyCommand},
		{"graphs", "bytes and decoding of the graphs of a pack, beside their entropy", 0, graphsCommand},
		{"segments", "orders of the rows that the batches of a segment share", 0, segmentsCommand},
		{"sample", "sampling beside GraphBolt and PyTorch Geometric", 5, sampleCommand},
		{"job", "a whole job, from arrays to predictions, beside GraphBolt and PyTorch Geometric", 3, jobCommand},
		{"epoch", "whole epochs beside GraphBolt and PyTorch Geometric", 3, epochCommand},
		{"step", "a training step, on blocks that other programs can read", 0, stepCommand},
		{"sgemm", "matrix products of the program beside OpenBLAS", 7, sgemmCommand},
		{"boundary", "the time without computation between training and validation, from traces", 0, boundaryCommand},
		{"exact", "exact scores with several sizes of memory, beside another version", 3, exactCommand},
		{"validation", "loading validation batches beside loading training batches", 0, validationCommand},
		{"stream", "rows streamed to the GPU beside the lower bounds of drive and GPU", 3, streamCommand},
		{"simulated", "simulated drives beside measured epochs", 3, simulatedCommand},
		{"gids", "published figures of GIDS beside the simulation", 0, gidsCommand},
		{"hyperion", "figures of the report on Hyperion beside the simulation", 0, hyperionCommand},
		{"beacon", "results of BeaconGNN's authors beside the simulation", 0, beaconCommand},
	}
}

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal("bench: ", err)
	}
}

// run carries out a subcommand.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	for _, c := range commands() {
		if len(args) == 0 || args[0] != c.name {
			continue
		}
		h := &harness{out: out, rounds: c.rounds}
		f := newFlags(h)
		f.Usage = func() {
			_, _ = fmt.Fprintf(f.Output(), "bench %s: %s\n", c.name, c.about)
			f.PrintDefaults()
		}
		measure := c.set(h, f)
		rest, err := h.parse(f, args[1:])
		if err != nil {
			return err
		}
		err = measure(ctx, rest)
		if err = errors.Join(err, h.close()); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		return nil
	}
	for _, c := range commands() {
		if _, err := fmt.Fprintf(os.Stderr, "%-10s %s\n", c.name, c.about); err != nil {
			return err
		}
	}
	const usage = "usage: bench SUB [flags], with one of these as SUB"
	if len(args) > 0 {
		return fmt.Errorf("there is no subcommand %q; %s", args[0], usage)
	}
	return errors.New(usage)
}

// harness is the shared state of subcommands: the program, directories, rounds, and the printing of
// results.
type harness struct {
	program
	out       io.Writer
	json      bool
	rounds    int
	swap      bool // odd rounds go backwards
	io        string
	threads   int
	dir       string // "": a temporary directory
	temporary string
	needed    []string          // flags that must be given
	inputs    map[string]string // values of the needed flags, by name
	rows      []row             // of the table
}

// newFlags returns the flags of all subcommands.
func newFlags(h *harness) *flag.FlagSet {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&h.binary, "bin", "bin/diskgnn", "the program")
	f.BoolVar(&h.loud, "progress", false, "show the program's progress")
	f.BoolVar(&h.json, "json", false, "print lines of JSON")
	f.StringVar(&h.dir, "dir", "", "directory for graphs, samples and packs, which is kept; empty: a temporary one")
	f.StringVar(&h.io, "io", "auto", "--io")
	f.IntVar(&h.threads, "threads", 2, "threads of a run")
	if h.rounds > 0 {
		f.IntVar(&h.rounds, "rounds", h.rounds, "rounds")
	}
	return f
}

// parse parses arguments mixed with flags, up to a --, and checks the required flags.
func (h *harness) parse(f *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := f.Parse(args); err != nil {
			return nil, err
		}
		left := f.Args()
		ended := len(args) > len(left) && args[len(args)-len(left)-1] == "--"
		if len(left) == 0 || ended {
			rest = append(rest, left...)
			break
		}
		rest, args = append(rest, left[0]), left[1:]
	}
	for _, name := range h.needed {
		if h.inputs[name] = f.Lookup(name).Value.String(); h.inputs[name] == "" {
			return nil, fmt.Errorf("-%s is missing", name)
		}
	}
	return rest, nil
}

// need registers required directories, and puts them in h.inputs.
func (h *harness) need(f *flag.FlagSet, names ...string) {
	h.needed, h.inputs = names, map[string]string{}
	for _, name := range names {
		f.String(name, "", "the "+name)
	}
}

// place returns the directory for results.
func (h *harness) place() (string, error) {
	if h.dir != "" {
		return h.dir, os.MkdirAll(h.dir, 0o777)
	}
	if h.temporary == "" {
		var err error
		if h.temporary, err = os.MkdirTemp("", "diskgnn-bench"); err != nil {
			return "", err
		}
	}
	return h.temporary, nil
}

// path returns a file's path in the place, which must exist.
func (h *harness) path(name string) string {
	return filepath.Join(cmp.Or(h.dir, h.temporary), name)
}

// close prints the table, and removes the temporary directory.
func (h *harness) close() error {
	err := table(h.out, h.rows)
	if h.temporary != "" {
		err = errors.Join(err, os.RemoveAll(h.temporary))
	}
	return err
}
