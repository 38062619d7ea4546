package oracle

import (
	"fmt"
	"math"
	"strings"
)

// Types are the node types and relations of a typed run, as its directory describes them.
type Types struct {
	Nodes     []string `json:"node_types"`
	Relations []struct {
		Source, Destination int
		Name                string
	}
}

// TypedGraph is a graph with features and node types. Nodes of types without features have rows of zeros.
type TypedGraph struct {
	X    [][]float64
	Type []int     // of each node
	From [][][]int // by relation: the sources of the edges into each node
}

// TypedLayers returns the output of every layer, for all nodes; rows of types without output are nil.
func (r *Run) TypedLayers(g *TypedGraph) (states [][][]float64) {
	x, last := g.X, len(r.Dims)-2
	alive := make([]bool, len(r.Types.Nodes))
	for i := range alive {
		alive[i] = true
	}
	for l := range last + 1 {
		var y [][]float64
		y, alive = r.typedConv(l, g, x, alive, r.Dims[l+1], l == last)
		if l < last {
			unit := relu64
			if r.Activation == "elu" || r.Activation == "" && r.Kind == "rgat" {
				unit = elu64
			}
			y = eachValue(y, unit)
		}
		x = y
		state := make([][]float64, len(y))
		for v, row := range y {
			if alive[g.Type[v]] {
				state[v] = row
			}
		}
		states = append(states, state)
	}
	return states
}

// typedConv returns a layer's sums, zeros for types without any, and the types that have some.
func (r *Run) typedConv(l int, g *TypedGraph, x [][]float64, alive []bool, out int, last bool) (y [][]float64, next []bool) {
	y, next = make([][]float64, len(x)), make([]bool, len(alive))
	for v := range y {
		y[v] = make([]float64, out)
	}
	name := fmt.Sprintf("convs.%d.", l)
	if r.Kind == "rgcn" {
		r.rooted(name, g, x, y, out)
		for i := range next {
			next[i] = true
		}
		return y, next
	}
	for i, rel := range r.Types.Relations {
		key := fmt.Sprintf("<%s___%s___%s>", r.Types.Nodes[rel.Source], rel.Name, r.Types.Nodes[rel.Destination])
		if part := r.related(name+"convs."+strings.ReplaceAll(key, ".", "#")+".", &Graph{From: g.From[i]}, x, out, last); alive[rel.Source] {
			next[rel.Destination] = true
			for v := range y {
				if g.Type[v] == rel.Destination {
					addRows(y[v:v+1], part[v:v+1])
				}
			}
		}
	}
	return y, next
}

// related is a SAGEConv or a GATConv of a relation, for all nodes.
func (r *Run) related(name string, g *Graph, x [][]float64, out int, last bool) [][]float64 {
	if r.Kind == "rgat" {
		return addRow(r.attend(name, g, x, out, last, false), r.parameter(name+"bias", out))
	}
	y := addRow(r.linear(r.aggregate(g, x), name+"lin_l.weight", out), r.parameter(name+"lin_l.bias", out))
	return addRows(y, r.linear(x, name+"lin_r.weight", out))
}

// rooted is an RGCNConv: it adds its output to y.
func (r *Run) rooted(name string, g *TypedGraph, x, y [][]float64, out int) {
	in, relations := len(x[0]), len(r.Types.Relations)
	matrices := relations
	if r.Bases > 0 {
		matrices = r.Bases
	}
	weight, root := r.parameter(name+"weight", matrices, in, out), r.parameter(name+"root", in, out)
	for i := range relations {
		w := weight[min(i, matrices-1)*in*out:][:in*out]
		if r.Bases > 0 {
			comp := r.parameter(name+"comp", relations, r.Bases)
			w = make([]float64, in*out)
			for b := range r.Bases {
				for e := range w {
					w[e] += comp[i*r.Bases+b] * weight[b*in*out+e]
				}
			}
		}
		r.timesAdd(y, r.aggregate(&Graph{From: g.From[i]}, x), w)
	}
	r.timesAdd(y, x, root)
	addRow(y, r.parameter(name+"bias", out))
}

// timesAdd adds x·W to y; W is of a row for each input.
func (r *Run) timesAdd(y, x [][]float64, w []float64) {
	for v := range y {
		for c := range y[v] {
			size := 0.0
			for i, a := range x[v] {
				term := a * w[i*len(y[v])+c]
				y[v][c], size = y[v][c]+term, size+math.Abs(term)
			}
			r.Largest = max(r.Largest, size)
		}
	}
}
