package dataset

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"

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
	Types      int     // node types [1]
	// Featureless is the number of types without features, the last ones.
	Featureless int
	Fill        string // FillMean to give these types features, or ""
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
	if o.Types == 0 {
		o.Types = 1
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
	case o.Types < 1 || o.Types > mostTypes:
		return bad("--types %d: needs 1 to %d", o.Types, mostTypes)
	case o.Types > 1 && o.leastOfTypes() < int64(max(2*o.Classes, leastNodes)):
		return bad("--types %d: the smallest type has %d of %d nodes, and needs at least 2 for each class and %d in all", o.Types, o.leastOfTypes(), o.Nodes, leastNodes)
	case o.Types > 1 && o.AvgDegree > float64(o.leastOfTypes()-1)/4:
		return bad("--avg-degree %g: needs at most a quarter of the nodes of the smallest type (%d)", o.AvgDegree, o.leastOfTypes())
	case o.Featureless < 0 || o.Featureless >= o.Types:
		return bad("--featureless %d: one of %d types at least has features", o.Featureless, o.Types)
	case o.Fill != "" && o.Fill != FillMean:
		return bad("--fill %s: known is %s", o.Fill, FillMean)
	case o.Fill != "" && o.Featureless == 0:
		return bad("--fill %s: without --featureless, all types have features", o.Fill)
	case o.Types > 1 && o.MultiLabel:
		return bad("--types %d: a graph with types is not --multi-label", o.Types)
	case !(o.TrainRatio > 0 && o.TrainRatio < 1):
		return bad("--train-ratio %g: needs a share of the nodes between 0 and 1", o.TrainRatio)
	}
	return o.Resources.Validate()
}

// mostTypes is the largest number of generated types.
const mostTypes = 8

// types returns the node types and relations, or nil for one of each. The first type has half of the nodes and the
// labels, each other type half of the nodes that are left, and the last one all of them. The first leads to
// itself, and each to the next and back.
func (o *GenerateOptions) types() *graph.Types {
	if o.Types == 1 {
		return nil
	}
	t, left := new(graph.Types), o.Nodes
	name := func(i int) string { return fmt.Sprintf("type%d", i) }
	for i := range o.Types {
		n := left
		if i < o.Types-1 {
			n = left / 2
		}
		left -= n
		t.Nodes = append(t.Nodes, graph.NodeType{Name: name(i), Count: n, Features: i < o.Types-o.Featureless})
		for _, from := range []int{i - 1, i, i + 1} {
			if from >= 0 && from < o.Types && (from != i || i == 0) {
				t.Relations = append(t.Relations, graph.Relation{Source: from, Name: "to", Destination: i})
			}
		}
	}
	return t
}

// leastOfTypes returns the number of nodes of the smallest type. There are several.
func (o *GenerateOptions) leastOfTypes() int64 {
	nodes := o.types().Nodes
	return slices.MinFunc(nodes, func(a, b graph.NodeType) int { return cmp.Compare(a.Count, b.Count) }).Count
}

func (o *GenerateOptions) form() Form { return Form{Compressed: o.Compress, Typed: o.Types > 1} }

// leastNodes leaves every split a node.
const leastNodes = 8

// leastSplit is the least that a split should hold, so that small graphs can be
// trained and scored at all.
const leastSplit = 32

// splits returns the sizes of the three splits: TrainRatio of the nodes for training, and a fifth of
// that each for validation and test, but at least leastSplit, or an eighth of the nodes of small
// graphs. If the nodes that are left do not suffice, validation and test divide them.
func (o *GenerateOptions) splits() (train, valid, test int64) {
	nodes := o.Nodes
	if t := o.types(); t != nil {
		nodes = t.Nodes[0].Count
	}
	least := min(leastSplit, nodes/8)
	train = min(max(int64(math.Round(o.TrainRatio*float64(nodes))), least), nodes-2*least)
	valid = max(int64(math.Round(o.TrainRatio/5*float64(nodes))), least)
	valid = min(valid, (nodes-train)/2)
	return train, valid, valid
}
