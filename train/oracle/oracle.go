// Package oracle computes the logits of a run from its files and from the formulas, in float64, for
// tests. It shares no code with the program: it has its own readers of safetensors and of datasets, and
// the definitions of PyTorch Geometric's SAGEConv, GCNConv and GATConv, of HeteroConv and RGCNConv, written down anew.
// A run with other tensors than the formulas need is a panic.
package oracle

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// Graph is a graph with features. Parallel edges count each.
type Graph struct {
	X    [][]float64 // the features of each node
	From [][]int     // the sources of the edges into each node, in order
}

// Run is a trained model, as the directory of its run describes it.
type Run struct {
	Kind       string
	Dims       []int
	Norm       string
	Activation string
	Residual   bool
	Projection int `json:"input_projection"`
	Aggregator string
	GCNNorm    string `json:"gcn_norm"`
	Heads      int
	Bases      int
	Types      *Types

	tensors map[string]tensor
	used    map[string]bool
	// Largest is the largest sum of absolute terms so far, to which rounding errors are relative.
	Largest float64 `json:"-"`
}

type tensor struct {
	shape  []int
	values []float64 // row-major
}

// OpenRun reads run.json and weights.safetensors, the weights of the best epoch, or another file of
// weights in the directory.
func OpenRun(dir, weights string) (*Run, error) {
	b, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil {
		return nil, err
	}
	run := struct{ Params struct{ Network Run } }{}
	if err := json.Unmarshal(b, &run); err != nil {
		return nil, err
	}
	r := run.Params.Network
	r.used = make(map[string]bool)
	r.tensors, err = readTensors(filepath.Join(dir, weights))
	return &r, err
}

func readTensors(file string) (map[string]tensor, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(b)
	var header map[string]json.RawMessage
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		return nil, err
	}
	delete(header, "__metadata__")
	tensors := make(map[string]tensor)
	for name, text := range header {
		var h struct {
			DType   string
			Shape   []int
			Offsets [2]uint64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(text, &h); err != nil || h.DType != "F32" {
			return nil, fmt.Errorf("%s: %s (%v)", name, text, err)
		}
		t := tensor{shape: h.Shape}
		for at := 8 + n + h.Offsets[0]; at < 8+n+h.Offsets[1]; at += 4 {
			t.values = append(t.values, float64(math.Float32frombits(binary.LittleEndian.Uint32(b[at:]))))
		}
		tensors[name] = t
	}
	return tensors, nil
}

// parameter returns the values of a parameter, which has to be there with that shape.
func (r *Run) parameter(name string, shape ...int) []float64 {
	t, ok := r.tensors[name]
	if !ok || !slices.Equal(t.shape, shape) {
		panic(fmt.Sprintf("%s is of shape %v, want %v", name, t.shape, shape))
	}
	r.used[name] = true
	return t.values
}

// linear returns x·Wᵀ, for every row of x; W is of out rows.
func (r *Run) linear(x [][]float64, weight string, out int) [][]float64 {
	w := r.parameter(weight, out, len(x[0]))
	y := make([][]float64, len(x))
	for v := range x {
		y[v] = make([]float64, out)
		for o := range out {
			size := 0.0
			for i, a := range x[v] {
				term := a * w[o*len(x[v])+i]
				y[v][o], size = y[v][o]+term, size+math.Abs(term)
			}
			r.Largest = max(r.Largest, size)
		}
	}
	return y
}

// addRow adds a row to all rows.
func addRow(x [][]float64, row []float64) [][]float64 {
	for v := range x {
		for i, a := range row {
			x[v][i] += a
		}
	}
	return x
}

func addRows(x, y [][]float64) [][]float64 {
	for v := range x {
		for i, a := range y[v] {
			x[v][i] += a
		}
	}
	return x
}

func eachValue(x [][]float64, f func(float64) float64) [][]float64 {
	for v := range x {
		for i, a := range x[v] {
			x[v][i] = f(a)
		}
	}
	return x
}

func relu64(a float64) float64 { return math.Max(a, 0) }

func elu64(a float64) float64 {
	if a < 0 {
		return math.Expm1(a)
	}
	return a
}

// Layers returns the output of every layer, for all nodes: the last are the logits, those before are
// the embeddings.
func (r *Run) Layers(g *Graph) (states [][][]float64) {
	x := g.X
	if r.Projection > 0 {
		x = eachValue(addRow(r.linear(x, "lin_in.weight", r.Projection), r.parameter("lin_in.bias", r.Projection)), relu64)
	}
	last := len(r.Dims) - 2
	for l := range last + 1 {
		out := r.Dims[l+1]
		y := r.conv(l, g, x, out, l == last)
		if r.Residual {
			lin := fmt.Sprintf("lins.%d.", l)
			y = addRows(y, addRow(r.linear(x, lin+"weight", out), r.parameter(lin+"bias", out)))
		}
		if l < last {
			y = r.norm(l, y, out)
			unit := relu64
			if r.Activation == "elu" || r.Activation == "" && r.Kind == "gat" {
				unit = elu64
			}
			y = eachValue(y, unit)
		}
		states, x = append(states, y), y
	}
	return states
}

// norm is BatchNorm1d in evaluation, or LayerNorm.
func (r *Run) norm(l int, y [][]float64, out int) [][]float64 {
	if r.Norm == "" || r.Norm == "none" {
		return y
	}
	const epsilon = 1e-5
	name := fmt.Sprintf("norms.%d.", l)
	scale, shift := r.parameter(name+"weight", out), r.parameter(name+"bias", out)
	for v, row := range y {
		mean, variance := make([]float64, out), make([]float64, out)
		if r.Norm == "batch" {
			mean, variance = r.parameter(name+"running_mean", out), r.parameter(name+"running_var", out)
		} else {
			m, s := 0.0, 0.0
			for _, a := range row {
				m += a / float64(out)
			}
			for _, a := range row {
				s += (a - m) * (a - m) / float64(out)
			}
			for i := range out {
				mean[i], variance[i] = m, s
			}
		}
		for i, a := range row {
			y[v][i] = (a-mean[i])/math.Sqrt(variance[i]+epsilon)*scale[i] + shift[i]
		}
	}
	return y
}

func (r *Run) conv(l int, g *Graph, x [][]float64, out int, last bool) [][]float64 {
	name := fmt.Sprintf("convs.%d.", l)
	switch r.Kind {
	case "sage":
		y := addRow(r.linear(r.aggregate(g, x), name+"lin_l.weight", out), r.parameter(name+"lin_l.bias", out))
		return addRows(y, r.linear(x, name+"lin_r.weight", out))
	case "gcn":
		return addRow(r.propagate(g, r.linear(x, name+"lin.weight", out)), r.parameter(name+"bias", out))
	case "gat":
		return addRow(r.attend(name, g, x, out, last, true), r.parameter(name+"bias", out))
	}
	panic(r.Kind)
}

// aggregate is SAGEConv's mean, sum or maximum over the edges into each node; zero where there are
// none.
func (r *Run) aggregate(g *Graph, x [][]float64) [][]float64 {
	y := make([][]float64, len(x))
	for v, from := range g.From {
		y[v] = make([]float64, len(x[v]))
		for i := range y[v] {
			most, sum, size := math.Inf(-1), 0.0, 0.0
			for _, u := range from {
				most, sum, size = math.Max(most, x[u][i]), sum+x[u][i], size+math.Abs(x[u][i])
			}
			if r.Aggregator == "sum" {
				r.Largest = max(r.Largest, size)
			}
			switch {
			case len(from) == 0:
			case r.Aggregator == "max":
				y[v][i] = most
			case r.Aggregator == "sum":
				y[v][i] = sum
			default:
				y[v][i] = sum / float64(len(from))
			}
		}
	}
	return y
}

// propagate is D^-½ (A + I) D^-½ x. GCNConv has the edges into a node for its degree on both sides;
// the norm of blocks has those out of it on the left.
func (r *Run) propagate(g *Graph, x [][]float64) [][]float64 {
	in, left := make([]float64, len(x)), make([]float64, len(x))
	for v, from := range g.From {
		in[v] += 1 + float64(len(from))
		left[v]++
		for _, u := range from {
			left[u]++
		}
	}
	if r.GCNNorm != "block" {
		left = in
	}
	y := make([][]float64, len(x))
	for v, from := range g.From {
		y[v] = make([]float64, len(x[v]))
		for _, u := range slices.Concat(from, []int{v}) {
			for i, a := range x[u] {
				y[v][i] += a / math.Sqrt(left[u]*in[v])
			}
		}
	}
	return y
}

// attend is GATConv: with loops every node has one edge to itself; heads are joined, in the last layer their
// mean is taken.
func (r *Run) attend(name string, g *Graph, x [][]float64, out int, last, loops bool) [][]float64 {
	const slope = 0.2
	part := out / r.Heads
	if last {
		part = out
	}
	h := r.linear(x, name+"lin.weight", r.Heads*part)
	source, destination := r.parameter(name+"att_src", 1, r.Heads, part), r.parameter(name+"att_dst", 1, r.Heads, part)
	y := make([][]float64, len(x))
	for v := range x {
		y[v] = make([]float64, out)
		from := g.From[v]
		if loops {
			from = append(slices.DeleteFunc(slices.Clone(from), func(u int) bool { return u == v }), v)
		}
		if len(from) == 0 {
			continue
		}
		for k := range r.Heads {
			of := func(u int) []float64 { return h[u][k*part : (k+1)*part] }
			scores := make([]float64, len(from))
			for e, u := range from {
				for i := range part {
					scores[e] += source[k*part+i]*of(u)[i] + destination[k*part+i]*of(v)[i]
				}
				if scores[e] < 0 {
					scores[e] *= slope
				}
			}
			most, all := slices.Max(scores), 0.0
			for e := range scores {
				scores[e] = math.Exp(scores[e] - most)
				all += scores[e]
			}
			for e, u := range from {
				for i, a := range of(u) {
					if last {
						y[v][i] += scores[e] / all * a / float64(r.Heads)
					} else {
						y[v][k*part+i] += scores[e] / all * a
					}
				}
			}
		}
	}
	return y
}

// Unused returns the names of the tensors that the formulas did not need so far, sorted.
func (r *Run) Unused() (names []string) {
	for name := range r.tensors {
		if !r.used[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
