// Package datasettest makes small datasets for tests: the hand-drawn graph of
// testdata/tiny, and random ones for properties.
package datasettest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/rng"
)

// TB is the part of *testing.T that this package needs; *rapid.T has it as well.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// TinyDim and TinyClasses are the shape of the hand-drawn graph.
const (
	TinyDim     = 3
	TinyClasses = 2
)

// Tiny returns the hand-drawn graph of testdata/tiny, with float32 features.
func Tiny(t TB) dataset.Raw {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata(t), "tiny", "graph.txt"))
	if err != nil {
		t.Fatalf("the tiny graph: %v", err)
	}
	raw, err := parse(string(b))
	if err != nil {
		t.Fatalf("the tiny graph: %v", err)
	}
	return raw
}

// testdata finds the directory beside go.mod: tests run in their package's.
func testdata(t TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("%v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "testdata")
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatalf("no go.mod above the test")
		}
		dir = parent
	}
}

// parse reads lines of: node, class or -, split or -, features, in-neighbours.
func parse(text string) (dataset.Raw, error) {
	r := dataset.Raw{Indptr: []int64{0}, DType: dtype.Float32, Dim: TinyDim, Classes: TinyClasses}
	var features []float32
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		v := len(r.Labels)
		if len(f) < 3+TinyDim || f[0] != strconv.Itoa(v) {
			return r, fmt.Errorf("node %d: line %q", v, line)
		}
		class := int(graph.Unlabelled)
		if f[1] != "-" {
			var err error
			if class, err = strconv.Atoi(f[1]); err != nil {
				return r, err
			}
		}
		r.Labels = append(r.Labels, int32(class))
		switch f[2] {
		case dataset.Train:
			r.Train = append(r.Train, uint32(v))
		case dataset.Valid:
			r.Valid = append(r.Valid, uint32(v))
		case dataset.Test:
			r.Test = append(r.Test, uint32(v))
		}
		for _, s := range f[3 : 3+TinyDim] {
			x, err := strconv.ParseFloat(s, 32)
			if err != nil {
				return r, err
			}
			features = append(features, float32(x))
		}
		for _, s := range f[3+TinyDim:] {
			u, err := strconv.ParseUint(s, 10, 32)
			if err != nil {
				return r, err
			}
			r.Indices = append(r.Indices, uint32(u))
		}
		r.Indptr = append(r.Indptr, int64(len(r.Indices)))
	}
	r.Features = appendRow(nil, dtype.Float32, features)
	return r, nil
}

// Params are the parameters of a random dataset. The zero value of a field stands for the default in
// brackets.
type Params struct {
	Nodes     int        // [20]
	AvgDegree float64    // in-edges per node; 0 gives a graph without edges
	Dim       int        // [3]
	Classes   int        // [3]
	DType     dtype.Type // [float32]
	Seed      uint64
	// Simple leaves out parallel edges and self-loops.
	Simple bool
	// MultiLabel gives labelled nodes each class or not, by a coin.
	MultiLabel bool
	// Typed gives the graph three node types, of which the last has no features, and six relations. It needs four nodes.
	Typed bool
}

// Raw makes the dataset: a few hubs, a few nodes without neighbours, values of
// every sign, a tenth of the nodes unlabelled, about half of the labelled ones
// in the training set. The training set is never empty.
func (p Params) Raw() dataset.Raw {
	if p.Nodes == 0 {
		p.Nodes = 20
	}
	if p.Dim == 0 {
		p.Dim = 3
	}
	if p.Classes == 0 {
		p.Classes = 3
	}
	if p.DType == "" {
		p.DType = dtype.Float32
	}
	src := rng.New(rng.Key(p.Seed, uint64(p.Nodes)))
	r := dataset.Raw{Indptr: []int64{0}, DType: p.DType, Dim: p.Dim, Classes: p.Classes}
	row := make([]float32, p.Dim)
	for v := range uint32(p.Nodes) {
		r.Indices = append(r.Indices, p.neighbors(&src, v)...)
		r.Indptr = append(r.Indptr, int64(len(r.Indices)))
		for j := range row {
			row[j] = float32(4*src.Float64() - 2)
		}
		r.Features = appendRow(r.Features, p.DType, row)
		label := int32(src.Uint32n(uint32(p.Classes)))
		if v > 0 && src.Uint32n(10) == 0 {
			label = graph.Unlabelled
		}
		r.Labels = append(r.Labels, label)
		if p.MultiLabel {
			r.Labels[v] = min(label, 0)
			r.Targets = append(r.Targets, make([]byte, graph.TargetBytes(p.Classes))...)
			own := rng.New(rng.Key(p.Seed, uint64(p.Nodes), uint64(v)))
			for c := range p.Classes {
				if own.Uint32n(2) == 1 && label != graph.Unlabelled {
					graph.AddClass(r.Targets[len(r.Targets)-graph.TargetBytes(p.Classes):], c)
				}
			}
		}
		switch part := src.Uint32n(8); {
		case label == graph.Unlabelled:
		case v == 0 || part < 4:
			r.Train = append(r.Train, v)
		case part < 6:
			r.Valid = append(r.Valid, v)
		case part < 7:
			r.Test = append(r.Test, v)
		}
	}
	if p.Typed {
		return p.typed(r)
	}
	return r
}

// appendRow appends float32 elements as elements of the type.
func appendRow(dst []byte, t dtype.Type, row []float32) []byte {
	b := make([]byte, len(row)*t.Size())
	dtype.Convert(b, t, binio.Bytes(row), dtype.Float32)
	return append(dst, b...)
}

// neighbors draws the in-neighbours of v, ascending: sources of low id are hubs,
// and a sixth of the nodes gets none.
func (p Params) neighbors(src *rng.Source, v uint32) []uint32 {
	if src.Uint32n(6) == 0 {
		return nil
	}
	degree := int(2 * p.AvgDegree * 6 / 5 * src.Float64())
	if src.Float64() < 2*p.AvgDegree*6/5-float64(int(2*p.AvgDegree*6/5)) {
		degree++
	}
	var row []uint32
	for range degree {
		u := uint32(src.Float64() * src.Float64() * float64(p.Nodes))
		if p.Simple && u == v {
			continue
		}
		row = append(row, u)
	}
	slices.Sort(row)
	if p.Simple {
		row = slices.Compact(row)
	}
	return row
}

// Create writes r as the dataset dir/dataset and opens it.
func Create(t TB, dir string, r dataset.Raw) *dataset.Dataset {
	t.Helper()
	out := filepath.Join(dir, "dataset")
	if err := dataset.Create(FS, out, r); err != nil {
		t.Fatalf("create the dataset: %v", err)
	}
	d, err := dataset.OpenAny(FS, out)
	if err != nil {
		t.Fatalf("open the dataset: %v", err)
	}
	return d
}
