package model

import (
	"math"

	"diskgnn/internal/fault"
)

// GAT is the graph attention network (Veličković et al. 2018, as PyTorch Geometric's
// GATConv computes it). Of several heads, each weighs a destination's sampled
// neighbours and the destination itself by a softmax over them:
//
//	h = x·W        weight = softmax(leaky(asrc·h of the source + adst·h of the destination))
//	Σ weight · h, the heads side by side, in the last layer their mean,  + b
//
// Edges from a destination to itself, however many were sampled, count as one.
const GAT Kind = "gat"

// MaxHeads bounds what is counted from heads.
const MaxHeads = 1024

// LeakySlope is what GAT's leaky ReLU multiplies negative scores by.
const LeakySlope = 0.2

// HeadWidth returns the width of one of GAT's heads in layer l.
func (m *Model) HeadWidth(l int) int {
	if l == m.Layers()-1 {
		return m.Out(l)
	}
	return m.Out(l) / m.Heads
}

// gatParams returns the parameters of layer l's convolution: weights, then vectors.
// W has a column block for every head, and the attention vectors have as many parts.
func (m *Model) gatParams(l int) (weights, vectors []Param) {
	in, part := m.In(l), m.HeadWidth(l)
	width := m.Heads * part
	attention := func(name string, r Role) Param {
		p := vector(numbered("convs", l, name), l, r, width, 0, math.Sqrt(6/float64(m.Heads+part)))
		p.Shape = []int{1, m.Heads, part}
		return p
	}
	weights = []Param{matrix(numbered("convs", l, "lin.weight"), l, Neighbour, in, width, math.Sqrt(6/float64(in+width)))}
	vectors = []Param{
		attention("att_src", AttentionSrc),
		attention("att_dst", AttentionDst),
		vector(numbered("convs", l, "bias"), l, Bias, m.Out(l), 0, 0),
	}
	return weights, vectors
}

// Unit returns the activation of the hidden layers: where it is left open ELU for GAT,
// else ReLU.
func (m *Model) Unit() Activation {
	switch {
	case m.Activation != "":
		return m.Activation
	case m.Kind == GAT:
		return ELU
	}
	return ReLU
}

func (m *Model) validateGAT() error {
	switch {
	case m.Kind != GAT && m.Heads != 0:
		return fault.New(fault.ErrUsage, "model: heads are for %s, not %s", GAT, m.Kind)
	case m.Kind != GAT:
		return nil
	case m.Heads < 1 || m.Heads > MaxHeads:
		return fault.New(fault.ErrUsage, "model: %d heads (1 to %d)", m.Heads, MaxHeads)
	}
	for l := range m.Layers() - 1 {
		if m.Out(l)%m.Heads != 0 {
			return fault.New(fault.ErrUsage, "model: a hidden width of %d for %d heads, which do not divide it", m.Out(l), m.Heads)
		}
	}
	return nil
}
