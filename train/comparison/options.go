package comparison

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	stores "diskgnn/featurestore/all"
	"diskgnn/internal/driverate"
	"diskgnn/internal/fault"
	"diskgnn/presample"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train"
	"diskgnn/train/cpu/blas"
)

// Options say what is compared. Start from Defaults.
type Options struct {
	Dataset string // directory
	Samples string // directory; "": they are drawn as Sampling says
	Out     string // directory of the comparison, whose parent exists

	Stores []string // as featurestore/all names them; nil: all that take any samples
	Rounds int      // runs of each store, in turn; 0 means 2
	// Ablations are parts that are taken away from every store, for more runs: names of
	// Ablations, those that go together joined by "+".
	Ablations []string
	// Live has batches drawn while training, fresh ones every epoch. A store that needs a pack
	// trains on the same: samples of as many epochs are drawn for it, which are a part of
	// preparing it.
	Live bool
	// Sampling is what batches are drawn by; its directories, Seed and Memory follow from the
	// other options, and with Live its Epochs.
	Sampling presample.Options
	// Train is what every store trains with. Its directories and Store are not looked at.
	Train train.Options
	// DriveSeconds is for how long large reads are measured; 0 means those of
	// driverate.Limited.
	DriveSeconds float64
}

// Defaults returns the options of a comparison of which nothing is said.
func Defaults() Options {
	o := Options{Train: train.Defaults()}
	o.EnsureDefaults()
	return o
}

// EnsureDefaults replaces zero values that mean a default.
func (o *Options) EnsureDefaults() {
	if o.Stores == nil {
		o.Stores = slices.DeleteFunc(stores.Names(), func(n string) bool { return n == stores.Auto || stores.Particular(n) })
	}
	o.Rounds = cmp.Or(o.Rounds, 2)
	o.DriveSeconds = cmp.Or(o.DriveSeconds, driverate.Limited.For.Seconds())
	o.Train.EnsureDefaults()
	o.Sampling.EnsureDefaults()
	if o.Live {
		o.Sampling.Epochs = o.Train.Epochs
	}
}

// longest is the most seconds that the drive is measured for.
const longest = 3600

// Validate names the flag that makes no sense. It expects EnsureDefaults to have been called.
func (o *Options) Validate() error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	switch {
	case o.Dataset == "":
		return usage("--dataset is missing: name the directory that `diskgnn generate` or `diskgnn import` made")
	case o.Out == "":
		return usage("--out is missing: name the directory to make for the comparison")
	case len(o.Stores) == 0:
		return usage("--stores is empty: there are %s", strings.Join(stores.Names()[1:], ", "))
	case o.Rounds < 1:
		return usage("--rounds %d: give a positive number", o.Rounds)
	case o.DriveSeconds < 0 || o.DriveSeconds > longest:
		return usage("--drive-seconds %v: give a number from 0 to %d", o.DriveSeconds, longest)
	case o.Live && o.Samples != "":
		return usage("--live draws batches while training, %s has batches: leave one of them out", o.Samples)
	}
	for i, name := range o.Stores {
		if name == stores.Auto || !slices.Contains(stores.Names(), name) {
			return usage("--stores %s: there are %s", name, strings.Join(stores.Names()[1:], ", "))
		}
		if slices.Contains(o.Stores[:i], name) {
			return usage("--stores: %s is there twice", name)
		}
	}
	variants, err := o.variants()
	if err != nil {
		return err
	}
	for _, v := range variants {
		if err := v.validate(); err != nil {
			return err
		}
	}
	return nil
}

// validate names the flag that makes no sense to a store, or to what draws samples.
func (v *variant) validate() error {
	o := &v.o
	for _, name := range o.Stores {
		t := o.Train
		t.Store, t.Out, t.Pack, t.Dataset, t.Samples = name, o.Out, "", o.Dataset, samplesDir
		switch {
		case needsPack(name):
			t.Pack, t.Dataset, t.Samples, t.Topology = packDir, "", "", topology.Choice{Level: topology.Mapped}
		case o.Live:
			t.Samples, t.Fanout = "", sampler.FormatFanout(o.Sampling.Fanout)
			t.BatchSize, t.EvalFanout, t.SampleSeed = o.Sampling.BatchSize, o.Sampling.EvalFanout, t.Seed
			t.Recipe.EnsureDefaults()
		}
		if err := t.Validate(); err != nil {
			return err
		}
	}
	if o.Samples != "" {
		return nil
	}
	s := o.Sampling
	s.Dataset, s.Out, s.Memory = o.Dataset, filepath.Join(o.Out, samplesDir), o.Train.Memory
	return s.Validate()
}

// samplingArgs returns the command that draws the samples.
func (o *Options) samplingArgs(out string) []string {
	s := &o.Sampling
	return []string{"presample", "--dataset", o.Dataset, "--out", out, "--batch-size", strconv.Itoa(s.BatchSize),
		"--fanout", sampler.FormatFanout(s.Fanout), "--eval-fanout", s.EvalFanout, "--epochs", strconv.Itoa(s.Epochs),
		"--seed", fmt.Sprint(o.Train.Seed), "--memory", bytes(o.Train.Memory)}
}

func (v *variant) packArgs() []string {
	args := []string{"pack", "--dataset", v.o.Dataset, "--samples", v.samples, "--out", v.pack, "--io", v.o.Train.IO, "--memory", bytes(v.o.Train.Memory)}
	if v.bare {
		args = append(args, "--cache", "0%")
	}
	return args
}

// trainArgs returns the command that trains with a store. It replaces a run that did not
// finish.
func (r *row) trainArgs(out string) []string {
	o, s := &r.of.o, &r.of.o.Sampling
	args := []string{"train", "--store", r.store, "--out", out, "--force"}
	switch {
	case r.packed:
		args = append(args, "--pack", r.of.pack)
	case o.Live:
		args = append(args, "--dataset", o.Dataset, "--fanout", sampler.FormatFanout(s.Fanout), "--batch-size", strconv.Itoa(s.BatchSize),
			"--eval-fanout", s.EvalFanout, "--sample-seed", fmt.Sprint(o.Train.Seed))
		if c := &o.Train.Topology; c.Level != topology.Mapped {
			args = append(args, "--topology", c.Level)
			if c.Memory != nil {
				args = append(args, "--topology-memory", c.Memory.String())
			}
		}
	default:
		args = append(args, "--dataset", o.Dataset, "--samples", r.of.samples)
	}
	return append(args, o.trainingArgs()...)
}

// trainingArgs returns the flags that are the same for all stores.
func (o *Options) trainingArgs() []string {
	t := &o.Train
	args := []string{"--model", t.Model, "--hidden", strconv.Itoa(t.Hidden), "--epochs", strconv.Itoa(t.Epochs), "--seed", fmt.Sprint(t.Seed),
		"--memory", bytes(t.Memory), "--threads", strconv.Itoa(t.Threads), "--engine", t.Engine, "--io", t.IO}
	if t.BLAS != blas.Auto {
		args = append(args, "--blas", t.BLAS)
	}
	if t.GPUMemory > 0 {
		args = append(args, "--gpu-memory", bytes(t.GPUMemory))
	}
	if t.Slots > 0 {
		args = append(args, "--slots", strconv.Itoa(t.Slots))
	}
	if t.GPUCache != nil {
		args = append(args, "--gpu-cache", t.GPUCache.String())
	}
	if t.RAMCache != nil {
		args = append(args, "--ram-cache", t.RAMCache.String())
	}
	return args
}

// bytes writes a size as flags take it.
func bytes(n int64) string { return fmt.Sprintf("%dB", n) }
