package comparison

import (
	"errors"
	"fmt"
	"slices"

	"diskgnn/internal/budget"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train"
	"diskgnn/train/rundir"
)

// ablation is a part that can be taken away from every store, to see what it brings.
type ablation struct {
	name  string
	apply func(v *variant) error
}

// ablations are all of them.
var ablations = []ablation{
	{"no-pipeline", func(v *variant) error { v.o.Train.Slots = 1; return nil }},
	{"no-gpu-cache", func(v *variant) error {
		if e := v.o.Train.Engine; e == train.EngineCPU || e == train.EngineNone {
			return fmt.Errorf("with --engine %s there is none", e)
		}
		v.o.Train.GPUCache = none()
		return nil
	}},
	{"no-ram-cache", func(v *variant) error { v.o.Train.RAMCache, v.bare = none(), true; return nil }},
	{"no-topology-cache", func(v *variant) error {
		if !v.o.Live {
			return errors.New("only with --live is a topology read while training")
		}
		v.o.Train.Topology, v.drawn = topology.Choice{Level: topology.Cached, Memory: none()}, true
		return nil
	}},
	{"layers-2", func(v *variant) error { return v.layer(2) }},
	{"layers-3", func(v *variant) error { return v.layer(3) }},
}

// Ablations returns the names of the parts that can be taken away.
func Ablations() []string {
	names := make([]string, len(ablations))
	for i, a := range ablations {
		names[i] = a.name
	}
	return names
}

func none() *budget.Size { return &budget.Size{Unit: budget.UnitPercent} }

// joint is what joins the names of parts that are taken away together.
const joint = "+"

// variant is what every store trains with once in a round: the options as they were given,
// or parts taken away.
type variant struct {
	name   string // of the parts that are taken away; "": none
	o      Options
	layers int  // that its samples have; 0: as given
	bare   bool // its pack serves trainers without a cache
	drawn  bool // what is taken away is a part of drawing: a store that needs a pack has none

	samples, pack string // directories; "" of samples: batches are drawn while training alone
	w             workload
	preparation   Preparation // of the pack
}

// layer makes the samples have so many layers: the given fanouts nearest the seeds, or more
// of the one that is farthest.
func (v *variant) layer(n int) error {
	switch {
	case v.layers > 0:
		return fmt.Errorf("layers-%d is there too", v.layers)
	case v.o.Samples != "":
		return fmt.Errorf("%s has the layers that it has: leave --samples out", v.o.Samples)
	case len(v.o.Sampling.Fanout) == n:
		return fmt.Errorf("--fanout %s has %d layers", sampler.FormatFanout(v.o.Sampling.Fanout), n)
	}
	v.layers, v.o.Sampling.Fanout = n, layered(v.o.Sampling.Fanout, n)
	if eval, err := sampler.ParseFanout(v.o.Sampling.EvalFanout); err == nil && len(eval) > 1 {
		v.o.Sampling.EvalFanout = sampler.FormatFanout(layered(eval, n))
	}
	return nil
}

// layered returns the last n fanouts, the first of them repeated where there are fewer.
func layered(fanout []int, n int) []int {
	if more := n - len(fanout); more > 0 && len(fanout) > 0 {
		return append(slices.Repeat(fanout[:1], more), fanout...)
	}
	return fanout[max(0, len(fanout)-n):]
}

// suffix is what directories are named by that not all variants have in common.
func (v *variant) suffix(bare bool) (s string) {
	if v.layers > 0 {
		s = fmt.Sprintf(".layers-%d", v.layers)
	}
	if bare {
		s += ".no-ram-cache"
	}
	return s
}

// row is what is known of a store, of a variant.
type row struct {
	store  string
	of     *variant
	packed bool // it needs a pack
	failed error
	runs   []*rundir.Result // finished, by round
}

// name is what directories and the table have it by.
func (r *row) name() string { return rowName(r.store, r.of.name) }
