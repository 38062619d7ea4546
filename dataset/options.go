package dataset

import (
	"math"
	"runtime"

	"diskgnn/graph"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// GenerateOptions are the parameters of a generated graph. The zero value of a field stands for the
// default in brackets.
type GenerateOptions struct {
	Nodes      int64      // [100000]
	AvgDegree  float64    // stored directed edges per node [15]
	Dim        int        // elements of a feature row [128]
	Classes    int        // at least 2 [32]
	DType      dtype.Type // float32, float16 or bfloat16 [float32]
	Seed       uint64
	TrainRatio float64 // share of the nodes to train on; a fifth of it each validates and tests [0.01]
	Compress   bool    // the features
	MultiLabel bool    // nodes have any number of classes
	Resources
}

// Resources are the limits of a stage. None of them changes a byte of the output.
type Resources struct {
	Workers int   // goroutines that compute [one per core]
	Memory  int64 // bytes of anonymous memory [budget.Default]
	Force   bool  // replace an output that was made with other parameters
}

// EnsureDefaults sets the fields that are zero to their defaults.
func (r *Resources) EnsureDefaults() {
	if r.Workers == 0 {
		r.Workers = runtime.GOMAXPROCS(0)
	}
	if r.Memory == 0 {
		r.Memory, _ = budget.Default()
	}
}

// Validate returns an error of kind fault.ErrUsage that names the first flag with an invalid value, or
// nil.
func (r *Resources) Validate() error {
	if r.Workers < 1 {
		return fault.New(fault.ErrUsage, "--workers %d: needs at least 1", r.Workers)
	}
	if r.Memory < 1 {
		return fault.New(fault.ErrUsage, "--memory %d: needs more than 0 bytes", r.Memory)
	}
	return nil
}

// EnsureDefaults sets the fields that are zero to their defaults.
func (o *GenerateOptions) EnsureDefaults() {
	if o.Nodes == 0 {
		o.Nodes = 100_000
	}
	if o.AvgDegree == 0 {
		o.AvgDegree = 15
	}
	if o.Dim == 0 {
		o.Dim = 128
	}
	if o.Classes == 0 {
		o.Classes = 32
	}
	if o.DType == "" {
		o.DType = dtype.Float32
	}
	if o.TrainRatio == 0 {
		o.TrainRatio = 0.01
	}
	o.Resources.EnsureDefaults()
}

// Validate returns an error of kind fault.ErrUsage that names the first flag with an invalid value, or
// nil.
func (o *GenerateOptions) Validate() error {
	bad := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	switch {
	case o.Nodes > graph.MaxNodes:
		return bad("--nodes %d: this version has 32-bit node ids, for at most %d nodes", o.Nodes, int64(graph.MaxNodes))
	case o.Nodes < leastNodes:
		return bad("--nodes %d: needs at least %d", o.Nodes, leastNodes)
	case !(o.AvgDegree > 0) || o.AvgDegree > float64(o.Nodes-1)/4:
		return bad("--avg-degree %g: needs more than 0 and at most a quarter of the nodes (%d)", o.AvgDegree, o.Nodes)
	case o.Dim < 1 || o.Dim > MaxDim:
		return bad("--dim %d: needs 1 to %d", o.Dim, MaxDim)
	case o.Classes < 2 || int64(o.Classes) > o.Nodes/2:
		return bad("--classes %d: needs at least 2, and at least 2 nodes for each", o.Classes)
	case o.MultiLabel && o.Classes > MaxTargets:
		return bad("--classes %d: a --multi-label graph has at most %d classes", o.Classes, MaxTargets)
	case !FeatureType(o.DType):
		return bad("--dtype %s: features are float32, float16 or bfloat16", o.DType)
	case !(o.TrainRatio > 0 && o.TrainRatio < 1):
		return bad("--train-ratio %g: needs a share of the nodes between 0 and 1", o.TrainRatio)
	}
	return o.Resources.Validate()
}

// leastNodes leaves every split a node.
const leastNodes = 8

// leastSplit is the least that a split should hold, so that small graphs can be
// trained and scored at all.
const leastSplit = 32

// splits returns the sizes of the three splits: TrainRatio of the nodes for training, and a fifth of
// that each for validation and test, but at least leastSplit, or an eighth of the nodes of small
// graphs. If the nodes that are left do not suffice, validation and test divide them.
func (o *GenerateOptions) splits() (train, valid, test int64) {
	least := min(leastSplit, o.Nodes/8)
	train = min(max(int64(math.Round(o.TrainRatio*float64(o.Nodes))), least), o.Nodes-2*least)
	valid = max(int64(math.Round(o.TrainRatio/5*float64(o.Nodes))), least)
	valid = min(valid, (o.Nodes-train)/2)
	return train, valid, valid
}
