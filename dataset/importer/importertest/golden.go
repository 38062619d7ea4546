package importertest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
)

// Text writes a dataset as the goldens of importer/testdata are: the edges by destination, the
// features, the labels and the splits of all nodes.
func Text(t testing.TB, d *dataset.Dataset) string {
	t.Helper()
	var b strings.Builder
	f := d.Facts()
	fmt.Fprintf(&b, "nodes %d\nedges %d\n", f.Nodes, f.Edges)
	top, err := d.Topology(t.Context(), progress.Discard, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	for v := range uint32(f.Nodes) {
		for _, u := range top.Neighbors(v) {
			fmt.Fprintf(&b, "%d <- %d\n", v, u)
		}
	}
	raw := make([]byte, f.Nodes*int64(f.RowBytes()))
	if err := d.ReadFeatures(t.Context(), 0, f.Nodes, raw); err != nil {
		t.Fatal(err)
	}
	values := make([]float32, f.Nodes*int64(f.Dim))
	dtype.Convert(binio.Bytes(values), dtype.Float32, raw, f.DType)
	for v := range f.Nodes {
		fmt.Fprintf(&b, "feat %d:", v)
		for _, x := range values[v*int64(f.Dim):][:f.Dim] {
			fmt.Fprintf(&b, " %.9g", x+0) // not -0
		}
		b.WriteString("\n")
	}
	labels, err := d.Labels()
	if err != nil {
		t.Fatal(err)
	}
	for v, c := range labels {
		fmt.Fprintf(&b, "label %d:", v)
		switch {
		case !f.MultiLabel():
			fmt.Fprintf(&b, " %d", c)
		case c == graph.Unlabelled:
			b.WriteString(" -1")
		default:
			bits, err := d.Targets(t.Context(), []uint32{uint32(v)})
			if err != nil {
				t.Fatal(err)
			}
			any := false
			for c := range f.Classes {
				if bits[c/8]&(1<<(c%8)) != 0 {
					fmt.Fprintf(&b, " %d", c)
					any = true
				}
			}
			if !any {
				b.WriteString(" ")
			}
		}
		b.WriteString("\n")
	}
	for _, name := range dataset.SplitNames {
		ids, err := d.Split(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s:", name)
		for _, v := range ids {
			fmt.Fprintf(&b, " %d", v)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Same compares a dataset with a golden, line by line.
func Same(t testing.TB, d *dataset.Dataset, golden string) {
	t.Helper()
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, Text(t, d), string(b), golden)
}
