package comparison

import (
	"cmp"
	"slices"

	"diskgnn/featurestore/stores"
	"diskgnn/internal/driverate"
	"diskgnn/presample"
	"diskgnn/train"
)

const (
	samplesDir = "samples"
	packDir    = "pack"
)

// Options describe a comparison. Start from Defaults.
type Options struct {
	Dataset string // directory
	Samples string // directory; "": they are drawn as Sampling says
	Out     string // directory of the comparison; its parent exists

	// Stores are names of stores of Train.Stores; nil: all that take any samples.
	Stores []string
	Rounds int // runs of each store, in turn; 0 means 2
	// Ablations are removals of parts from every store, each for more runs: names of Ablations,
	// joined by "+" if removed together.
	Ablations []string
	// Live makes stores draw batches while training, fresh ones every epoch. A store that needs a
	// pack trains on the same batches: samples of all epochs are drawn for it, as a part of
	// preparing it.
	Live bool
	// Sampling has the parameters of batches; its directories, Seed and Memory are set from the
	// other options, and with Live its Epochs.
	Sampling presample.Options
	// Train has the training options of every store. Its directories and Store are ignored; its Stores are the
	// stores to choose from.
	Train train.Options
	// DriveSeconds is the time of measuring large reads; 0 means driverate.Limited's.
	DriveSeconds float64
}

// Defaults returns the options of a comparison of the given stores, without any flag.
func Defaults(list stores.List) Options {
	o := Options{Train: train.Defaults()}
	o.Train.Stores = list
	o.EnsureDefaults()
	return o
}

// EnsureDefaults replaces zero values that mean a default.
func (o *Options) EnsureDefaults() {
	if o.Stores == nil {
		o.Stores = slices.DeleteFunc(o.names(), func(n string) bool { return o.Train.Stores.Design(n).OwnSamples })
	}
	o.Rounds = cmp.Or(o.Rounds, 2)
	o.DriveSeconds = cmp.Or(o.DriveSeconds, driverate.Limited.For.Seconds())
	o.Train.EnsureDefaults()
	o.Sampling.EnsureDefaults()
	if o.Live {
		o.Sampling.Epochs = o.Train.Epochs
	}
}

// names returns the names of the stores to choose from.
func (o *Options) names() []string { return o.Train.Stores.Names()[1:] }

func (o *Options) needsPack(store string) bool { return o.Train.Stores.Design(store).Find != nil }

// readsRows reports whether a store reads single rows of a DATASET, or parts of them, and compares checksums.
func (o *Options) readsRows(store string) bool {
	d := o.Train.Stores.Design(store)
	return d.Find == nil && !d.HoldsAll && !d.Maps
}
