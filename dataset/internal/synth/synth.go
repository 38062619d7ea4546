// Package synth is a random graph as a function: every node's neighbours, label, split and features
// follow from the parameters and the node's id alone, so that any worker can make any part of it, in
// any order, holding nothing of the rest.
//
// # Topology
//
// A keyed permutation gives every node a position; positions are cut into one community per class, and
// a node's rank inside its community decides its expected degree: a Pareto law of exponent 2.2, cut off
// where two hubs would have more than one edge to share (the structural cutoff √(degree · nodes)). A
// node's degree is the number of in-neighbours that it draws, distinct and other than itself, 80 % of
// them in its community, each in proportion to the source's expected degree; so in- and out-degrees
// follow one law and belong to the same hubs.
//
// # Labels and features
//
// A node's features are its community's mean plus Gaussian noise of variance 1 per element; the means
// are Gaussian vectors, scaled so that the best classifier of features alone reaches FeaturesTarget. A
// node's label is its community's, but for LabelNoise of the nodes, which have any other: nothing can
// predict these, so that no model scores more than about 1−LabelNoise, however well it uses the
// neighbourhood.
//
// Of a multi-label graph, a node's classes are its label, most of the label's companions, which are a
// few classes fixed for every label, and now and then one more: features that predict the label predict
// the classes.
package synth

import (
	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
)

const (
	// Exponent is the exponent of the degree distribution: P(degree) ~ degree^-Exponent.
	Exponent = 2.2
	// Inside is the share of edges that stay inside a community.
	Inside = 0.8
	// LabelNoise is the share of nodes with another label than their community's.
	LabelNoise = 0.12
)

// Params decide the graph.
type Params struct {
	Nodes              int64
	AvgDegree          float64 // directed edges per node
	Dim, Classes       int
	Seed               uint64
	Train, Valid, Test int64 // sizes of the splits
}

// Split is the part that a node plays.
type Split uint8

// The splits; most nodes are in none.
const (
	None Split = iota
	Train
	Valid
	Test
)

// Purposes of the random streams: a part of their keys.
const (
	keyPosition uint64 = iota
	keySplit
	keyEdges
	keyLabel
	keyFeatures
	keyMeans
	keyCalibrate
	keyCompanions
	keyClasses
	keyType
)

// Model is the graph. Its methods are safe for concurrent use.
type Model struct {
	p        Params
	position permutation // node → position
	order    permutation // node → place in the order that the splits are cut from
	law      law
	means    []float32 // Classes × Dim
}

// New prepares a graph: about a second's work at most, and memory for one row
// per class.
func New(p Params) (*Model, error) {
	m := &Model{
		p:        p,
		position: newPermutation(uint64(p.Nodes), rng.Key(p.Seed, keyPosition)),
		order:    newPermutation(uint64(p.Nodes), rng.Key(p.Seed, keySplit)),
	}
	var err error
	if m.law, err = newLaw(p.Nodes, p.AvgDegree); err != nil {
		return nil, err
	}
	m.means = calibratedMeans(p.Seed, p.Dim, p.Classes)
	return m, nil
}

// check refuses parameters that no graph satisfies.
func check(nodes int64, avgDegree float64) error {
	if !(avgDegree >= 0) || avgDegree > float64(nodes-1)/4 {
		return fault.New(fault.ErrUsage, "--avg-degree %g: needs at least 0 and at most a quarter of the nodes (%d)", avgDegree, nodes)
	}
	return nil
}

// community is a range of positions.
type community struct{ first, size int64 }

// community returns community c. The sizes of communities differ by one at most.
func (m *Model) community(c int64) community {
	n, k := m.p.Nodes, int64(m.p.Classes)
	size, longer := n/k, n%k // the first `longer` communities have one more
	if c < longer {
		return community{c * (size + 1), size + 1}
	}
	return community{c*size + longer, size}
}

// locate returns a node's community and its rank in it.
func (m *Model) locate(v uint32) (c, rank int64) {
	pos := int64(m.position.forward(uint64(v)))
	n, k := m.p.Nodes, int64(m.p.Classes)
	size, longer := n/k, n%k
	if head := longer * (size + 1); pos >= head {
		c = longer + (pos-head)/size
	} else {
		c = pos / (size + 1)
	}
	return c, pos - m.community(c).first
}

// Community returns the class of a node's community.
func (m *Model) Community(v uint32) int32 {
	c, _ := m.locate(v)
	return int32(c)
}

// Label returns a node's class.
func (m *Model) Label(v uint32) int32 {
	c := m.Community(v)
	src := rng.New(rng.Key(m.p.Seed, keyLabel, uint64(v)))
	if src.Float64() >= LabelNoise {
		return c
	}
	k := uint32(m.p.Classes)
	return int32((uint32(c) + 1 + src.Uint32n(k-1)) % k)
}

// Split returns the split that a node is in.
func (m *Model) Split(v uint32) Split {
	switch i := int64(m.order.forward(uint64(v))); {
	case i < m.p.Train:
		return Train
	case i < m.p.Train+m.p.Valid:
		return Valid
	case i < m.p.Train+m.p.Valid+m.p.Test:
		return Test
	}
	return None
}

const (
	// mostCompanions is how many classes a label has for companions, at most.
	mostCompanions = 3
	// companionShare is how often a node has a companion of its label.
	companionShare = 0.85
	// strayShare is how often a node has one more class, which neither its label nor its
	// neighbours predict.
	strayShare = 0.1
)

// Classes calls add with the classes of a node of a multi-label graph, of which some
// may come twice.
func (m *Model) Classes(v uint32, add func(class int32)) {
	label := m.Label(v)
	add(label)
	src := rng.New(rng.Key(m.p.Seed, keyClasses, uint64(v)))
	of := rng.New(rng.Key(m.p.Seed, keyCompanions, uint64(label)))
	k := uint32(m.p.Classes)
	for range 1 + of.Uint32n(mostCompanions) {
		c := of.Uint32n(k)
		if src.Float64() < companionShare {
			add(int32(c))
		}
	}
	if src.Float64() < strayShare {
		add(int32(src.Uint32n(k)))
	}
}
