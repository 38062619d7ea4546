package mbfile

import (
	"slices"

	"diskgnn/graph"
)

// Description has the parameters and statistics of a SAMPLES directory, as inspect shows them.
type Description struct {
	Params Params `json:"params"`
	Facts  Facts  `json:"facts"`
	// Touched is the number of nodes that are an input node of at least one training batch.
	Touched int64 `json:"touched_nodes"`
	// Curve has, for some numbers of the hottest nodes, the share of the training batches' input nodes
	// that they are.
	Curve []Hottest `json:"hotness"`
	// Types has a typed graph's types with their share of these input nodes.
	Types []TypeShare `json:"type_hotness,omitempty"`
}

// TypeShare is the use of the rows of features of a type. All nodes of a type without features have one row.
type TypeShare struct {
	Name     string  `json:"name"`
	Touched  int64   `json:"touched_nodes"`
	Accesses float64 `json:"accesses"` // share of all input nodes of training batches
}

// Hottest is one point of the curve of hotness.
type Hottest struct {
	Share    float64 `json:"share"` // of all nodes
	Nodes    int64   `json:"nodes"`
	Accesses float64 `json:"accesses"` // share of all input nodes of training batches that are these nodes
}

// Describe returns the Description of the directory. It reads the hotness, and holds 4 bytes for each
// node.
func (r *Reader) Describe() (Description, error) {
	d := Description{Params: r.params, Facts: r.facts}
	hot, err := r.Hotness()
	if err != nil {
		return d, err
	}
	total := int64(0)
	for _, n := range hot {
		total += int64(n)
		if n > 0 {
			d.Touched++
		}
	}
	d.Types = r.facts.shares(hot, total)
	slices.Sort(hot)
	slices.Reverse(hot)
	sum, next := int64(0), 0
	for _, share := range []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1} {
		n := int(share * float64(len(hot)))
		for ; next < n; next++ {
			sum += int64(hot[next])
		}
		d.Curve = append(d.Curve, Hottest{Share: share, Nodes: int64(n), Accesses: float64(sum) / float64(max(total, 1))})
	}
	return d, nil
}

// addByType adds the hotness of the rows of features from first on to the sums of the types of their nodes.
func addByType(sums []int64, t *graph.Types, first int64, hot []uint32) {
	for i, n := range hot {
		if n > 0 {
			sums[t.OfFeatureRow(uint32(first+int64(i)))] += int64(n)
		}
	}
}

// shares returns the use of every type, by the hotness of all rows and their sum.
func (f *Facts) shares(hot []uint32, total int64) []TypeShare {
	if f.Types == nil {
		return nil
	}
	shares := make([]TypeShare, len(f.Types.Nodes))
	for i, k := range f.Types.Nodes {
		shares[i].Name = k.Name
	}
	for row, n := range hot {
		if n == 0 {
			continue
		}
		s := &shares[f.Types.OfFeatureRow(uint32(row))]
		s.Touched++
		s.Accesses += float64(n) / float64(total)
	}
	return shares
}
