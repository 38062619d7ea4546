package packed

import (
	"slices"

	"diskgnn/featurestore"
	"diskgnn/pack/packfile"
)

// Facts returns a pack's counts as runs know them.
func Facts(r *packfile.Reader) *featurestore.Facts {
	f, ix := r.Facts(), r.Index()
	facts := &featurestore.Facts{
		Nodes: f.Nodes, Dim: f.Dim, DType: f.DType, RowBytes: f.RowBytes, Classes: f.Classes, TargetBytes: f.TargetBytes, Metric: f.Metric,
		Train: f.Train, Valid: f.Valid, Test: f.Test, Epochs: f.Epochs, BatchesPerEpoch: f.BatchesPerEpoch,
		Fanout: f.Fanout, EvalFanout: f.EvalFanout, TrainSizes: f.TrainSizes, TrainMeans: f.TrainMeans, EvalSizes: f.EvalSizes,
	}
	for epoch := range slices.Chunk(ix.Train, max(1, f.BatchesPerEpoch)) {
		n := int64(0)
		for i := range epoch {
			n += int64(epoch[i].Seeds)
		}
		facts.EpochSeeds = max(facts.EpochSeeds, n)
	}
	for _, list := range [][]packfile.Eval{ix.Valid, ix.Test} {
		n := int64(0)
		for i := range list {
			n += int64(list[i].Seeds)
		}
		facts.EvalSeeds = max(facts.EvalSeeds, n)
	}
	return facts
}
