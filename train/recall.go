package train

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"diskgnn/featurestore/all"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/decide"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// decided are the options that a Decision follows from.
func (o *Options) decided() decide.Options {
	return decide.Options{Recipe: o.Recipe, Resources: o.Resources, Engine: o.Engine, Rank: o.Job.Index, Ranks: o.world(),
		Replicas: o.replicas(), Out: o.Out, Pack: o.Pack, Dataset: o.Dataset, Samples: o.Samples, WeightsPath: o.WeightsPath, Command: o.Command,
		Preferences: o.preferences(), Force: o.Force, Trace: o.Trace, CheckpointEvery: o.CheckpointEvery, Keep: o.Keep}
}

// recall completes the options by those of the run that is resumed, and refuses flags
// that say otherwise about what decides the result.
func (o *Options) recall(was *rundir.File) error {
	if err := o.sameDrawing(was); err != nil {
		return err
	}
	if o.Pack == "" && o.Dataset == "" && o.Samples == "" {
		o.Pack, o.Dataset, o.Samples = was.PackPath, was.DatasetPath, was.SamplesPath
		if !o.gave("store") {
			o.Store = cmp.Or(was.Store, all.Auto)
		}
	}
	if o.WeightsPath == "" {
		o.WeightsPath = was.WeightsPath
	}
	if o.Engine == EngineAuto {
		o.Engine = was.Setup.Engine
	}
	var differ []string
	if was.FirstEpochs < 0 || was.FirstEpochs > was.Params.Epochs {
		return fault.New(fault.ErrCorrupt, "it was begun with %d of %d epochs", was.FirstEpochs, was.Params.Epochs)
	}
	for _, d := range o.Recipe.Recall(&was.Params.Recipe, o.Given) {
		if o.longer(was) && d.Flag == "epochs" {
			if err := o.checkLonger(was); err != nil {
				return err
			}
			continue
		}
		if d.Flag == "init-from" {
			differ = append(differ, o.otherWeights(was))
			continue
		}
		differ = append(differ, d.String())
	}
	if !o.gave("engine") {
		o.Engine = was.Setup.Engine
	} else if o.Engine != was.Setup.Engine {
		differ = append(differ, recipe.Difference{Flag: "engine", Value: o.Engine, Than: was.Setup.Engine}.String())
	}
	if len(differ) > 0 {
		return fault.New(fault.ErrExists, "%s cannot be resumed with other parameters: %s; leave these flags out, or train anew under another name or with --force", o.Out, strings.Join(differ, "; "))
	}
	if kind := blas.KindOf(was.Setup.BLAS); (kind == blas.Gonum || kind == blas.Builtin) && !o.gave("blas") {
		o.BLAS = kind // without OpenBLAS, sameArithmetic says what is missing
	}
	o.prefer(&was.Preferences)
	o.EnsureDefaults() // of what earlier versions of this program had no option for
	return nil
}

// otherWeights says that a run began with other weights than are given now.
func (o *Options) otherWeights(was *rundir.File) string {
	if was.Params.InitFrom == "" {
		return fmt.Sprintf("--init-from %s was given, it began with weights that --seed draws", o.WeightsPath)
	}
	return fmt.Sprintf("--init-from %s was given, it began with another file, %s", o.WeightsPath, was.WeightsPath)
}

// longer tells whether a run that goes on is to have more epochs than it had.
func (o *Options) longer(was *rundir.File) bool {
	return o.gave("epochs") && o.Epochs > was.Params.Epochs
}

// done tells whether a run that was there is finished, and nothing is wanted of it. One that stopped
// early would have done so with any more epochs.
func (o *Options) done(was *rundir.File) bool {
	return was.State == rundir.StateFinished && was.Result != nil && (was.Result.StoppedEarly || !o.longer(was))
}

// checkLonger refuses to make a run longer that would have been another from the first step on, had
// it been begun with as many epochs.
func (o *Options) checkLonger(was *rundir.File) error {
	r := &was.Params.Recipe
	why := r.Bound()
	if r.Live() && r.Dry() > float64(was.First()) && !decide.InputOrderFree(&was.Params.Network, &was.Setup.Info) {
		why = "all epochs are drawn before training, and how nodes are numbered by that decides last bits (--dry-epochs, --layer-order)"
	}
	if why == "" {
		return nil
	}
	return fault.New(fault.ErrUsage, "%s cannot be made longer than its %d epochs: %s; train another run of %d epochs, which may begin with its weights: --init-from %s", o.Out, was.Params.Epochs, why, o.Epochs, o.Out)
}

// sameDrawing refuses to draw batches while training where the run's were drawn before, and
// the other way round.
func (o *Options) sameDrawing(was *rundir.File) error {
	before := &was.Params.Recipe
	switch from := cmp.Or(o.Pack, o.Samples); {
	case before.Live() && from != "":
		return fault.New(fault.ErrLineage, "%s was trained on batches that were drawn while training, of fanout %s: go on without %s", o.Out, before.Fanout, from)
	case o.Live() && !before.Live():
		return fault.New(fault.ErrExists, "%s was trained on batches that were drawn before: go on without --fanout", o.Out)
	}
	return nil
}

// checkOptions refuses a run at out whose options no run begins with.
func checkOptions(f *rundir.File, out string) error {
	if n := f.Params.Epochs; n > recipe.MaxEpochs && n <= recipe.EarlierEpochs {
		if f.State != rundir.StateFinished {
			return fault.New(fault.ErrVersion, "%s was begun with %d epochs, and this program goes on with %d at most: report, eval and predict read it; train another run, which may begin with its weights: --init-from %s", out, n, recipe.MaxEpochs, out)
		}
		all := *f
		all.Params.Epochs, all.FirstEpochs = recipe.MaxEpochs, min(f.FirstEpochs, recipe.MaxEpochs)
		f = &all // which is not to go on: the rest is checked
	}
	o := Defaults()
	if o.Out = out; f.Params.Live() {
		o.Dataset = "dataset"
	} else {
		o.Pack = "pack"
	}
	err := o.recall(f)
	if err == nil {
		err = o.Validate()
	}
	if err != nil {
		return fault.New(fault.ErrCorrupt, "%s says what no run is begun with: %v", filepath.Join(out, stage.RunFile), err)
	}
	return nil
}

// earlier returns the run that goes on: nil where one is to be begun.
func (o *Options) earlier(fsys vfs.FS) (was *rundir.File, err error) {
	if !o.Resume || !o.root() {
		return nil, nil
	}
	if was, err = runToResume(fsys, o.Out); err != nil {
		return nil, err
	}
	if was == nil && o.Out != "" && o.places() == (all.Places{}) {
		return nil, fault.New(fault.ErrUsage, "--resume: there is no run at %s; to begin it, say what to train on: --pack, or --dataset with --samples or --fanout", o.Out)
	}
	if was == nil {
		return nil, nil
	}
	if err := checkOptions(was, o.Out); err != nil {
		return nil, err
	}
	if o.done(was) {
		if err = o.trainedOn(fsys, was); err == nil {
			err = was.CheckWeights(fsys, o.Out)
		}
	}
	return was, err
}

// Agrees returns the error by which Run would refuse the options, for what is there of the run or
// for themselves; what the run would read is not looked at. It changes nothing.
func Agrees(fsys vfs.FS, o Options) error {
	o.EnsureDefaults()
	if _, err := o.hashWeights(fsys); err != nil {
		return err
	}
	was, err := o.earlier(fsys)
	if err == nil && was != nil {
		err = o.recall(was)
	}
	if err == nil {
		err = o.Validate()
	}
	if err == nil && was == nil {
		err = rundir.CheckOut(fsys, o.Out, o.Force)
	}
	return err
}

// runToResume returns run.json of the run at out, or nil where there is none.
func runToResume(fsys vfs.FS, out string) (*rundir.File, error) {
	out = filepath.Clean(out)
	if ok, err := vfs.Exists(fsys, out); err != nil || !ok {
		return nil, err
	}
	was, err := rundir.Read(fsys, out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // checkOut decides whether anything else is there
	case err != nil:
		return nil, err
	}
	return &was, nil
}
