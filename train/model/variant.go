package model

import (
	"slices"

	"diskgnn/internal/fault"
)

// Norm is the normalisation between a hidden layer's sums and its activation.
type Norm string

const (
	NoNorm Norm = "none"
	// BatchNorm normalises every column over the batch's destinations, and keeps
	// running statistics for evaluation, as PyTorch's BatchNorm1d.
	BatchNorm Norm = "batch"
	// LayerNorm normalises every row, as PyTorch's LayerNorm.
	LayerNorm Norm = "layer"
)

// PyTorch's defaults.
const (
	NormEpsilon   = 1e-5 // what norms add to a variance
	TrackMomentum = 0.1  // share of the newest batch in batch norm's running statistics
)

// Activation is the function after a hidden layer's sums.
type Activation string

const (
	ReLU Activation = "relu"
	ELU  Activation = "elu" // x, or exp(x) − 1 where x is negative
)

// Aggregator says what SAGE takes of a destination's sampled neighbours.
type Aggregator string

const (
	Mean Aggregator = "mean"
	Sum  Aggregator = "sum"
	// Max is the largest value of every column; the first of equals has the
	// gradient. It does not commute with linear maps, so there is one order.
	Max Aggregator = "max"
)

// GCNNorm says by which degrees GCN weighs the edge from s to d.
type GCNNorm string

const (
	// GraphNorm takes the degrees in the whole graph: 1/√((deg s + 1)(deg d + 1)),
	// for a neighbour times the destination's degree over the number of its sampled
	// edges, so that the sum over a sample estimates the sum over all neighbours
	// without bias.
	GraphNorm GCNNorm = "graph"
	// BlockNorm takes the degrees in the block, self-loops counted: of s as a
	// source, of d as a destination. Inference over the whole graph takes the graph for
	// the block, in every layer: what it gives is what a batch of all nodes with all of
	// their edges gives, and no range of it shows.
	BlockNorm GCNNorm = "block"
)

// Names that are known, defaults first.
var (
	Norms       = []Norm{NoNorm, BatchNorm, LayerNorm}
	Activations = []Activation{ReLU, ELU}
	Aggregators = []Aggregator{Mean, Sum, Max}
	GCNNorms    = []GCNNorm{GraphNorm, BlockNorm}
)

// These bound what is counted from widths and layers, so that no count overflows. Batches
// have at most as many layers.
const (
	maxWidth  = 1 << 24
	maxLayers = 64
)

func (m *Model) validateVariant() error {
	switch {
	case !known(m.Norm, Norms):
		return unknown("norm", m.Norm, Norms)
	case !known(m.Activation, Activations):
		return unknown("activation", m.Activation, Activations)
	case !known(m.Aggregator, Aggregators):
		return unknown("aggregator", m.Aggregator, Aggregators)
	case !known(m.GCNNorm, GCNNorms):
		return unknown("gcn norm", m.GCNNorm, GCNNorms)
	case m.InputProjection < 0 || m.InputProjection > maxWidth:
		return fault.New(fault.ErrUsage, "model: an input projection of width %d", m.InputProjection)
	case !m.Commutes() && slices.Contains(m.Orders, Multiply):
		return fault.New(fault.ErrUsage, "model: aggregator %s cannot multiply first", m.Aggregator)
	}
	return m.validateOptions()
}

// known tells whether a name is in the list, or left open.
func known[T ~string](name T, list []T) bool { return name == "" || slices.Contains(list, name) }

// Commutes tells whether a layer's aggregation commutes with linear maps, so that
// there is a choice between both orders of operations.
func (m *Model) Commutes() bool { return m.Aggregator != Max }

// CountsBlocks tells whether the weight of an edge follows from the other edges in its
// block.
func (m *Model) CountsBlocks() bool { return m.GCNNorm == BlockNorm }

// HasNorm tells whether layer l's sums are normalised.
func (m *Model) HasNorm(l int) bool {
	return l >= 0 && l < m.Layers()-1 && m.Norm != "" && m.Norm != NoNorm
}

// Loss names what training makes small. A seed node without a label has neither loss
// nor gradient.
type Loss string

const (
	// CrossEntropy is the mean over the labelled seed nodes of the softmax
	// cross-entropy, in nats: of one class per node, smoothed where the recipe says so.
	CrossEntropy Loss = "cross-entropy"
	// Binary is the mean over the labelled seed nodes and all classes of the binary
	// cross-entropy of the logits' sigmoids: any number of classes per node, which the
	// batch's Targets name, or, where it has none, the class of its label.
	Binary Loss = "binary"
)

// Terms counts the terms of the loss of so many labelled seed nodes: one each or, of Binary, one
// for every class.
func (l Loss) Terms(labelled int64, classes int) int64 {
	if l == Binary {
		return labelled * int64(classes)
	}
	return labelled
}

// Validate checks the loss, and with it the share of a label that is spread over all
// classes.
func (l Loss) Validate(smoothing float64) error {
	switch {
	case l != CrossEntropy && l != Binary:
		return fault.New(fault.ErrUsage, "model: unknown loss %q (known: %s, %s)", l, CrossEntropy, Binary)
	case !(smoothing >= 0 && smoothing < 1):
		return fault.New(fault.ErrUsage, "model: label smoothing %v is not in [0, 1)", smoothing)
	case smoothing > 0 && l != CrossEntropy:
		return fault.New(fault.ErrUsage, "model: label smoothing is for %s, not %s", CrossEntropy, l)
	}
	return nil
}
