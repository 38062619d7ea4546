package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/all"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/trained"
)

// copyRun copies a run into a directory that no other has.
func (w *world) copyRun(out string) string {
	w.t.Helper()
	to := w.fresh(Options{}).Out
	if err := os.CopyFS(to, os.DirFS(out)); err != nil {
		w.t.Fatal(err)
	}
	return to
}

// change writes a file of a run anew.
func (w *world) change(out, name string, change func(b []byte) []byte) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(out, name), change(bytes.Clone(w.file(out, name))), 0o666); err != nil {
		w.t.Fatal(err)
	}
}

// flipped returns b with a bit changed in the last weights.
func flipped(b []byte) []byte {
	b[len(b)-3] ^= 4
	return b
}

// Results that are not what was written are refused by all that take them, and the file is named.
func TestDamagedResults(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15})
	p := w.pack(20)
	o := w.options(p, func(o *Options) { o.Epochs = 2 })
	w.mustRun(o, nil)
	evaluate := func(which string) func(run string) error {
		return func(run string) error {
			_, err := trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: run, Pack: p, BLAS: "gonum", IO: quick, Weights: which}, progress.Discard)
			return err
		}
	}
	begin := func(file string) func(run string) error {
		return func(run string) error {
			o := w.options(p, func(o *Options) { o.Epochs, o.WeightsPath = 1, filepath.Join(run, file) })
			_, err := w.run(context.Background(), o, progress.Discard, nil)
			return err
		}
	}
	resume := func(run string) error {
		_, err := w.run(context.Background(), Options{Stores: builtin, Out: run, Resume: true}, progress.Discard, nil)
		return err
	}
	uses := map[string]func(run string) error{
		"evaluated": evaluate(trained.WeightsBest), "final evaluated": evaluate(trained.WeightsFinal), "resumed": resume,
		"begun with": begin(""), "begun with the file": begin(rundir.WeightsFile), "begun with the final file": begin(rundir.FinalFile),
		"reported": func(run string) error { _, err := Report(disk, run, 0); return err },
	}
	other := func(b []byte) []byte {
		return bytes.Replace(b, []byte(`"aggregator": "mean"`), []byte(`"aggregator": "max"`), 1)
	}
	unsum := func(b []byte) []byte { return bytes.Replace(b, []byte("diskgnn.sha256"), []byte("diskgnn_sha256"), 1) }
	for _, c := range []struct {
		file   string
		change func(b []byte) []byte
		by     []string
	}{
		{rundir.WeightsFile, flipped, []string{"evaluated", "resumed", "begun with", "begun with the file"}},
		{rundir.WeightsFile, unsum, []string{"evaluated", "resumed", "begun with"}},
		{rundir.FinalFile, flipped, []string{"final evaluated", "resumed", "begun with the final file"}},
		{rundir.MetricsFile, func(b []byte) []byte { b[10] ^= 1; return b }, []string{"reported"}},
		{stage.RunFile, other, []string{"evaluated", "final evaluated", "resumed", "begun with", "reported"}},
	} {
		run := w.copyRun(o.Out)
		w.change(run, c.file, c.change)
		for _, by := range c.by {
			if err := uses[by](run); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), filepath.Join(run, c.file)) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: %v", c.file, by, err)
			}
		}
	}
	for by, use := range uses {
		if err := use(w.copyRun(o.Out)); err != nil {
			t.Errorf("%s: %v", by, err)
		}
	}
}

// earlier makes a run what version 2 of the format would have left: without checksums.
func (w *world) earlier(out string) {
	w.t.Helper()
	var f map[string]json.RawMessage
	if err := json.Unmarshal(w.file(out, stage.RunFile), &f); err != nil {
		w.t.Fatal(err)
	}
	delete(f, "checksum")
	delete(f, "metrics")
	f["format"] = json.RawMessage(`{"name":"diskgnn.run","version":2}`)
	b, err := json.Marshal(f)
	if err != nil {
		w.t.Fatal(err)
	}
	w.change(out, stage.RunFile, func([]byte) []byte { return b })
	for _, name := range []string{rundir.WeightsFile, rundir.FinalFile} {
		if _, err := os.Stat(filepath.Join(out, name)); err == nil {
			w.change(out, name, func(b []byte) []byte { return bytes.Replace(b, []byte("diskgnn.sha256"), []byte("unknown.sha256"), 1) })
		}
	}
}

// A run of an earlier version is used, and said to be unchecked.
func TestEarlierRunIsUnchecked(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15})
	p := w.pack(20)
	o := w.options(p, func(o *Options) { o.Epochs = 1 })
	w.mustRun(o, nil)
	w.earlier(o.Out)
	said := func(what string, rep *logged, err error) {
		t.Helper()
		if err != nil || strings.Count(rep.String(), "unchecked") != 1 {
			t.Errorf("%s: %v, %s", what, err, rep)
		}
	}
	var rep, begun, file logged
	_, err := trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: o.Out, Pack: p, BLAS: "gonum"}, &rep)
	said("evaluated", &rep, err)
	_, err = w.run(context.Background(), w.options(p, func(o2 *Options) { o2.Epochs, o2.WeightsPath = 1, o.Out }), &begun, nil)
	said("begun with", &begun, err)
	_, err = w.run(context.Background(), w.options(p, func(o2 *Options) { o2.Epochs, o2.WeightsPath = 1, filepath.Join(o.Out, rundir.FinalFile) }), &file, nil)
	said("begun with a file", &file, err)
	if f := state(t, o.Out); f.Format.Version != 2 {
		t.Errorf("it became one of version %d", f.Format.Version)
	}
}

// A run of an earlier version that goes on becomes one of this version, and says so before anything
// of it is written. Whatever fails on the way, what is left is no damaged run, and goes on again.
func TestEarlierRunGoesOn(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15})
	p := w.pack(20)
	whole := w.options(p)
	w.mustRun(whole, nil)
	want := w.ending(whole.Out)
	o := w.fresh(whole, func(o *Options) { o.CheckpointEvery = rundir.Interval{Batches: 2} })
	w.interrupt(o, 14)
	w.earlier(o.Out)

	var rep logged
	going := Options{Stores: builtin, Out: w.copyRun(o.Out), Resume: true}
	if _, err := w.run(context.Background(), going, &rep, nil); err != nil {
		t.Fatal(err)
	}
	note, resumed := strings.Index(rep.String(), "cannot resume the run any more"), strings.Index(rep.String(), "resumed after")
	if note < 0 || resumed < note {
		t.Errorf("%s", &rep)
	}
	w.ending(going.Out).compare(t, "resumed", want)
	if v, err := rundir.Verify(disk, going.Out); err != nil || !v.File.Checked() {
		t.Errorf("%v", err)
	}

	const enough = 30 // operations, by which the version has risen
	for n := range enough {
		out := w.copyRun(o.Out)
		in := &vfs.FailAt{N: n, After: true, Err: errors.New("crash")}
		if _, err := run(context.Background(), vfs.Inject(disk, in), Options{Stores: builtin, Out: out, Resume: true, Resources: rundir.Resources{IO: quick}}, progress.Discard, usual(all.Open, newCPUEngine)); err == nil {
			t.Errorf("%v: no error", in)
		}
		if _, err := rundir.Verify(disk, out); err != nil {
			t.Errorf("%v: verified: %v", in, err)
		}
		if _, err := trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: out, Pack: p, BLAS: "gonum", IO: quick}, progress.Discard); err != nil {
			t.Errorf("%v: evaluated: %v", in, err)
		}
		if f := state(t, out); f.Checked() != (n >= enough-1) && (n == 0 || n == enough-1) {
			t.Errorf("%v: version %d", in, f.Format.Version)
		}
		if _, err := w.run(context.Background(), Options{Stores: builtin, Out: out, Resume: true}, progress.Discard, nil); err != nil {
			t.Fatalf("%v: resumed again: %v", in, err)
		}
		w.checkEnded(out, in, want)
	}
}

// A run that was begun with more epochs than are begun with now is read and goes on; one of so many
// that run.json would not be read any more does not.
func TestRunOfManyEpochs(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15})
	p := w.pack(20)
	o := w.options(p, func(o *Options) { o.Epochs, o.CheckpointEvery, o.Memory = 3, rundir.Interval{Time: 1 << 40}, 1<<34 })
	w.interrupt(o, 14)
	begun := func(epochs int, state rundir.State) string {
		out := w.forgeRun(o.Out, func(r tree) {
			r["params"].(tree)["epochs"], r["state"] = epochs, state
			r["preferences"] = tree{"memory": int64(1) << 34}
			if state == rundir.StateFinished {
				r["result"] = tree{"stopped_early": true, "best_epoch": 0}
			}
		})
		f, err := rundir.Read(disk, out)
		if err != nil {
			t.Fatal(err)
		}
		w.forgeCheckpoint(out, func(h tree, _ map[string][]byte) { h["run"], _ = f.Identity() })
		return out
	}
	going := begun(1_000_000, rundir.StateInterrupted)
	w.interrupt(Options{Stores: builtin, Out: going, Resume: true}, 5)
	if f := state(t, going); f.Resumed != 1 || f.Params.Epochs != 1_000_000 {
		t.Errorf("%+v", f.Params)
	}
	many := begun(1<<30, rundir.StateInterrupted)
	_, err := w.run(context.Background(), Options{Stores: builtin, Out: many, Resume: true}, progress.Discard, nil)
	if !errors.Is(err, fault.ErrVersion) || !strings.Contains(err.Error(), "begun with 1073741824 epochs") || !strings.Contains(err.Error(), "--init-from "+many) {
		t.Errorf("%v", err)
	}
	if _, err := Report(disk, many, 0); err != nil {
		t.Errorf("its report: %v", err)
	}
	if _, err := trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: many, Pack: p, BLAS: "gonum"}, progress.Discard); err != nil {
		t.Errorf("evaluated: %v", err)
	}
	if err := checkOptions(&rundir.File{State: rundir.StateFinished, Params: state(t, many).Params, Setup: state(t, many).Setup}, many); err != nil {
		t.Errorf("finished: %v", err)
	}
	if _, err := w.run(context.Background(), w.options(p, func(o *Options) { o.Epochs = recipe.MaxEpochs + 1 }), progress.Discard, nil); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("begun: %v", err)
	}
}

// From the moment that a run goes on, run.json knows the lines of metrics.jsonl that it goes on from.
func TestResumedRunKnowsItsMetrics(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15})
	o := w.options(w.pack(20), func(o *Options) { o.CheckpointEvery = rundir.Interval{Batches: 2} })
	w.interrupt(o, 14)
	var f rundir.File
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := w.run(ctx, Options{Stores: builtin, Out: o.Out, Resume: true}, progress.Discard, func(p *parts) {
		endAfter(p, 0, func() { f = state(t, o.Out); cancel() })
	})
	if !errors.Is(err, fault.ErrInterrupted) || f.State != rundir.StateRunning || f.Metrics.Bytes == 0 || f.Metrics.Bytes > int64(len(w.file(o.Out, rundir.MetricsFile))) {
		t.Errorf("%v, %s, %+v", err, f.State, f.Metrics)
	}
}
