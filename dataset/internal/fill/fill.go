// Package fill computes features for the nodes of types without features: the mean of the rows of their
// neighbours.
//
// # Definition
//
// Types are filled in rounds. A round fills each type that a relation joins, in either direction, with a type
// that has features or got them in an earlier round; Order puts types in this order, and Steps lists the
// relations of each. The neighbours are taken along the relations that lead into the type from such types, the
// edges that messages follow. Only if there is none are they taken along the relations that lead out to such
// types. So an edge and its stored reverse do not count twice. Equal edges, and edges of several relations, count
// one by one.
//
// A row is the sum of its neighbours' stored rows in float64, in the order of the neighbours' ids, divided by
// their number, and rounded to float32 and then to the type of the features. A node without neighbours gets
// zeros.
//
// # Passes
//
// Neither the rows that are read nor the rows that are made fit in memory. A pass makes the rows of a range
// of nodes with sums that fit. It reads the edges of the range, sorts them by the neighbour on disk
// (package extsort) unless they lie in that order, and reads the rows of the neighbours in ascending order: each
// piece of the table at most once, and none without a neighbour. The order of additions does not depend on the
// ranges, so memory and workers decide no byte.
package fill

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"diskgnn/graph"
	"diskgnn/internal/fault"
)

// Step is a type to fill, and the relations along which its neighbours are found.
type Step struct {
	Type      int
	Relations []int // ascending
	Reversed  bool  // the relations lead out of the type
}

// rounds returns the round of each type: 0 of types with features, and -1 of types that no chain of relations
// joins with them.
func rounds(t *graph.Types) []int {
	of := make([]int, len(t.Nodes))
	for i, k := range t.Nodes {
		if !k.Features {
			of[i] = -1
		}
	}
	for round, more := 1, true; more; round++ {
		more = false
		for _, r := range t.Relations {
			for _, ends := range [][2]int{{r.Source, r.Destination}, {r.Destination, r.Source}} {
				if known, other := of[ends[0]], ends[1]; known >= 0 && known < round && of[other] < 0 {
					of[other], more = round, true
				}
			}
		}
	}
	return of
}

// Order returns the places of the types in the order in which they are filled, types with features first. A type
// that cannot be filled, and a graph without one to fill, is an error of kind fault.ErrInput.
func Order(t *graph.Types) ([]int, error) {
	of := rounds(t)
	var order []int
	var apart []string
	for i, round := range of {
		order = append(order, i)
		if round < 0 {
			apart = append(apart, t.Nodes[i].Name)
		}
	}
	if len(apart) > 0 {
		return nil, fault.New(fault.ErrInput, "no relations join the node types %.300s with a type that has features: they cannot be filled", strings.Join(apart, ", "))
	}
	if slices.Max(of) == 0 {
		return nil, fault.New(fault.ErrInput, "all node types have features: there is nothing to fill")
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(of[a], of[b]) })
	return order, nil
}

// Steps returns the types without features in the order of their nodes, which must be the order of Order.
func Steps(t *graph.Types) ([]Step, error) {
	of := rounds(t)
	if !slices.IsSorted(of) || of[0] != 0 {
		return nil, fmt.Errorf("fill: types of the rounds %d are out of order", of)
	}
	var steps []Step
	for i, round := range of {
		if round == 0 {
			continue
		}
		s := Step{Type: i}
		for _, s.Reversed = range []bool{false, true} {
			for j, r := range t.Relations {
				other, self := r.Source, r.Destination
				if s.Reversed {
					other, self = self, other
				}
				if self == i && of[other] < round {
					s.Relations = append(s.Relations, j)
				}
			}
			if len(s.Relations) > 0 {
				break
			}
		}
		steps = append(steps, s)
	}
	return steps, nil
}
