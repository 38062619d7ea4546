package beacon

import (
	"math"
	"slices"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
	"diskgnn/simulate/directgraph"
)

// Workload is a graph of BeaconGNN's evaluation, given by the law of its degrees and the size of its
// vectors. Its batches are trees of nodes that are drawn uniformly and lie on any die.
//
// The laws of the degrees were not published. This package assumes log-normal laws with a deviation of 1
// around the published mean, and for the synthetic graph ppi a normal law with a deviation of a fifth of
// the mean. They were fixed before the first comparison.
type Workload struct {
	Name    string  `json:"name"`
	Nodes   float64 `json:"nodes"`
	Degree  float64 `json:"average_degree"`
	Feature int     `json:"feature_bytes"` // of a vector of 16-bit numbers

	// Deviation is the standard deviation of the logarithm of a degree; for a normal law, of degrees over
	// their mean. 0: all degrees are equal.
	Deviation float64 `json:"deviation"`
	Bell      bool    `json:"bell"`
}

var workloads = []Workload{
	{"reddit", 37.3e6, 1445, 1200, 1, false},
	{"amazon", 265.9e6, 300, 400, 1, false},
	{"movielens", 22.2e6, 2666, 60, 1, false},
	{"ogbn", 179.1e6, 28, 64, 1, false},
	{"ppi", 9.1e6, 965, 512, 0.2, true},
}

// FindWorkloads returns the workloads of a list of names with commas between them, or all for "all". An
// unknown name is an error of kind fault.ErrUsage.
func FindWorkloads(names string) ([]Workload, error) {
	if names == "all" {
		return workloads, nil
	}
	var found []Workload
	for _, name := range strings.Split(names, ",") {
		i := slices.IndexFunc(workloads, func(w Workload) bool { return w.Name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fault.New(fault.ErrUsage, "unknown workload %q; use one of %s", name, strings.Join(WorkloadNames(), ", "))
		}
		found = append(found, workloads[i])
	}
	return found, nil
}

// WorkloadNames returns the names of all workloads.
func WorkloadNames() (names []string) {
	for _, w := range workloads {
		names = append(names, w.Name)
	}
	return names
}

// degree draws a degree of at least 1.
func (w *Workload) degree(s *rng.Source) int64 {
	if w.Deviation == 0 {
		return int64(w.Degree)
	}
	u, v := 1-s.Float64(), s.Float64()
	z := math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
	d := w.Degree * (1 + w.Deviation*z)
	if !w.Bell {
		d = w.Degree * math.Exp(w.Deviation*z-w.Deviation*w.Deviation/2)
	}
	return int64(max(1, math.Round(d)))
}

// Trace draws a batch. Every node has the full fanout of children, each at a slot drawn independently, as
// dies draw them. The trees and pages depend on the seed and the batch, not on the platform and the mode.
func (w *Workload) Trace(p *Params, seed uint64, batch int) (*Trace, error) {
	s := directgraph.Shape{Page: p.Flash.Page, Feature: w.Feature}
	if err := s.Check(); err != nil {
		return nil, err
	}
	b := newBuilder(s, w.Feature/2, p.Rules.ReadPrimary, len(p.Model.Fanout))
	next := int32(p.Model.Batch) // the next node to draw
	source := rng.New(rng.Key(seed, uint64(batch)))
	var drawn []draw
	for hop, n := 0, int64(p.Model.Batch); hop <= len(p.Model.Fanout); hop++ {
		fanout := 0
		if hop < len(p.Model.Fanout) {
			fanout = p.Model.Fanout[hop]
		}
		for range n {
			degree := min(w.degree(&source), s.MaxDegree())
			drawn = drawn[:0]
			for range fanout {
				drawn = append(drawn, draw{slot: int64(source.Uint64n(uint64(degree))), child: next})
				next++
			}
			lies := source.Uint64()
			b.read(hop, degree, drawn, func(page int64) int64 { return int64(rng.Join(lies, uint64(page)) >> 36) })
		}
		n *= int64(fanout)
	}
	return b.trace(), nil
}
