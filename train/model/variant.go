package model

import "diskgnn/internal/fault"

// Kind names an architecture: the function of a layer, of the features x of a block's sources.
type Kind string

const (
	// SAGE is GraphSAGE (Hamilton et al. 2017, as PyTorch Geometric's SAGEConv
	// computes it), with the neighbours' mean, sum or maximum:
	//
	//	mean of x over the sampled neighbours · Wneigh + x of the destination · Wself + b
	//
	// A destination without neighbours has mean zero.
	SAGE Kind = "sage"
	// GCN is the graph convolution (Kipf and Welling 2017): neighbours and the destination itself,
	// weighted by their degrees as GCNNorm says:
	//
	//	(Σ weight · x over the sampled neighbours + weight · x of the destination) · W + b
	//
	// The destination's own term is a self-loop beside the stored ones, which count as neighbours.
	// PyTorch Geometric's GCNConv adds a self-loop only at nodes without a stored one: both compute
	// the same on a graph without stored self-loops.
	GCN Kind = "gcn"
	// GAT is the graph attention network (Veličković et al. 2018, as PyTorch Geometric's
	// GATConv computes it). Of several heads, each weighs a destination's sampled
	// neighbours and the destination itself by a softmax over them:
	//
	//	h = x·W        weight = softmax(leaky(asrc·h of the source + adst·h of the destination))
	//	Σ weight · h, the heads side by side, in the last layer their mean,  + b
	//
	// Every destination has exactly one self-loop, which replaces the sampled ones.
	GAT Kind = "gat"
	// RSAGE is GraphSAGE by relation (PyTorch Geometric's HeteroConv, which sums SAGEConvs): over the relations
	// that lead to the destination's type,
	//
	//	Σ mean of x over the neighbours by relation r · Wneigh_r + x of the destination · Wself_r + b_r
	//
	// A destination without neighbours by a relation has mean zero. A type that no relation leads to has no
	// output: see Model.Alive.
	RSAGE Kind = "rsage"
	// RGCN is the relational graph convolution (Schlichtkrull et al. 2018, as PyTorch Geometric's RGCNConv
	// computes it):
	//
	//	x of the destination · Wroot + b + Σ mean of x over the neighbours by relation r · W_r
	//
	// where W_r are matrices of their own or, with bases, sums of common matrices B: Σ comp_rb · B_b.
	RGCN Kind = "rgcn"
	// RGAT is graph attention by relation (PyTorch Geometric's HeteroConv, which sums GATConvs without self-loops): over the
	// relations that lead to the destination's type,
	//
	//	h = x·W_r        weight = softmax(leaky(asrc_r·h of the source + adst_r·h of the destination))
	//	Σ (Σ weight · h over the neighbours by relation r, the heads side by side, in the last layer their mean, + b_r)
	//
	// Each softmax is over the neighbours by one relation. The destination's own features are in the scores alone. Types
	// have outputs as in RSAGE.
	RGAT Kind = "rgat"
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
	NormEpsilon   = 1e-5 // the addition to a variance
	TrackMomentum = 0.1  // share of the newest batch in batch norm's running statistics
)

// Activation is the function after a hidden layer's sums.
type Activation string

const (
	ReLU Activation = "relu"
	ELU  Activation = "elu" // x, or exp(x) − 1 where x is negative
)

// Aggregator is SAGE's function of a destination's sampled neighbours.
type Aggregator string

const (
	Mean Aggregator = "mean"
	Sum  Aggregator = "sum"
	// Max is the largest value of every column; the first of equals has the
	// gradient. It does not commute with linear maps, so there is one order.
	Max Aggregator = "max"
)

// GCNNorm chooses the degrees by which GCN weighs the edge from s to d.
type GCNNorm string

const (
	// GraphNorm takes the degrees in the whole graph: 1/√((deg s + 1)(deg d + 1)),
	// for a neighbour times the destination's degree over the number of its sampled
	// edges, so that the sum over a sample estimates the sum over all neighbours
	// without bias.
	GraphNorm GCNNorm = "graph"
	// BlockNorm takes the degrees in the block, self-loops counted: of s as a source, of d as a
	// destination. Inference over the whole graph treats the graph as the block, in every layer:
	// its results equal the results of a batch of all nodes with all edges, and do not depend on
	// its ranges.
	BlockNorm GCNNorm = "block"
)

// Names that are known, defaults first.
var (
	Norms       = []Norm{NoNorm, BatchNorm, LayerNorm}
	Activations = []Activation{ReLU, ELU}
	Aggregators = []Aggregator{Mean, Sum, Max}
	GCNNorms    = []GCNNorm{GraphNorm, BlockNorm}
)

// Loss is the function that training minimises. A seed node without a label has neither loss nor
// gradient.
type Loss string

const (
	// CrossEntropy is the mean over the labelled seed nodes of the softmax
	// cross-entropy, in nats: of one class per node, smoothed where the recipe says so.
	CrossEntropy Loss = "cross-entropy"
	// Binary is the mean over the labelled seed nodes and all classes of the binary cross-entropy
	// of the logits' sigmoids: any number of classes per node, given by the batch's Targets or,
	// without them, by the class of its label.
	Binary Loss = "binary"
)

// Terms counts the terms of the loss of labelled seed nodes: one each, or for Binary one for every
// class.
func (l Loss) Terms(labelled int64, classes int) int64 {
	if l == Binary {
		return labelled * int64(classes)
	}
	return labelled
}

// Validate checks the loss together with smoothing, the share of a label that is spread over all
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
