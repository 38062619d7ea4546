package decide

// Schedule assigns batches to a rank. Epoch e visits the batches of sample epoch e mod Sampled: in
// their order or, with Shuffle, in an order drawn from Seed. Accumulate successive batches make a
// step; an epoch's last step has the remaining ones. Rank r computes the r-th Accumulate/World
// successive batches of every step, with r from 0.
type Schedule struct {
	Epochs      int
	PerEpoch    int // batches
	Sampled     int // epochs of the store
	Shuffle     bool
	Seed        uint64
	Accumulate  int // batches of a step; a multiple of World
	Rank, World int
}

// Schedule returns the schedule of a rank of the run.
func (d *Decision) Schedule(rank int) Schedule {
	o, f := &d.Options, &d.Facts.Store
	return Schedule{Epochs: o.Epochs, PerEpoch: f.BatchesPerEpoch, Sampled: f.Epochs, Shuffle: o.ShuffleBatches, Seed: o.Seed,
		Accumulate: o.Accumulate, Rank: rank, World: o.Ranks}
}
