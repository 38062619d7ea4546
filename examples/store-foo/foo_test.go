package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"diskgnn/commands"
	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/presample"
)

// TestMain makes the test binary the program, or one with the store foo alone, for the process of a command.
func TestMain(m *testing.M) {
	switch os.Getenv("STORE_FOO") {
	case "program":
		main()
	case "alone":
		commands.Main(stores.List{design()})
	default:
		os.Exit(m.Run())
	}
}

// Batches are equal to a gather from the dataset, to the bit, with no row, some rows and all rows in RAM. Rows lie
// within a page, or over several.
func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		dim     int
		percent float64
	}{"no cache": {9, 0}, "over pages": {1100, 30}, "all rows": {5, 100}} {
		t.Run(name, func(t *testing.T) {
			w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: c.dim}, Batch: 5, Epochs: 1}, sample)
			storetest.Run(t, w, func(t testing.TB, w *storetest.World) featurestore.Candidate {
				return storetest.Cached(find(t, w), c.percent, "")
			}, storetest.NoGPURows)
		})
	}
}

// A plan covers the rows in RAM, and a cache that is too large for the memory is refused.
func TestPlan(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: 9}, Batch: 5, Epochs: 1}, sample)
	o := featurestore.PlanOptions{Memory: 1 << 40, Slots: 2, EvalSlots: 1}
	c := find(t, w)
	if all, err := c.Plan(o); err != nil || all.CacheRows != 60 {
		t.Errorf("without a limit: %+v, %v", all, err)
	}
	half, err := storetest.Cached(c, 50, "").Plan(o)
	if err != nil || half.CacheRows != 30 || half.RAMBytes != 4*60+30*36 {
		t.Errorf("half of the rows: %+v, %v", half, err)
	}
	o.Memory = half.Bytes(2, 1)
	if l, err := c.Plan(o); err != nil || l.CacheRows < 20 || l.Bytes(2, 1) > o.Memory {
		t.Errorf("in as much memory: %+v, %v", l, err)
	}
	o.Memory--
	if _, err := storetest.Cached(c, 50, "").Plan(o); err == nil || !strings.Contains(err.Error(), "2 slots and 30 rows in RAM need") {
		t.Errorf("in a byte less: %v", err)
	}
}

// sample draws the samples of a world.
func sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out, BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 1}, storetest.Quiet)
	return err
}

func find(t testing.TB, w *storetest.World) featurestore.Candidate {
	t.Helper()
	c, _, err := stores.List{design()}.Find(storetest.Disk, "foo", stores.Places{Dataset: w.Dataset, Samples: w.Samples})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs a command of a program, and returns its output, or the last line of its errors.
func run(t *testing.T, dir, program, command string) (stdout, message string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append(strings.Fields(command), "--quiet")...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, &out, &errs, append(os.Environ(), "STORE_FOO="+program)
	if err := cmd.Run(); err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); !ended {
			t.Fatal(err)
		}
		return "", errs.String()
	}
	return out.String(), ""
}

// A training from foo has the losses of one with all rows in memory, and reads: on samples, and on batches that are drawn
// while training.
func TestTraining(t *testing.T) {
	dir := t.TempDir()
	must := func(command string) string {
		out, message := run(t, dir, "program", command)
		if message != "" {
			t.Fatalf("%s: %s", command, message)
		}
		return out
	}
	must("generate --out graph --nodes 2000 --avg-degree 8 --dim 30 --classes 4 --train-ratio 0.3")
	must("presample --dataset graph --out samples --batch-size 100 --fanout 3,3 --epochs 2")
	for _, batches := range []string{"--fanout 3,3 --batch-size 100", "--samples samples"} {
		var results [2]struct {
			Epochs []struct {
				Loss          float64
				ValidAccuracy float64 `json:"valid_accuracy"`
				BytesRead     int64   `json:"bytes_read"`
			}
		}
		for i, store := range []string{"memory", "foo --ram-cache 5%"} {
			out := must("train --dataset graph " + batches + " --epochs 2 --hidden 8 --threads 1 --engine cpu --force --json --out " + store[:3] + " --store " + store)
			if err := json.Unmarshal([]byte(out), &results[i]); err != nil {
				t.Fatal(err)
			}
		}
		for e, foo := range results[1].Epochs {
			memory := results[0].Epochs[e]
			if foo.Loss != memory.Loss || foo.ValidAccuracy != memory.ValidAccuracy || foo.Loss == 0 || foo.BytesRead <= memory.BytesRead {
				t.Errorf("%s, epoch %d: foo %+v, memory %+v", batches, e, foo, memory)
			}
		}
	}
	resumed(t, dir)
	if help := strings.Join(strings.Fields(must("train --help")), " "); !strings.Contains(help, "mmap (--dataset, by page faults), foo (--dataset, read while training) or auto") {
		t.Errorf("the help has no store foo: %s", help)
	}
}

// resumed goes on with runs in a program with foo alone: with one of foo, and not with one of another store.
func resumed(t *testing.T, dir string) {
	t.Helper()
	if _, message := run(t, dir, "alone", "train --resume --epochs 3 --out foo"); message != "" {
		t.Error(message)
	}
	if _, message := run(t, dir, "alone", "train --resume --epochs 3 --out mem"); !strings.Contains(message, "--store memory is not one of auto, foo") {
		t.Errorf("a run of the store memory: %q", message)
	}
}

// A program with foo alone offers no other store, in its help, its messages and its defaults.
func TestAlone(t *testing.T) {
	dir := t.TempDir()
	help, message := run(t, dir, "alone", "train --help")
	if text := strings.Join(strings.Fields(help), " "); message != "" || !strings.Contains(text, "source of the rows: foo (--dataset, read while training) or auto") {
		t.Errorf("%s, %s", message, text)
	}
	for flags, want := range map[string]string{
		"--store rows --dataset graph --samples samples": `--store: "rows" is not one of auto, foo`,
		"--pack pack":             "these flags do not select a store: give --dataset with --samples or --fanout for foo",
		"--store foo --pack pack": "--store foo takes --dataset with --samples or --fanout, and no other directories",
		"--dataset graph --samples samples --cache-policy lru": "the rows in the cache of the store foo are chosen before training",
	} {
		if _, message := run(t, dir, "alone", "train --out run "+flags); !strings.Contains(message, want) {
			t.Errorf("%s: %q, want %q", flags, message, want)
		}
	}
}

// The how-to page says how long the template is.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("foo.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/howto/own-store.md")
	if err != nil {
		t.Skip("a copy of the module has no page")
	}
	if want := fmt.Sprintf("`foo.go` has %d lines", bytes.Count(text, []byte("\n"))); !strings.Contains(string(page), want) {
		t.Errorf("the page does not say that %s", want)
	}
}
