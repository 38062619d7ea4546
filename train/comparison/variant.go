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

// ablation is a part that can be removed from every store, to measure its effect.
type ablation struct {
	name  string
	apply func(v *variant) error
}

// ablations lists all ablations.
var ablations = []ablation{
	{"no-pipeline", func(v *variant) error { v.o.Train.Slots = 1; return nil }},
	{"no-gpu-cache", func(v *variant) error {
		if e := v.o.Train.Engine; e == train.EngineCPU || e == train.EngineNone {
			return fmt.Errorf("--engine %s has no GPU cache", e)
		}
		v.o.Train.GPUCache = none()
		return nil
	}},
	{"no-ram-cache", func(v *variant) error { v.o.Train.RAMCache, v.bare = none(), true; return nil }},
	{"no-topology-cache", func(v *variant) error {
		if !v.o.Live {
			return errors.New("training reads a topology only with --live")
		}
		v.o.Train.Topology, v.drawn = topology.Choice{Level: topology.Cached, Memory: none()}, true
		return nil
	}},
	{"layers-2", func(v *variant) error { return v.layer(2) }},
	{"layers-3", func(v *variant) error { return v.layer(3) }},
}

// Ablations returns the names of the parts that can be removed.
func Ablations() []string {
	names := make([]string, len(ablations))
	for i, a := range ablations {
		names[i] = a.name
	}
	return names
}

func none() *budget.Size { return &budget.Size{Unit: budget.UnitPercent} }

// joint joins the names of parts that are removed together.
const joint = "+"

// variant is the options that every store trains with once in a round: as given, or with parts
// removed.
type variant struct {
	name   string // of the parts that are taken away; "": none
	o      Options
	layers int  // that its samples have; 0: as given
	bare   bool // its pack serves trainers without a cache
	drawn  bool // the removed part belongs to drawing, which stores with a pack do not do

	samples, pack string // directories; "" of samples: batches are drawn while training alone
	w             workload
	preparation   Preparation // of the pack
}

// layer sets the number of the samples' layers: the given fanouts nearest the seeds, or repetitions
// of the farthest one.
func (v *variant) layer(n int) error {
	switch {
	case v.layers > 0:
		return fmt.Errorf("layers-%d sets the number of layers already", v.layers)
	case v.o.Samples != "":
		return fmt.Errorf("the number of layers of --samples %s is fixed: leave --samples out", v.o.Samples)
	case len(v.o.Sampling.Fanout) == n:
		return fmt.Errorf("--fanout %s has %d layers already", sampler.FormatFanout(v.o.Sampling.Fanout), n)
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

// suffix distinguishes directories that not all variants share.
func (v *variant) suffix(bare bool) (s string) {
	if v.layers > 0 {
		s = fmt.Sprintf(".layers-%d", v.layers)
	}
	if bare {
		s += ".no-ram-cache"
	}
	return s
}

// row is the state of a store in a variant.
type row struct {
	store  string
	of     *variant
	packed bool // it needs a pack
	failed error
	runs   []*rundir.Result // finished, by round
}

// name is the row's name in directories and the table.
func (r *row) name() string { return rowName(r.store, r.of.name) }
