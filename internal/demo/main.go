// Command demo runs the whole pipeline on a generated graph, by the commands that a user types, and
// prints its costs and its accuracy: make demo.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"diskgnn/dataset"
	"diskgnn/pack"
	"diskgnn/presample"
	"diskgnn/train/rundir"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := demo{}
	flag.StringVar(&d.program, "diskgnn", "bin/diskgnn", "the program to show")
	flag.StringVar(&d.dir, "dir", "demo", "the directory for all outputs")
	flag.Parse()
	if err := d.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

type demo struct {
	program, dir string
}

// run runs the stages and prints the summary. The graph is small enough for about 20 seconds on two
// cores without OpenBLAS, and large enough that a tenth of its rows in memory is a real cache.
func (d *demo) run(ctx context.Context) error {
	if err := os.MkdirAll(d.dir, 0o777); err != nil {
		return err
	}
	graph, drawn, packed, trained := d.path("graph"), d.path("samples"), d.path("pack"), d.path("run")
	for _, out := range []string{graph, drawn, packed, trained} {
		// The output of an earlier demo: the stages would find it and do nothing.
		if err := os.RemoveAll(out); err != nil {
			return err
		}
	}
	start := time.Now()
	var ds dataset.Result
	var sm presample.Result
	var pk pack.Result
	var rn rundir.Result
	for _, stage := range []struct {
		says   string
		result any
		args   []string
	}{
		{"A graph: a node's neighbourhood predicts its label well, its own features hardly.", &ds,
			[]string{"generate", "--out", graph, "--nodes", "300000", "--dim", "128", "--train-ratio", "0.05"}},
		{"Every mini-batch of two sample epochs, drawn in advance.", &sm,
			[]string{"presample", "--dataset", graph, "--out", drawn, "--batch-size", "512", "--fanout", "10,10", "--epochs", "2"}},
		{"Their features, laid out in the order in which they are read.", &pk,
			[]string{"pack", "--dataset", graph, "--samples", drawn, "--out", packed}},
		{"Training with a tenth of the rows in memory; the others are read from disk.", &rn,
			[]string{"train", "--pack", packed, "--out", trained, "--ram-cache", "10%", "--hidden", "128", "--epochs", "8"}},
	} {
		if err := d.show(ctx, stage.says, stage.result, stage.args); err != nil {
			return err
		}
	}
	d.sum(ds, sm, pk, rn, time.Since(start))
	return nil
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// show runs one stage, its progress in sight, and decodes its result.
func (d *demo) show(ctx context.Context, says string, result any, args []string) error {
	fmt.Printf("\n# %s\n$ diskgnn %s\n", says, strings.Join(args, " "))
	var stdout bytes.Buffer
	cmd := exec.CommandContext(ctx, d.program, append(args, "--json")...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdout, cmd.Stderr = &stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	lines := bytes.Split(bytes.TrimSpace(stdout.Bytes()), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], result); err != nil {
		return fmt.Errorf("%s: the last line of output is no JSON: %w", args[0], err)
	}
	return nil
}

func (d *demo) sum(ds dataset.Result, sm presample.Result, pk pack.Result, rn rundir.Result, took time.Duration) {
	fmt.Printf("\nTime\n")
	for _, s := range []struct {
		stage   string
		seconds float64
	}{{"generate", ds.Seconds}, {"presample", sm.Seconds}, {"pack", pk.Seconds}, {"train", rn.Seconds}} {
		fmt.Printf("  %-12s %6.1f s\n", s.stage, s.seconds)
	}
	fmt.Printf("  %-12s %6.1f s\n", "in all", took.Seconds())

	features := ds.Nodes * int64(ds.Dim*ds.DType.Size())
	var read, useful int64
	for _, e := range rn.Epochs {
		read, useful = read+e.BytesRead, useful+e.UsefulBytes
	}
	epochs := int64(max(1, len(rn.Epochs)))
	fmt.Printf("\nBytes by level\n")
	level := func(name string, bytes int64, format string, args ...any) {
		fmt.Printf("  %-12s %6.1f MiB  %s\n", name, float64(bytes)/(1<<20), fmt.Sprintf(format, args...))
	}
	level("features", features, "the table: %d rows of %d bytes, not needed for training", ds.Nodes, ds.Dim*ds.DType.Size())
	level("memory", rn.CacheSize, "the %d hottest rows, %.0f%% of the table", rn.CacheRows, 100*float64(rn.CacheSize)/float64(features))
	level("hot file", pk.HotBytes, "%d rows that a larger cache could hold", pk.HotRows)
	level("cold chunks", pk.ColdBytes, "%d rows, stored batch by batch", pk.ColdRows)
	level("evaluation", pk.EvalBytes, "%d rows of validation and test batches, each once", pk.EvalRows)
	level("graphs", pk.GraphBytes, "of all batches, renumbered; the pack is %.2f times the table", pk.Blowup)
	level("read", read/epochs, "per epoch, %.0f%% of it useful; filling the cache read %.1f MiB once", 100*float64(useful)/float64(max(1, read)), float64(rn.PreloadBytes)/(1<<20))

	fmt.Printf("\nAccuracy on the test nodes\n")
	fmt.Printf("  %-15s %5.1f %%\n", "features alone", 100**ds.FeaturesAlone)
	fmt.Printf("  %-15s %5.1f %%\n", "trained", 100*float64(rn.TestAccuracy))
	fmt.Print(advice(rn.BLAS))
	fmt.Printf("\nThe outputs are in %s; `diskgnn COMMAND --help` describes each command.\n", d.dir)
}

// advice returns advice for faster training if the run's matrix products were slow, else "".
func advice(blas string) string {
	if !strings.HasPrefix(blas, "gonum") {
		return "" // OpenBLAS, or the program's own, which are as fast
	}
	return "\nThis run multiplied matrices in plain Go, since the processor has no AVX2. With OpenBLAS, a training\n" +
		"step is about ten times faster; on Debian and Ubuntu: apt install libopenblas0\n"
}
