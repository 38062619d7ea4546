package recipe

import (
	"slices"
	"strings"

	"diskgnn/graph"
	"diskgnn/train/model"
)

// Data is the part of the training data's description that resolves a recipe.
type Data struct {
	Name         string // of the pack, samples or dataset, for errors
	Dim, Classes int    // of a node's features and labels
	MultiLabel   bool   // nodes have any number of the classes
	Metric       string // by which the dataset is usually judged; "" where none is known
	Layers       int    // one for every fanout sampled
	// Types are the node types of a typed graph, or nil, and SeedType is the type of its labelled nodes.
	Types    *graph.Types
	SeedType int
}

// Resolve replaces auto in the loss and the metric, and sets the layers' widths. Options that do not
// fit the labels are an error of kind fault.ErrUsage.
func (r *Recipe) Resolve(d Data) error {
	if r.Accumulate == 0 {
		r.Accumulate = 1
	}
	if r.Loss == LossAuto {
		if r.Loss = LossCrossEntropy; d.MultiLabel {
			r.Loss = LossBinary
		}
	}
	if r.Metric == MetricAuto {
		r.Metric = MetricAccuracy
		switch {
		case d.Metric == MetricAUC && (d.Classes == 2 || d.MultiLabel):
			r.Metric = MetricAUC
		case d.MultiLabel:
			r.Metric = MetricF1
		}
	}
	switch {
	case r.Loss == LossCrossEntropy && d.MultiLabel:
		return usage("--loss cross-entropy needs one class per node, but %s is multi-label: use --loss binary", d.Name)
	case r.Loss == LossBinary && r.LabelSmoothing > 0:
		return usage("--label-smoothing %v is for --loss cross-entropy, not binary", r.LabelSmoothing)
	case r.Metric == MetricAUC && d.Classes != 2 && !d.MultiLabel:
		return usage("--metric auc needs two classes, but %s has %d", d.Name, d.Classes)
	}
	if err := r.resolveTypes(&d); err != nil {
		return err
	}
	r.Dims = []int{d.Dim}
	for range d.Layers - 1 {
		r.Dims = append(r.Dims, r.Hidden)
	}
	r.Dims = append(r.Dims, d.Classes)
	return nil
}

// resolveTypes sets the types, which must be there if the model is for typed graphs, and only then.
func (r *Recipe) resolveTypes(d *Data) error {
	kind := model.Kind(r.Model)
	switch {
	case kind.Typed() && d.Types == nil:
		return usage("--model %s is for graphs with node types, but %s has none", kind, d.Name)
	case !kind.Typed() && d.Types != nil:
		return usage("--model %s: %s has %d node types, which %s have layers for", kind, d.Name, len(d.Types.Nodes), strings.Join(typedKinds(), ", "))
	}
	if r.Types = nil; d.Types != nil {
		r.Types = Types(d.Types, d.SeedType)
	}
	return nil
}

// typedKinds names the kinds of models for typed graphs.
func typedKinds() []string {
	return namesOf(slices.DeleteFunc(model.Kinds(), func(k model.Kind) bool { return !k.Typed() })...)
}

// Types describes the types of a graph to a model, for seed nodes of one type.
func Types(g *graph.Types, seed int) *model.Types {
	t := &model.Types{Seed: seed}
	for _, k := range g.Nodes {
		t.Nodes = append(t.Nodes, k.Name)
	}
	for _, k := range g.Relations {
		t.Relations = append(t.Relations, model.Relation(k))
	}
	return t
}

// Network returns the model of a resolved recipe.
func (r *Recipe) Network() model.Model {
	m := model.Model{Kind: model.Kind(r.Model), Dims: slices.Clone(r.Dims), Dropout: r.Dropout, Norm: model.Norm(r.Norm), Residual: r.Residual,
		Aggregator: model.Aggregator(r.Aggregator), GCNNorm: model.GCNNorm(r.GCNNorm), Heads: r.Heads, Bases: r.Bases, Types: r.Types}
	if r.Activation != ActivationAuto {
		m.Activation = model.Activation(r.Activation)
	}
	m.Activation = m.Unit()
	m.ClearOthers()
	if r.InputProjection {
		m.InputProjection = r.Hidden
	}
	if order, _ := model.ParseOrder(r.LayerOrder); order != model.Auto {
		m.Orders = slices.Repeat([]model.Order{order}, m.Layers())
	}
	return m
}
