package mbfile

import "slices"

// Description has the parameters and statistics of a SAMPLES directory, as inspect shows them.
type Description struct {
	Params Params `json:"params"`
	Facts  Facts  `json:"facts"`
	// Touched is the number of nodes that are an input node of at least one training batch.
	Touched int64 `json:"touched_nodes"`
	// Curve has, for some numbers of the hottest nodes, the share of the training batches' input nodes
	// that they are.
	Curve []Hottest `json:"hotness"`
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
	slices.Sort(hot)
	slices.Reverse(hot)
	total := int64(0)
	for _, n := range hot {
		total += int64(n)
		if n > 0 {
			d.Touched++
		}
	}
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
