package comparison

import (
	"cmp"
	"slices"

	stores "diskgnn/featurestore/all"
	"diskgnn/internal/driverate"
	"diskgnn/presample"
	"diskgnn/train"
)

const (
	samplesDir = "samples"
	packDir    = "pack"
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

func needsPack(store string) bool {
	_, err := stores.Choose(store, stores.Places{Pack: packDir})
	return err == nil
}
