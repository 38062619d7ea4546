package train

import (
	"bytes"
	"math"
	"testing"

	"diskgnn/train/model"
	"diskgnn/train/rundir"
)

// Every kind of model and option trains, and where rows lie decides nothing, with an input
// projection neither; up to rounding, where sums run over the input nodes as a pack has
// them.
func TestModels(t *testing.T) {
	w := newWorld(t, worldParams{fanout: []int{3, 4}})
	packs := []string{w.pack(0), w.pack(30)}
	for _, c := range []struct {
		change func(o *Options)
		names  []string
		exact  bool
	}{
		{func(o *Options) { o.Model = "gcn" }, []string{"convs.0.lin.weight", "convs.1.bias"}, true},
		{func(o *Options) {
			o.Model, o.Norm, o.Residual, o.Optimizer, o.WeightDecay = "gcn", "batch", true, "adamw", 0.01
		}, []string{"lins.1.weight", "norms.0.running_var", "norms.0.weight"}, true},
		{func(o *Options) { o.Model, o.GCNNorm, o.InputProjection, o.Norm = "gcn", "block", true, "layer" }, []string{"lin_in.weight", "norms.0.bias"}, true},
		{func(o *Options) { o.InputProjection, o.LayerOrder = true, "multiply" }, []string{"lin_in.weight", "lin_in.bias"}, true},
		{func(o *Options) { o.Model, o.Heads, o.InputProjection, o.LayerOrder = "gat", 4, true, "multiply" }, []string{"lin_in.weight"}, true},
		{func(o *Options) { o.Model, o.Heads = "gat", 4 }, []string{"convs.0.lin.weight", "convs.0.att_src", "convs.1.att_dst", "convs.1.bias"}, true},
		{func(o *Options) { o.Model, o.Heads, o.LayerOrder = "gat", 4, "multiply" }, []string{"convs.0.lin.weight"}, false},
		{func(o *Options) { o.Aggregator, o.Activation, o.LabelSmoothing = "max", "elu", 0.1 }, []string{"convs.0.lin_r.weight"}, true},
	} {
		var first []float64
		var weights []byte
		for _, p := range packs {
			o := w.options(p, func(o *Options) { o.LayerOrder, o.Epochs = "aggregate", 4 }, c.change)
			r, losses := w.mustRun(o, nil)
			if r.Epochs[3].Loss >= r.Epochs[0].Loss || !r.TestAccuracy.Defined() {
				t.Errorf("%+v: the loss went from %v to %v, test score %v", o, r.Epochs[0].Loss, r.Epochs[3].Loss, r.TestAccuracy)
			}
			tensors := w.weights(o.Out, rundir.FinalFile)
			for _, name := range c.names {
				if len(tensors[name].Data) == 0 {
					t.Errorf("%s has no %s", rundir.FinalFile, name)
				}
			}
			network := state(t, o.Out).Params.Network
			if network.Kind != model.Kind(o.Model) || network.Residual != o.Residual || network.Validate() != nil {
				t.Errorf("the run holds %+v", network)
			}
			if first == nil {
				first, weights = losses, w.file(o.Out, rundir.FinalFile)
				continue
			}
			if c.exact && (!sameBits(first, losses) || !bytes.Equal(weights, w.file(o.Out, rundir.FinalFile))) || math.Abs(first[0]-losses[0]) > 1e-5 {
				t.Errorf("%v: losses %v, with another cache %v", c.names, first[:2], losses[:2])
			}
		}
	}
}
