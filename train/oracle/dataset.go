package oracle

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// Dataset is a dataset in memory.
type Dataset struct {
	Graph             // of a graph without node types
	Typed *TypedGraph // of a graph with node types, else nil
	// Features are the rows of the file: of the nodes, or, with node types, of the nodes of the first types, and a
	// row of zeros for each other type.
	Features [][]float64
	Labels   []int    // -1: none
	Splits   [3][]int // training, validation and test nodes
	Facts    Facts
}

// Facts are the sizes of a dataset, as meta.json has them.
type Facts struct {
	Nodes, Edges int
	Dim, Classes int
	DType        string
	LabelKind    string `json:"label_kind"`
	LabelledType int    `json:"labelled_type"`
	Types        *DatasetTypes
}

// DatasetTypes are the node types and relations of a dataset. Nodes of a type follow the nodes of the type before.
type DatasetTypes struct {
	Nodes []struct {
		Nodes    int
		Features bool
	} `json:"node_types"`
	Relations []struct{ Source, Destination int }
}

// OpenDataset reads a dataset with labels, in plain or compressed form, into memory.
func OpenDataset(dir string) (*Dataset, error) {
	b, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	if err != nil {
		return nil, err
	}
	var meta struct{ Facts Facts }
	if err := json.Unmarshal(b, &meta); err != nil {
		return nil, err
	}
	d := &Dataset{Facts: meta.Facts}
	features, err := readFeatures(dir)
	if err != nil {
		return nil, err
	}
	if err := d.decodeFeatures(features); err != nil {
		return nil, err
	}
	ints := func(name string, size int) (list []int) {
		b, e := os.ReadFile(filepath.Join(dir, name))
		if e != nil && err == nil {
			err = e
		}
		for ; len(b) >= size; b = b[size:] {
			if size == 8 {
				list = append(list, int(binary.LittleEndian.Uint64(b)))
			} else {
				list = append(list, int(int32(binary.LittleEndian.Uint32(b))))
			}
		}
		return list
	}
	indptr, indices := ints("indptr.bin", 8), ints("indices.bin", 4)
	d.Labels = ints("labels.bin", 4)
	for i, name := range []string{"train.bin", "valid.bin", "test.bin"} {
		d.Splits[i] = ints(name, 4)
	}
	if err != nil {
		return nil, err
	}
	row := 0
	list := func() []int {
		row++
		return indices[indptr[row-1]:indptr[row]]
	}
	if d.Facts.Types != nil {
		d.Typed = typedGraph(d.Facts.Types, d.Features, list)
		return d, nil
	}
	d.X = d.Features
	for range d.X {
		d.From = append(d.From, list())
	}
	return d, nil
}

// Labelled returns the nodes that may have labels: all, or all of one type.
func (d *Dataset) Labelled() (nodes []int) {
	for v := range d.Labels {
		if d.Typed == nil || d.Typed.Type[v] == d.Facts.LabelledType {
			nodes = append(nodes, v)
		}
	}
	return nodes
}

// decodeFeatures decodes the feature matrix.
func (d *Dataset) decodeFeatures(b []byte) error {
	size, value := decoder(d.Facts.DType)
	rows := d.Facts.Nodes
	if t := d.Facts.Types; t != nil {
		for _, kind := range t.Nodes {
			if !kind.Features {
				rows += 1 - kind.Nodes
			}
		}
	}
	if len(b) != rows*d.Facts.Dim*size {
		return fmt.Errorf("%d bytes of features of %d × %d × %s", len(b), rows, d.Facts.Dim, d.Facts.DType)
	}
	for range rows {
		row := make([]float64, d.Facts.Dim)
		for i := range row {
			row[i] = value(b)
			b = b[size:]
		}
		d.Features = append(d.Features, row)
	}
	return nil
}

// typedGraph makes a graph of a dataset's lists of sources, in order: of each node, the relations into its type.
func typedGraph(t *DatasetTypes, features [][]float64, list func() []int) *TypedGraph {
	g := &TypedGraph{From: make([][][]int, len(t.Relations))}
	for kind, k := range t.Nodes {
		for range k.Nodes {
			g.X, g.Type = append(g.X, features[0]), append(g.Type, kind)
			if k.Features {
				features = features[1:]
			}
			for r := range g.From {
				var from []int
				if t.Relations[r].Destination == kind {
					from = list()
				}
				g.From[r] = append(g.From[r], from)
			}
		}
		if !k.Features {
			features = features[1:]
		}
	}
	return g
}

// readFeatures returns the bytes of the feature matrix.
func readFeatures(dir string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(dir, "features.zst"))
	if os.IsNotExist(err) {
		return os.ReadFile(filepath.Join(dir, "features.bin"))
	}
	if err != nil {
		return nil, err
	}
	r, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(b, nil)
}

// decoder returns the bytes of a value, and a function that reads one.
func decoder(dtype string) (size int, value func(b []byte) float64) {
	switch dtype {
	case "float16":
		return 2, func(b []byte) float64 { return half(binary.LittleEndian.Uint16(b)) }
	case "bfloat16":
		return 2, func(b []byte) float64 {
			return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
		}
	}
	return 4, func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }
}

// half is the value of a float16: a sign, 5 bits of exponent, 10 of fraction (IEEE 754).
func half(b uint16) float64 {
	fraction, exponent, sign := float64(b&0x3ff), int(b>>10&0x1f), 1.0
	if b>>15 != 0 {
		sign = -1
	}
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 31:
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// CrossEntropy returns the mean of −log softmax(logits[v])[labels[v]] over the labelled nodes.
func CrossEntropy(logits [][]float64, labels, nodes []int) float64 {
	sum, n := 0.0, 0
	for _, v := range nodes {
		if labels[v] < 0 {
			continue
		}
		most, all := math.Inf(-1), 0.0
		for _, x := range logits[v] {
			most = math.Max(most, x)
		}
		for _, x := range logits[v] {
			all += math.Exp(x - most)
		}
		sum += math.Log(all) + most - logits[v][labels[v]]
		n++
	}
	return sum / float64(n)
}
