package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/all"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
	"diskgnn/train/traintest"
)

// ending is everything of a finished run that an interruption must not change.
type ending struct {
	weights, final string
	metrics        string
	best           int
	valid, test    string
}

func (w *world) ending(out string) ending {
	w.t.Helper()
	f := state(w.t, out)
	if f.State != rundir.StateFinished {
		w.t.Fatalf("%s is %s: %s", out, f.State, f.Error)
	}
	if _, err := os.Stat(filepath.Join(out, rundir.LockFile)); err == nil {
		w.t.Errorf("%s: the lock is left", out)
	}
	if kept, err := os.ReadDir(filepath.Join(out, rundir.CheckpointsDir)); err == nil && (len(kept) != 1 || f.Params.Bound() != "" || f.Result.StoppedEarly) {
		w.t.Errorf("%s: %v are left", out, kept)
	}
	return ending{string(w.file(out, rundir.WeightsFile)), string(w.file(out, rundir.FinalFile)), traintest.WithoutTimes(w.t, w.file(out, rundir.MetricsFile)),
		f.Result.BestEpoch, fmt.Sprint(f.Result.ValidAccuracy), fmt.Sprint(f.Result.TestAccuracy)}
}

// compare checks that two endings are the same.
func (e ending) compare(t testing.TB, what any, want ending) {
	t.Helper()
	switch {
	case e.final != want.final:
		t.Errorf("%v: other final weights", what)
	case e.weights != want.weights:
		t.Errorf("%v: other best weights", what)
	case e.metrics != want.metrics:
		t.Errorf("%v: the metrics are\n%swant\n%s", what, e.metrics, want.metrics)
	case e != want:
		t.Errorf("%v: %d %s %s, want %d %s %s", what, e.best, e.valid, e.test, want.best, want.valid, want.test)
	}
}

// The options under which runs are interrupted: policies, orders, metrics, with and
// without validation.
func resumeWorlds(t *testing.T) map[string]func() (*world, Options) {
	small := worldParams{nodes: 150, batch: 15, epochs: 2}
	every := func(o *Options) { o.Epochs, o.CheckpointEvery, o.Keep = 3, rundir.Interval{Batches: 2}, 2 }
	return map[string]func() (*world, Options){
		"static": func() (*world, Options) {
			w := newWorld(t, small)
			return w, w.options(w.pack(20), every)
		},
		"shuffled, AUC": func() (*world, Options) {
			p := small
			p.classes = 2
			w := newWorld(t, p)
			return w, w.options(w.pack(5), every, func(o *Options) { o.ShuffleBatches, o.Metric, o.Threads = true, recipe.MetricAUC, 3 })
		},
		"min": func() (*world, Options) {
			w := newWorld(t, small)
			return w, w.options(w.pack(20, policyMin), every, func(o *Options) { o.Epochs = 5 })
		},
		"cosine": func() (*world, Options) {
			w := newWorld(t, small)
			return w, w.options(w.pack(20), every, func(o *Options) { o.Schedule, o.Warmup, o.MinLR = recipe.ScheduleCosine, 1, 0.001 })
		},
		"plateau, stops early": func() (*world, Options) {
			w := newWorld(t, small)
			return w, w.options(w.pack(20), every, func(o *Options) {
				o.Epochs, o.LR, o.Schedule, o.PlateauPatience, o.Patience = 9, 0.05, recipe.SchedulePlateau, 0, 2
			})
		},
		"multi-label, AUC": func() (*world, Options) {
			p := small
			p.multi, p.classes = true, 9
			w := newWorld(t, p)
			return w, w.options(w.pack(20), every, func(o *Options) { o.Metric, o.Epochs = recipe.MetricAUC, 2 })
		},
		"without validation": func() (*world, Options) {
			p := small
			p.noValid = true
			w := newWorld(t, p)
			return w, w.options(w.pack(20), every)
		},
	}
}

// fresh returns the options with another output.
func (w *world) fresh(o Options, more ...func(*Options)) Options {
	o.Out = w.path(fmt.Sprint("run", runNumber.next()))
	for _, m := range more {
		m(&o)
	}
	return o
}

// A run that is interrupted at any step, of training or evaluation, and resumed as
// often as it takes, ends with the bytes of one that never was.
func TestInterruptedAnywhere(t *testing.T) {
	for name, make := range resumeWorlds(t) {
		t.Run(name, func(t *testing.T) {
			w, o := make()
			r, _ := w.mustRun(o, nil)
			evalSlots, want := r.EvalSlots, w.ending(o.Out)
			for _, every := range []int{2, 5} { // calls of the engine that each process finishes
				o := w.fresh(o, func(o *Options) { o.CheckpointEvery = rundir.Interval{Time: 1 << 40} })
				for tries := 0; ; tries++ {
					ctx, cancel := context.WithCancel(context.Background())
					_, err := w.run(ctx, o, &logged{}, func(p *parts) {
						withSlots(1+tries%3, min(evalSlots, 1+tries%2))(p)
						endAfter(p, every+tries/10, cancel) // evaluations begin anew, and must get through
					})
					cancel()
					if err == nil {
						if tries < 3 {
							t.Errorf("interrupted only %d times", tries)
						}
						break
					}
					if !errors.Is(err, fault.ErrInterrupted) || !strings.Contains(err.Error(), " --resume") {
						t.Fatalf("try %d: %v", tries, err)
					}
					o.Resume, o.Threads = true, 1+tries%3
				}
				w.ending(o.Out).compare(t, fmt.Sprint("every ", every), want)
			}
		})
	}
}

// Whichever write is the last, and whichever is the last of the process that resumes,
// the run can be resumed and ends with the same bytes.
func TestCrashAtEveryWrite(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 30, epochs: 1})
	o := w.options(w.pack(20), func(o *Options) { o.Epochs, o.CheckpointEvery, o.Keep = 2, rundir.Interval{Batches: 2}, 1 })
	w.mustRun(o, nil)
	want := w.ending(o.Out)
	crash := func(o Options, n int) (bool, error) {
		in := &vfs.FailAt{N: n, After: true, Err: errors.New("crash")}
		_, err := run(context.Background(), vfs.Inject(disk, in), o, progress.Discard, usual(all.Open, newCPUEngine))
		return in.Fired(), err
	}
	for n := 0; ; n++ {
		o := w.fresh(o, func(o *Options) { o.Resume = true })
		fired, err := crash(o, n)
		if !fired {
			if err != nil || n < 50 {
				t.Errorf("after %d faults: %v", n, err)
			}
			break
		}
		_, _ = crash(o, n*7%11) // while it resumes
		r, err := w.run(context.Background(), o, &logged{}, nil)
		if err != nil {
			t.Fatalf("crash at write %d, then: %v", n, err)
		}
		if len(r.Epochs) != 2 {
			t.Errorf("crash at write %d: %d epochs", n, len(r.Epochs))
		}
		w.checkEnded(o.Out, n, want)
	}
}

// checkEnded compares a run that may have finished before its last cleaning was done.
func (w *world) checkEnded(out string, what any, want ending) {
	w.t.Helper()
	if err := os.RemoveAll(filepath.Join(out, rundir.CheckpointsDir)); err != nil {
		w.t.Fatal(err)
	}
	w.ending(out).compare(w.t, what, want)
}

// interrupt leaves a run that was interrupted after so many steps.
func (w *world) interrupt(o Options, steps int, change ...func(*parts)) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := w.run(ctx, o, &logged{}, func(p *parts) {
		for _, c := range change {
			c(p)
		}
		endAfter(p, steps, cancel)
	})
	if !errors.Is(err, fault.ErrInterrupted) {
		w.t.Fatalf("to be interrupted: %v", err)
	}
}

// endAfter calls end ahead of the engine's call that follows so many, of Step or Infer, and
// returns where it counts them.
func endAfter(p *parts, calls int, end func()) (count *int) {
	count = new(int)
	wrapEngine(p, func(e engine.Engine) engine.Engine {
		return &bad{Engine: e, before: func() error {
			if *count == calls {
				end()
			}
			*count++
			return nil
		}}
	})
	return count
}

// A run goes on with the matrix products that it began with, also where auto would take
// others, and ends with the bytes of one that was not interrupted.
func TestResumeKeepsBLAS(t *testing.T) {
	w := newWorld(t, worldParams{})
	p := w.pack(20)
	for _, kind := range []string{blas.OpenBLAS, blas.Builtin, blas.Gonum} {
		if _, err := blas.Open(kind); err != nil {
			t.Logf("without %s: %v", kind, err)
			continue
		}
		o := w.options(p, func(o *Options) { o.BLAS, o.Given = kind, []string{"blas"} })
		w.mustRun(o, nil)
		want := w.ending(o.Out)
		o = w.fresh(o)
		w.interrupt(o, 4)
		o.Resume, o.Given, o.BLAS = true, nil, blas.Auto
		if r, _ := w.mustRun(o, nil); blas.KindOf(r.BLAS) != kind {
			t.Errorf("%s: resumed with %s", kind, r.BLAS)
		}
		w.ending(o.Out).compare(t, kind, want)
	}
}

// What decides the result is the run's own; a flag that says otherwise is refused, and
// the run stays as it was.
func TestResumeRefuses(t *testing.T) {
	w := newWorld(t, worldParams{})
	p, other := w.pack(20), w.pack(30)
	o := w.options(p, func(o *Options) { o.Given, o.IO = []string{"threads", "memory", "blas"}, "" })
	w.interrupt(o, 4)
	before := string(w.file(o.Out, "run.json"))
	given := func(flag string, change func(*Options)) func(*Options) {
		return func(o *Options) { o.Given = []string{flag}; change(o) }
	}
	late := map[error]bool{fault.ErrLineage: true, fault.ErrCorrupt: true}
	for want, c := range map[string]struct {
		kind   error
		change func(*Options)
	}{
		"use --resume to go on":                                   {fault.ErrExists, func(o *Options) { o.Resume = false }},
		"--resume and --force":                                    {fault.ErrUsage, func(o *Options) { o.Force = true }},
		"--model gcn was given, but the run has sage":             {fault.ErrExists, given("model", func(o *Options) { o.Model = "gcn" })},
		"--hidden 9 was given, but the run has 8":                 {fault.ErrExists, given("hidden", func(o *Options) { o.Hidden = 9 })},
		"--epochs 2 was given, but the run has 3":                 {fault.ErrExists, given("epochs", func(o *Options) { o.Epochs = 2 })},
		"--lr 0.5 was given, but the run has 0.01":                {fault.ErrExists, given("lr", func(o *Options) { o.LR = 0.5 })},
		"--dropout 0 was given, but the run has 0.5":              {fault.ErrExists, given("dropout", func(o *Options) { o.Dropout = 0 })},
		"--metric f1 was given, but the run has accuracy":         {fault.ErrExists, given("metric", func(o *Options) { o.Metric = recipe.MetricF1 })},
		"--layer-order aggregate was given, but the run has auto": {fault.ErrExists, given("layer-order", func(o *Options) { o.LayerOrder = "aggregate" })},
		"--seed 3 was given, but the run has 0":                   {fault.ErrExists, given("seed", func(o *Options) { o.Seed = 3 })},
		"--shuffle-batches true was given, but the run has false": {fault.ErrExists, given("shuffle-batches", func(o *Options) { o.ShuffleBatches = true })},
		"--loss binary was given, but the run has cross-entropy":  {fault.ErrExists, given("loss", func(o *Options) { o.Loss = recipe.LossBinary })},
		"--engine none was given, but the run has cpu":            {fault.ErrExists, given("engine", func(o *Options) { o.Engine = EngineNone })},
		"was trained on the pack ":                                {fault.ErrLineage, func(o *Options) { o.Pack = other }},
		"kernels plain, now ":                                     {fault.ErrLineage, func(o *Options) { w.edit(o.Out, `"simd": "`+kernel.Kind(), `"simd": "plain`) }},
		"matrix products by openblas 9, now gonum":                {fault.ErrLineage, func(o *Options) { w.edit(o.Out, `"blas": "gonum"`, `"blas": "openblas 9"`) }},
		"diskgnn.run, version 1; this program reads":              {fault.ErrVersion, func(o *Options) { w.edit(o.Out, `"version": 3`, `"version": 1`) }},
		"can be used (--force starts over): ":                     {fault.ErrCorrupt, func(o *Options) { w.damage(o.Out, 0) }},
	} {
		if strings.HasPrefix(want, "kernels") && kernel.Kind() == "plain" {
			continue
		}
		copied := w.fresh(o)
		if err := os.CopyFS(copied.Out, os.DirFS(o.Out)); err != nil {
			t.Fatal(err)
		}
		copied.Resume, copied.Given = true, nil
		c.change(&copied)
		_, err := w.run(context.Background(), copied, &logged{}, nil)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, want)
		}
		// What does not depend on what the run reads is told ahead.
		if ahead := Agrees(disk, copied); (ahead != nil) != !late[c.kind] || ahead != nil && ahead.Error() != err.Error() {
			t.Errorf("ahead of the run %v, then %v", ahead, err)
		}
	}
	if after := string(w.file(o.Out, "run.json")); after != before {
		t.Errorf("run.json was changed to %s", after)
	}

	// What is given in agreement, or decides nothing, is taken.
	o.Resume, o.Given, o.Threads, o.Metric, o.Pack = true, []string{"epochs", "threads", "metric"}, 1, recipe.MetricAuto, ""
	if err := Agrees(disk, o); err != nil {
		t.Error(err)
	}
	// Another rank than 0 makes no directory, and learns from rank 0 how the run was begun.
	rank1 := o
	rank1.Job.Index, rank1.Job.Count = 1, 2
	for _, c := range []struct {
		resume bool
		pack   string
		want   error
	}{{true, "", nil}, {false, p, nil}, {false, "", fault.ErrUsage}} {
		rank1.Resume, rank1.Pack = c.resume, c.pack
		if err := Agrees(disk, rank1); !errors.Is(err, c.want) {
			t.Errorf("rank 1, resumed %t, on %q: %v", c.resume, c.pack, err)
		}
	}
	var rep logged
	r, err := w.run(context.Background(), o, &rep, nil)
	if err != nil || r.State != rundir.ResultResumed || r.Threads != 1 || r.Memory != 1<<30 {
		t.Fatalf("resumed: %+v, %v", r, err)
	}
	if said := rep.String(); !strings.Contains(said, "another setup: threads 1 (was 2)") || !strings.Contains(said, "resumed after 0 epochs and 4 batches") {
		t.Errorf("reported:\n%s", said)
	}
	if f := state(t, o.Out); f.Resumed != 1 || f.Preferences.Memory != 1<<30 || f.Preferences.Threads != 1 || f.Preferences.IO != "" {
		t.Errorf("run.json: %+v", f)
	}
	// Once more, there is nothing to do, if it is asked for the batches that it was trained on.
	o.Pack = w.pack(50)
	if _, err := w.run(context.Background(), o, &logged{}, nil); !errors.Is(err, fault.ErrLineage) || !strings.Contains(err.Error(), "was trained on the pack") {
		t.Errorf("a finished run, on another pack: %v", err)
	}
	if err := Agrees(disk, o); !errors.Is(err, fault.ErrLineage) {
		t.Errorf("ahead of a finished run, on another pack: %v", err)
	}
	for _, o.Pack = range []string{p, filepath.Join(w.dir, "gone"), ""} {
		if same, err := w.run(context.Background(), o, &logged{}, nil); err != nil || same.State != rundir.ResultDone {
			t.Errorf("a finished run, on %q: %+v, %v", o.Pack, same, err)
		}
	}
	// What a process left that was killed at the end is put in order, unless it lives still.
	lock, err := vfs.OS.Lock(filepath.Join(o.Out, rundir.LockFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, there := range []bool{true, false} {
		if same, err := w.run(context.Background(), o, &logged{}, nil); err != nil || same.State != rundir.ResultDone {
			t.Errorf("a finished run with a lock: %+v, %v", same, err)
		}
		if found, err := vfs.Exists(vfs.OS, filepath.Join(o.Out, rundir.LockFile)); err != nil || found != there {
			t.Errorf("the lock's file is there: %t %v, want %t", found, err, there)
		}
		if err := errors.Join(lock.Close(), os.RemoveAll(filepath.Join(o.Out, rundir.ReportFile))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(o.Out, rundir.LockFile), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(context.Background(), o, &logged{}, nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(o.Out, rundir.ReportFile)); err != nil {
		t.Error(err)
	}
	// Nothing is needed for it.
	if err := os.RemoveAll(p); err != nil {
		t.Fatal(err)
	}
	again, err := w.run(context.Background(), o, &logged{}, nil)
	if err != nil || again.State != rundir.ResultDone || again.TestAccuracy != r.TestAccuracy || len(again.Epochs) != 3 {
		t.Errorf("a finished run: %+v, %v", again, err)
	}
	o.Given, o.Epochs = []string{"epochs"}, 2
	if _, err := w.run(context.Background(), o, &logged{}, nil); !errors.Is(err, fault.ErrExists) {
		t.Errorf("a finished run, with fewer epochs: %v", err)
	}
}

// Every process of a traced run leaves a trace of its own, also one that is interrupted or
// fails, and one that goes on is told by the run that there are traces.
func TestTraceOfEveryProcess(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, batch: 15, epochs: 2})
	o := w.options(w.pack(20), func(o *Options) { o.Epochs, o.Trace, o.Given = 4, true, []string{"trace"} })
	interrupted := func(o Options, calls int) {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if _, err := w.run(ctx, o, &logged{}, func(p *parts) { endAfter(p, calls, cancel) }); !errors.Is(err, fault.ErrInterrupted) {
			t.Fatalf("%v", err)
		}
	}
	// spans counts the steps and the evaluations in a trace.
	spans := func(name string) int {
		t.Helper()
		b := w.file(o.Out, name)
		if !json.Valid(b) {
			t.Errorf("%s: %.300s", name, b)
		}
		return bytes.Count(b, []byte(`,"name":"train compute"`)) + bytes.Count(b, []byte(`,"name":"evaluate compute"`))
	}
	interrupted(o, 5)
	if n := spans(rundir.TraceFile); n < 5 || n > 6 { // with the one that was abandoned
		t.Errorf("%d steps in the trace of an interrupted run that did 5", n)
	}
	first := w.file(o.Out, rundir.TraceFile)
	o.Resume, o.Trace, o.Given = true, false, nil
	interrupted(o, 3)
	if n := spans("trace-1.json"); n < 3 || n > 4 {
		t.Errorf("%d steps in the trace of the second process, which did 3", n)
	}
	boom := errors.New("boom")
	left := 2
	_, err := w.run(context.Background(), o, &logged{}, func(p *parts) {
		wrapEngine(p, func(e engine.Engine) engine.Engine {
			return &bad{Engine: e, before: func() error {
				if left--; left < 0 {
					return boom
				}
				return nil
			}}
		})
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if n := spans("trace-2.json"); n < 2 || n > 3 {
		t.Errorf("%d steps in the trace of a process that failed after 2", n)
	}
	if _, err := w.run(context.Background(), o, &logged{}, nil); err != nil {
		t.Fatal(err)
	}
	if spans("trace-3.json") == 0 || !bytes.Equal(w.file(o.Out, rundir.TraceFile), first) {
		t.Error("the last process wrote no trace, or not its own")
	}

	// Without, there is none, and a run in its place has none of an earlier one's.
	o = w.fresh(o, func(o *Options) { o.Resume, o.Force, o.Trace, o.Given = false, true, true, []string{"trace"} })
	interrupted(o, 5)
	o.Resume, o.Force, o.Trace = true, false, false
	if _, err := w.run(context.Background(), o, &logged{}, nil); err != nil {
		t.Fatal(err)
	}
	if have := names(t, o.Out); strings.Contains(have, "trace-1") || !strings.Contains(have, rundir.TraceFile) {
		t.Errorf("with --trace=false: %s", have)
	}
	o.Resume, o.Force, o.Epochs, o.Given = false, true, 1, nil
	if err := os.WriteFile(filepath.Join(o.Out, "trace-7.json"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(context.Background(), o, &logged{}, nil); err != nil {
		t.Fatal(err)
	}
	if have := names(t, o.Out); strings.Contains(have, "trace") {
		t.Errorf("forced, without a trace: %s", have)
	}
}

// edit replaces text in run.json.
func (w *world) edit(out, old, new string) {
	w.t.Helper()
	text := string(w.file(out, "run.json"))
	if !strings.Contains(text, old) {
		w.t.Fatalf("run.json has no %s: %s", old, text)
	}
	traintest.WriteRun(w.t, out, []byte(strings.ReplaceAll(text, old, new)))
}

// damage flips a byte in all checkpoints but the oldest spare, and returns how many
// there are.
func (w *world) damage(out string, spare int) int {
	w.t.Helper()
	dir := filepath.Join(out, rundir.CheckpointsDir)
	all := strings.Fields(names(w.t, dir))
	for _, name := range all[spare:] {
		b := w.file(dir, name)
		b[len(b)/2] ^= 4
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			w.t.Fatal(err)
		}
	}
	return len(all)
}

// A damaged checkpoint is named, and the one before used.
func TestDamagedCheckpoints(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 15})
	o := w.options(w.pack(20), func(o *Options) { o.CheckpointEvery = rundir.Interval{Batches: 3} })
	w.mustRun(o, nil)
	want := w.ending(o.Out)
	o = w.fresh(o)
	w.interrupt(o, 11)
	if n := w.damage(o.Out, 1); n != 3 {
		t.Fatalf("%d checkpoints are kept", n)
	}
	var rep logged
	o.Resume = true
	if _, err := w.run(context.Background(), o, &rep, nil); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(rep.String(), "passed over a damaged checkpoint: "+o.Out); n != 2 {
		t.Errorf("reported:\n%s", &rep)
	}
	w.ending(o.Out).compare(t, "after damage", want)

	// A wrong line of metrics.jsonl makes useless what counts on it.
	o = w.fresh(o, func(o *Options) { o.Resume, o.CheckpointEvery, o.Keep = false, rundir.Interval{Batches: 1}, 9 })
	w.interrupt(o, 11)
	b := w.file(o.Out, rundir.MetricsFile)
	b[20] ^= 1
	if err := os.WriteFile(filepath.Join(o.Out, rundir.MetricsFile), b, 0o666); err != nil {
		t.Fatal(err)
	}
	o.Resume = true
	if _, err := w.run(context.Background(), o, &rep, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(rep.String(), rundir.MetricsFile+": bytes 0 to ") {
		t.Errorf("reported:\n%s", &rep)
	}
	w.ending(o.Out).compare(t, "after damage", want)
}

// Asked to resume what is not there, a run begins; after --force nothing of the run
// before is gone on with.
func TestResumeFromNothing(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 15})
	o := w.options(w.pack(20), func(o *Options) { o.Resume = true })
	r, err := w.run(context.Background(), o, &logged{}, nil)
	if err != nil || r.State != rundir.ResultNew {
		t.Fatalf("%+v, %v", r, err)
	}
	want := w.ending(o.Out)
	other := w.fresh(o, func(o *Options) { o.Resume, o.Seed = false, 7 })
	w.interrupt(other, 9)
	forced := other
	forced.Force, forced.Seed = true, 0
	w.interrupt(forced, 0)
	if got := names(t, other.Out); strings.Contains(got, rundir.CheckpointsDir) {
		t.Errorf("forced, the directory holds %s", got)
	}
	forced.Force, forced.Resume = false, true
	var rep logged
	if r, err := w.run(context.Background(), forced, &rep, nil); err != nil || r.State != rundir.ResultNew || !strings.Contains(rep.String(), "no checkpoint yet") {
		t.Errorf("%+v, %v; reported:\n%s", r, err, &rep)
	}
	w.ending(forced.Out).compare(t, "forced", want)

	// The loader alone is resumed too.
	alone := w.fresh(o, func(o *Options) { o.Engine, o.CheckpointEvery = EngineNone, rundir.Interval{Batches: 2} })
	in := &vfs.FailAt{N: 40, After: true, Err: errors.New("crash")}
	if _, err := run(context.Background(), vfs.Inject(disk, in), alone, progress.Discard, usual(all.Open, newCPUEngine)); err == nil {
		t.Fatal("there was no crash")
	}
	if r, err := w.run(context.Background(), alone, &rep, nil); err != nil || r.State != rundir.ResultResumed || len(r.Epochs) != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A resumed run takes its recipe from run.json, whose precision is the gpu engine's alone.
func TestRecallsTheRecipe(t *testing.T) {
	var was rundir.File
	was.Setup.Engine = EngineGPU
	was.Params.Recipe = recipe.Defaults()
	was.Params.Hidden, was.Params.Precision = 77, recipe.PrecisionTF32
	o := defaults()
	o.Given, o.Engine = []string{"engine"}, EngineAuto
	if err := o.recall(&was); err != nil {
		t.Fatal(err)
	}
	if o.Engine != EngineGPU { // which auto stands for in a run that was begun on one
		t.Errorf("goes on with --engine %s", o.Engine)
	}
	params := func() rundir.Params { return (&decide.Decision{Options: o.decided()}).File(rundir.Setup{}).Params }
	if got := params(); !reflect.DeepEqual(got.Recipe, was.Params.Recipe) {
		t.Errorf("recalled %+v, want %+v", got, was.Params)
	}
	if o.Engine = EngineCPU; params().Precision != "" {
		t.Errorf("on the CPU: %+v", params())
	}
	o.Given = []string{"hidden", "engine"}
	if o.Hidden = 5; !strings.Contains(fmt.Sprint(o.recall(&was)), "--hidden 5 was given, but the run has 77; --engine cpu was given, but the run has gpu") {
		t.Error(o.recall(&was))
	}
}

func TestIntervals(t *testing.T) {
	for text, want := range map[string]string{"10m": "10m", "90s": "1m30s", "2h": "2h", "500": "500", "1_000": "1000", "0": "0", "1h30m": "1h30m", "1h0m5s": "1h0m5s"} {
		i, err := rundir.ParseInterval(text)
		if err != nil || i.String() != want {
			t.Errorf("%s is %s (%v)", text, i, err)
		}
	}
	for _, text := range []string{"", "-1", "-5m", "ten", "5 m", "0s"} {
		if i, err := rundir.ParseInterval(text); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%q is %v (%v)", text, i, err)
		}
	}
	for _, c := range []struct {
		every     string
		batches   int
		step      int
		since     string
		epochEnds bool
		want      bool
	}{
		{"10m", 7, 1, "9m59s", false, false}, {"10m", 7, 1, "10m", false, true},
		{"10m", 7, 1, "9s", true, false}, {"10m", 7, 1, "10s", true, true}, {"5s", 7, 1, "5s", true, true},
		{"5", 7, 1, "10h", false, false}, {"5", 10, 1, "1ns", false, true}, {"5", 10, 1, "1ns", true, false},
		{"5", 12, 3, "1ns", false, true}, {"5", 12, 2, "1ns", false, false}, {"5", 14, 9, "1ns", false, true},
		{"0", 7, 1, "10h", false, false}, {"0", 7, 1, "1ns", true, true},
	} {
		i, err1 := rundir.ParseInterval(c.every)
		since, err2 := rundir.ParseInterval(c.since)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if got := i.Due(c.batches, c.step, since.Time, c.epochEnds); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
