package mbfile

import "slices"

// Description describes a SAMPLES directory.
type Description struct {
	Params Params `json:"params"`
	Facts  Facts  `json:"facts"`
	// Touched is the number of nodes that are input nodes of any training batch.
	Touched int64 `json:"touched_nodes"`
	// Curve is the share of the training batches' input nodes that are among the
	// hottest nodes.
	Curve []Hottest `json:"hotness"`
}

// Hottest is one point of the curve of hotness.
type Hottest struct {
	Share    float64 `json:"share"` // of all nodes
	Nodes    int64   `json:"nodes"`
	Accesses float64 `json:"accesses"` // their share of the batches' rows
}

// Describe reads the hotness and adds it up. It holds 4 bytes per node.
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
