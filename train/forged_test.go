package train

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/limittest"
	"diskgnn/internal/progress"
	"diskgnn/train/checkpoint"
	"diskgnn/train/epoch"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/safetensors"
	"diskgnn/train/trained"
	"diskgnn/train/traintest"
)

// tree is a JSON object under change.
type tree = map[string]any

// forgeCheckpoint changes the only checkpoint of a run: checksums are made anew, so that
// what it says holds together. It returns the position that was there.
func (w *world) forgeCheckpoint(out string, change func(head tree, sections map[string][]byte)) (was epoch.Position) {
	w.t.Helper()
	dir := checkpoint.Dir{FS: disk, Path: filepath.Join(out, rundir.CheckpointsDir)}
	names, err := dir.List()
	if err != nil || len(names) != 1 {
		w.t.Fatalf("%v, %v", names, err)
	}
	raw, sections, err := dir.Read(names[0], 1<<30)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &was); err != nil {
		w.t.Fatal(err)
	}
	var head tree
	if err := json.Unmarshal(raw, &head); err != nil {
		w.t.Fatal(err)
	}
	sections = maps.Clone(sections)
	change(head, sections)
	var step int64
	if _, err := fmt.Sscanf(names[0], "step-%d.ckpt", &step); err != nil {
		w.t.Fatal(err)
	}
	if err := dir.Write(step, head, sections, 1); err != nil {
		w.t.Fatal(err)
	}
	return was
}

// A checkpoint that holds together and says what no run can be at is refused as damaged,
// in one line, before anything is made by what it says.
func TestForgedCheckpoints(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15, epochs: 2, classes: 2})
	o := w.options(w.pack(20), func(o *Options) {
		o.Epochs, o.Keep, o.Metric, o.CheckpointEvery = 4, 1, recipe.MetricAUC, rundir.Interval{Time: 1 << 40}
	})
	w.interrupt(o, 14) // in the second epoch
	u64 := func(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
	for what, change := range map[string]func(head tree, sections map[string][]byte){
		"of epoch -1 and batch":                     func(h tree, _ map[string][]byte) { h["epoch"] = -1 },
		"epoch 1000000000000 and batch":             func(h tree, _ map[string][]byte) { h["epoch"] = 1e12 },
		"batch 4611686018427387904, is":             func(h tree, _ map[string][]byte) { h["batch"] = 1 << 62 },
		"its sums are of epoch 3":                   func(h tree, _ map[string][]byte) { h["sums"].(tree)["epoch"] = 3 },
		"with 1 batches, but":                       func(h tree, _ map[string][]byte) { h["sums"].(tree)["batches"] = 1 },
		"in an epoch of at most":                    func(h tree, _ map[string][]byte) { h["seed_nodes"] = 1 << 40 },
		"it counts -3 seed nodes":                   func(h tree, _ map[string][]byte) { h["seed_nodes"] = -3 },
		"its best epoch is 1, after 1 ep":           func(h tree, _ map[string][]byte) { h["best_epoch"] = 1 },
		"its best epoch is -2":                      func(h tree, _ map[string][]byte) { h["best_epoch"] = -2 },
		"the section \"best\" is present":           func(h tree, _ map[string][]byte) { h["best_epoch"] = -1 },
		"numbers of bytes":                          func(h tree, _ map[string][]byte) { h["sums"].(tree)["bytes_read"] = -1 },
		"numbers of byte":                           func(h tree, _ map[string][]byte) { h["sums"].(tree)["gpu_served_bytes"] = 1 << 61 },
		"rows or requests are":                      func(h tree, _ map[string][]byte) { h["sums"].(tree)["requests"] = -1 },
		"of rows or":                                func(h tree, _ map[string][]byte) { h["sums"].(tree)["input_nodes"] = -1 },
		"numbers of bytes are impossible":           func(h tree, _ map[string][]byte) { h["sums"].(tree)["buffer_bytes"] = -1 },
		"of page accesses":                          func(h tree, _ map[string][]byte) { h["sums"].(tree)["page_hits"] = 1 << 61 },
		"page accesses are":                         func(h tree, _ map[string][]byte) { h["sums"].(tree)["page_misses"] = -1 },
		"its times are impossible":                  func(h tree, _ map[string][]byte) { h["seconds"] = 1e300 },
		"-4 bytes that were recorded cann":          func(h tree, _ map[string][]byte) { h["metrics"].(tree)["bytes"] = -4 },
		"the 4611686018427387904 bytes":             func(h tree, _ map[string][]byte) { h["metrics"].(tree)["bytes"] = 1 << 62 },
		"recorded cannot be 1 epochs":               func(h tree, _ map[string][]byte) { h["metrics"] = tree{"bytes": 0, "crc": 0} },
		"metrics.jsonl: line 2: unexpected epoch 0": func(h tree, _ map[string][]byte) { w.forgeMetrics(o.Out, h, "{}\n") },
		"metrics.jsonl: line 2: ":                   func(h tree, _ map[string][]byte) { w.forgeMetrics(o.Out, h, strings.Repeat("[", 1000)) },
		"head: ":                                    func(h tree, _ map[string][]byte) { h["loss"] = "much" },
		"unknown section \"engine\"":                func(_ tree, s map[string][]byte) { s["engine"] = nil },
		"no section \"scorer\"":                     func(_ tree, s map[string][]byte) { delete(s, epoch.SectionScorer) },
		"rows, but its batches have":                func(_ tree, s map[string][]byte) { s[epoch.SectionScorer] = make([]byte, 9*1000) },
		"\"best\" has 4 bytes, which":               func(_ tree, s map[string][]byte) { s[epoch.SectionBest] = make([]byte, 4) },
		"of adam.moment1 inst":                      func(_ tree, s map[string][]byte) { s[epoch.SectionEngine+"adam.moment1"] = make([]byte, 8) },
		"the state has 5 parts":                     func(_ tree, s map[string][]byte) { s[epoch.SectionEngine+"more"] = u64(3) },
		"the file has ":                             func(_ tree, s map[string][]byte) { s[epoch.SectionScorer] = make([]byte, 4<<20) },
	} {
		c := w.fresh(o)
		if err := os.CopyFS(c.Out, os.DirFS(o.Out)); err != nil {
			t.Fatal(err)
		}
		w.forgeCheckpoint(c.Out, change)
		if strings.Contains(what, rundir.MetricsFile) { // it is beside the copy, too
			if err := os.CopyFS(c.Out+"/m", os.DirFS(o.Out)); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(c.Out+"/m/"+rundir.MetricsFile, filepath.Join(c.Out, rundir.MetricsFile)); err != nil {
				t.Fatal(err)
			}
		}
		c.Resume = true
		var err error
		took := limittest.Allocated(func() { _, err = w.run(context.Background(), c, &logged{}, nil) })
		if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), strings.TrimPrefix(what, "of ")) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
		if took > 64<<20 {
			t.Errorf("%s: %d bytes were allocated", what, took)
		}
	}
	// The same way, unchanged, goes on.
	w.forgeCheckpoint(o.Out, func(tree, map[string][]byte) {})
	o.Resume = true
	if _, err := w.run(context.Background(), o, &logged{}, nil); err != nil {
		t.Errorf("not changed: %v", err)
	}
}

// forgeMetrics appends to the lines that a checkpoint knows, in the run that it is copied
// from.
func (w *world) forgeMetrics(out string, head tree, more string) {
	w.t.Helper()
	end := int64(head["metrics"].(tree)["bytes"].(float64))
	b := append(w.file(out, rundir.MetricsFile)[:end:end], more...)
	if err := os.WriteFile(filepath.Join(out, rundir.MetricsFile), b, 0o666); err != nil {
		w.t.Fatal(err)
	}
	head["metrics"] = tree{"bytes": len(b), "crc": binio.CRC(b)}
}

// run.json is believed only as far as it makes sense, and no memory is taken by what it
// says of models, threads and epochs.
func TestForgedRunFiles(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15, epochs: 2})
	p := w.pack(20)
	o := w.options(p, func(o *Options) { o.Epochs, o.CheckpointEvery = 3, rundir.Interval{Time: 1 << 40} })
	w.interrupt(o, 14)
	network := func(r tree) tree { return r["params"].(tree)["network"].(tree) }
	for what, c := range map[string]struct {
		change func(r tree)
		kind   error
	}{
		"more than 281474976710656 parameters":        {func(r tree) { network(r)["dims"] = []int{7, 1 << 24, 1 << 24, 1 << 24, 3} }, fault.ErrCorrupt},
		"model: layers of the widths [7 461168601842": {func(r tree) { network(r)["dims"] = []int{7, 1 << 62, 3} }, fault.ErrCorrupt},
		"model: layers of the widths [7 -8 3]":        {func(r tree) { network(r)["dims"] = []int{7, -8, 3} }, fault.ErrCorrupt},
		"model: 65 layers; the most is 64":            {func(r tree) { network(r)["dims"] = make([]int, 66) }, fault.ErrCorrupt},
		"model: 0 widths describe no layer":           {func(r tree) { network(r)["dims"] = nil }, fault.ErrCorrupt},
		"an input projection of width 1099511627776":  {func(r tree) { network(r)["input_projection"] = 1 << 40 }, fault.ErrCorrupt},
		"the engine needs 9.":                         {func(r tree) { network(r)["dims"] = []int{7, 1 << 24, 3} }, fault.ErrBudget},
		"has the shape [8 7], but the model's has":    {func(r tree) { network(r)["dims"] = []int{7, 9, 3} }, fault.ErrInput},
		"has the unknown metric \"beauty\"":           {func(r tree) { r["params"].(tree)["metric"] = "beauty" }, fault.ErrCorrupt},
		"has the metric auc, which needs two":         {func(r tree) { r["params"].(tree)["metric"] = "auc" }, fault.ErrInput},
		"bytes outside of the result":                 {func(r tree) { r["comment"] = strings.Repeat("x", 2<<20) }, fault.ErrCorrupt},
		"epochs in ":                                  {func(r tree) { r["result"] = tree{"epochs": make([]struct{}, 1e5)} }, fault.ErrCorrupt},
		"bytes outside of the epochs":                 {func(r tree) { r["result"] = tree{"comment": strings.Repeat("x", 2<<20)} }, fault.ErrCorrupt},
		"json: cannot unmarshal":                      {func(r tree) { r["resumed"] = 1 << 40; r["params"] = 3 }, fault.ErrCorrupt},
	} {
		c2 := w.forgeRun(o.Out, c.change)
		var err error
		took := limittest.Allocated(func() {
			_, err = trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: c2, Pack: p, BLAS: "gonum", IO: quick, Memory: 1 << 30}, progress.Discard)
		})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "\n") {
			t.Errorf("evaluated, want %s: %v", what, err)
		}
		if took > 64<<20 {
			t.Errorf("%s: %d bytes were allocated", what, took)
		}
	}
	for what, c := range map[string]struct {
		change func(r tree)
		kind   error
	}{
		"that no run begins with: --threads 1099511627776: give":   {func(r tree) { r["preferences"] = tree{"threads": 1 << 40} }, fault.ErrCorrupt},
		"that no run begins with: --slots 1099511627776: give":     {func(r tree) { r["preferences"] = tree{"slots": 1 << 40} }, fault.ErrCorrupt},
		"that no run begins with: --memory -5: give":               {func(r tree) { r["preferences"] = tree{"memory": -5} }, fault.ErrCorrupt},
		"that no run begins with: --hidden 1099511627776: give":    {func(r tree) { r["params"].(tree)["hidden"] = 1 << 40 }, fault.ErrCorrupt},
		"that no run begins with: --epochs 1099511627776: give":    {func(r tree) { r["params"].(tree)["epochs"] = 1 << 40 }, fault.ErrCorrupt},
		"that no run begins with: --warmup -1: give":               {func(r tree) { r["params"].(tree)["warmup"] = -1 }, fault.ErrCorrupt},
		"that no run begins with: --dropout 0.99999999999: a rate": {func(r tree) { r["params"].(tree)["dropout"] = 0.99999999999 }, fault.ErrCorrupt},
		"that no run begins with: --engine sum is not one of":      {func(r tree) { r["setup"].(tree)["engine"] = "sum" }, fault.ErrCorrupt},
		"that no run begins with: --ram-cache -5%: give a share":   {func(r tree) { r["preferences"] = tree{"ram_cache": tree{"Value": -5, "Unit": 1}} }, fault.ErrCorrupt},
		"that no run begins with: --ram-cache 5 B: give a share":   {func(r tree) { r["preferences"] = tree{"ram_cache": tree{"Value": 5, "Unit": 9}} }, fault.ErrCorrupt},
		"is a checkpoint of another run":                           {func(r tree) { r["params"].(tree)["seed"] = 5 }, fault.ErrLineage},
	} {
		resumed := o
		resumed.Resume, resumed.Given = true, nil
		resumed.Out = w.forgeRun(o.Out, c.change)
		var err error
		took := limittest.Allocated(func() { _, err = w.run(context.Background(), resumed, &logged{}, nil) })
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "\n") {
			t.Errorf("resumed, want %s: %v", what, err)
		}
		if took > 64<<20 {
			t.Errorf("%s: %d bytes were allocated", what, took)
		}
	}
}

// forgeRun returns a copy of a run whose run.json was changed.
func (w *world) forgeRun(out string, change func(r tree)) string {
	w.t.Helper()
	to := w.path(fmt.Sprint("run", runNumber.next()))
	if err := os.CopyFS(to, os.DirFS(out)); err != nil {
		w.t.Fatal(err)
	}
	var r tree
	if err := json.Unmarshal(w.file(out, "run.json"), &r); err != nil {
		w.t.Fatal(err)
	}
	change(r)
	b, err := json.Marshal(r)
	if err != nil {
		w.t.Fatal(err)
	}
	traintest.WriteRun(w.t, to, b)
	return to
}

// A file of weights longer than the model's is not read.
func TestForgedWeights(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150})
	o := w.options(w.pack(20), func(o *Options) { o.Epochs = 1 })
	w.mustRun(o, nil)
	name := filepath.Join(o.Out, rundir.WeightsFile)
	if err := os.Truncate(name, 1<<40); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	_, err := trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: o.Out, Pack: o.Pack, BLAS: "gonum"}, progress.Discard)
	if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "has 1.00 TiB, but the weights of the model") {
		t.Errorf("%v", err)
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := safetensors.Write(f, []safetensors.Tensor{{Name: "convs.0.lin_l.weight", Shape: []int{0, math.MaxInt32}}}, nil); err != nil {
		t.Fatal(err)
	}
	_, err = trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: o.Out, Pack: o.Pack, BLAS: "gonum"}, progress.Discard)
	if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "has the shape [0 2147483647]") {
		t.Errorf("%v", err)
	}
}

// FuzzForged resumes a run from what others may have written into run.json and a
// checkpoint, with right checksums: it goes on, or refuses by a kind of error. Two of all
// their values are replaced, by a number or a text, and a section of the checkpoint.
func FuzzForged(f *testing.F) {
	f.Add(uint16(0), int64(-1), "", uint16(1), int64(1), "scorer", []byte{1, 2, 3})
	f.Add(uint16(7), int64(1)<<62, "", uint16(30), int64(0), "engine/weights", []byte{})
	f.Add(uint16(50), int64(-1), "none", uint16(70), int64(9), "best", []byte("0123"))
	f.Add(uint16(90), int64(1)<<40, "gat", uint16(110), int64(1), "", []byte{})
	w := newWorld(f, worldParams{nodes: 60, batch: 20, epochs: 1})
	o := w.options(w.pack(20), func(o *Options) { o.Epochs, o.Keep, o.CheckpointEvery = 3, 1, rundir.Interval{Time: 1 << 40} })
	w.interrupt(o, 8)
	o.Resume, o.Given = true, nil
	f.Fuzz(func(t *testing.T, place uint16, number int64, text string, other uint16, value int64, section string, content []byte) {
		o, w := o, *w
		w.t = t
		edit := func(leaves []func(any)) {
			n := uint16(len(leaves))
			if place < n && text != "" {
				leaves[place](text)
			} else if place < n {
				leaves[place](number)
			}
			if other < n {
				leaves[other](value)
			}
			place, other = place-n, other-n // of what comes next; beyond, wrapped, nothing is
		}
		o.Out = w.forgeRun(o.Out, func(r tree) { edit(leaves(r)) })
		defer os.RemoveAll(o.Out)
		w.forgeCheckpoint(o.Out, func(h tree, sections map[string][]byte) {
			// The hash of the parameters is forged along.
			if forged, err := rundir.Read(disk, o.Out); err == nil {
				h["run"], _ = forged.Identity()
			}
			if edit(leaves(h)); section != "" {
				sections[section] = content
			}
		})
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := w.run(ctx, o, &logged{}, func(p *parts) { endAfter(p, 9, cancel) })
		if err == nil {
			return
		}
		for _, kind := range []error{fault.ErrCorrupt, fault.ErrVersion, fault.ErrLineage, fault.ErrInput, fault.ErrUsage, fault.ErrExists, fault.ErrBudget, fault.ErrInterrupted, os.ErrNotExist} {
			if errors.Is(err, kind) && !strings.Contains(err.Error(), "panic") {
				return
			}
		}
		t.Fatal(err)
	})
}

// leaves returns a function for every value in a tree, in the order of their keys, that
// replaces it.
func leaves(t any) (set []func(any)) {
	visit := func(v any, put func(any)) {
		if inner := leaves(v); inner != nil {
			set = append(set, inner...)
		}
		set = append(set, put)
	}
	switch t := t.(type) {
	case tree:
		for _, k := range slices.Sorted(maps.Keys(t)) {
			visit(t[k], func(v any) { t[k] = v })
		}
	case []any:
		for i := range t {
			visit(t[i], func(v any) { t[i] = v })
		}
	}
	return set
}
