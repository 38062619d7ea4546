package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/all"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// longer returns the options that make the run at out one of so many epochs.
func longer(out string, epochs int) Options {
	o := Options{Stores: builtin, Out: out, Resume: true, Given: []string{"epochs"}}
	o.Epochs = epochs
	return o
}

// A run that is made longer, whenever that is, ends with the bytes of one that was begun with as
// many epochs: for all policies, orders of batches and schedules that can be; and where the last
// epoch was validated since it was the last.
func TestLonger(t *testing.T) {
	worlds := resumeWorlds(t)
	delete(worlds, "cosine")
	worlds["every second epoch is validated"] = func() (*world, Options) {
		w := newWorld(t, worldParams{nodes: 150, batch: 15, epochs: 2})
		return w, w.options(w.pack(20), func(o *Options) {
			o.CheckpointEvery, o.ValidateEvery, o.Patience, o.LR = rundir.Interval{Batches: 2}, 2, 3, 0.03
			o.Schedule, o.PlateauPatience = recipe.SchedulePlateau, 0
		})
	}
	worlds["drawn while training"] = func() (*world, Options) {
		w := newWorld(t, worldParams{nodes: 150, batch: 15})
		return w, w.options("", w.live)
	}
	worlds["steps of three batches"] = func() (*world, Options) {
		w := newWorld(t, worldParams{nodes: 150, batch: 15, epochs: 2})
		return w, w.options(w.pack(20), func(o *Options) { o.Accumulate, o.Warmup = 3, 2 })
	}
	const few, more, most = 3, 4, 7
	for name, make := range worlds {
		t.Run(name, func(t *testing.T) {
			w, o := make()
			o.Epochs = most
			w.mustRun(o, nil)
			want := w.ending(o.Out)

			short := w.fresh(o, func(o *Options) { o.Epochs = few })
			r, _ := w.mustRun(short, nil)
			if r.StoppedEarly {
				t.Fatalf("stopped after %d epochs", len(r.Epochs))
			}
			kept := names(t, filepath.Join(short.Out, rundir.CheckpointsDir))
			if strings.Count(kept, ".ckpt") != 1 {
				t.Errorf("a finished run has the checkpoints %s", kept)
			}
			// Twice: the second time from the end of the first.
			w.mustRun(longer(short.Out, more), nil)
			if f := state(t, short.Out); f.FirstEpochs != few || f.Params.Epochs != more {
				t.Errorf("%d epochs, of them %d at first", f.Params.Epochs, f.FirstEpochs)
			}
			// Killed in the middle of an epoch: at first before there is any checkpoint of it.
			again := longer(short.Out, most)
			for _, calls := range []int{1, 4} {
				o := again
				o.CheckpointEvery, o.Given = rundir.Interval{Time: 1 << 40}, append(o.Given, "checkpoint-every")
				w.interrupt(o, calls)
				again = Options{Stores: builtin, Out: short.Out, Resume: true} // which has the epochs now
			}
			if f := state(t, short.Out); f.FirstEpochs != few || f.Params.Epochs != most {
				t.Errorf("%d epochs, of them %d at first", f.Params.Epochs, f.FirstEpochs)
			}
			w.mustRun(again, nil)
			w.ending(short.Out).compare(t, "made longer", want)

			cut := w.fresh(o, func(o *Options) { o.Epochs = few })
			w.interrupt(cut, 5)
			w.mustRun(longer(cut.Out, most), nil)
			w.ending(cut.Out).compare(t, "made longer before it was finished", want)
		})
	}
}

// A run cannot be made longer that would have been another from the first step on, nor without its
// last checkpoint, nor shorter; and it stays as it was. One that stopped early stays so.
func TestLongerRefuses(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 30})
	p := w.pack(20)
	refused := func(o Options, epochs int, kind error, says string) {
		t.Helper()
		before := string(w.file(o.Out, "run.json"))
		_, err := w.run(context.Background(), longer(o.Out, epochs), &logged{}, nil)
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, says)
		}
		if string(w.file(o.Out, "run.json")) != before {
			t.Errorf("%q: a refused run changed run.json", says)
		}
	}
	cosine := w.options(p, func(o *Options) { o.Epochs, o.Schedule = 2, recipe.ScheduleCosine })
	w.mustRun(cosine, nil)
	refused(cosine, 3, fault.ErrUsage, "--schedule cosine lowers the learning rate over all epochs together; train another run of 3 epochs, which may begin with its weights: --init-from "+cosine.Out)
	if _, err := os.Stat(filepath.Join(cosine.Out, rundir.CheckpointsDir)); err == nil {
		t.Error("a run that cannot be made longer keeps a checkpoint")
	}
	projected := w.options("", w.live, func(o *Options) { o.Epochs, o.InputProjection = 2, true })
	w.mustRun(projected, nil)
	refused(projected, 3, fault.ErrUsage, "all epochs are drawn before training")

	o := w.options(p, func(o *Options) { o.Epochs = 2 })
	w.mustRun(o, nil)
	refused(o, 1, fault.ErrExists, "--epochs 1 was given, but the run has 2")
	if err := os.RemoveAll(filepath.Join(o.Out, rundir.CheckpointsDir)); err != nil {
		t.Fatal(err)
	}
	refused(o, 3, fault.ErrInput, "is finished, and has no checkpoint to make it longer from")

	early := w.options(p, func(o *Options) { o.Epochs, o.Patience, o.LR = 40, 1, 0.3 })
	r, _ := w.mustRun(early, nil)
	if !r.StoppedEarly {
		t.Fatal("it did not stop early")
	}
	log := &logged{}
	again, err := w.run(context.Background(), longer(early.Out, 50), log, nil)
	if err != nil || again.State != rundir.ResultDone || !strings.Contains(log.String(), "it stopped early after ") {
		t.Errorf("%s, %v, %s", again.State, err, log)
	}
}

// Where the checkpoint of the last epoch cannot be written, the run is finished without it.
func TestFinishesWithoutLastCheckpoint(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120, batch: 30})
	o := w.options(w.pack(20), func(o *Options) { o.Epochs = 2 })
	log := &logged{}
	full := vfs.Inject(disk, noCheckpoints{})
	if _, err := run(context.Background(), full, o, log, usual(all.Open, newCPUEngine)); err != nil {
		t.Fatal(err)
	}
	if f := state(t, o.Out); f.State != rundir.StateFinished || !strings.Contains(log.String(), "the checkpoint that could make the run longer was not written: ") {
		t.Errorf("%s: %s", f.State, log)
	}
	if _, err := os.Stat(filepath.Join(o.Out, rundir.CheckpointsDir)); err == nil {
		t.Errorf("a part of the checkpoint is left: %s", names(t, filepath.Join(o.Out, rundir.CheckpointsDir)))
	}
}

// noCheckpoints fails to write any.
type noCheckpoints struct{}

func (noCheckpoints) Before(op vfs.Op, name string) error {
	if op == vfs.OpWrite && strings.HasSuffix(name, ".ckpt.partial") {
		return errors.New("no room")
	}
	return nil
}
