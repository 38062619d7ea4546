package importertest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/progress"
)

// TypedText writes a typed dataset as the typed goldens of importer/testdata are: nodes are counted from 0 in
// each type.
func TypedText(t testing.TB, d *dataset.Dataset) string {
	t.Helper()
	var b strings.Builder
	f := d.Facts()
	if f.Types == nil {
		t.Fatal("the dataset has no types")
	}
	local := func(v uint32) int64 {
		lo, _ := f.Types.Range(f.Types.Of(v))
		return int64(v) - lo
	}
	for _, k := range f.Types.Nodes {
		without := " without features"
		if k.Features {
			without = ""
		}
		fmt.Fprintf(&b, "type %s: %d nodes%s\n", k.Name, k.Count, without)
	}
	for i, edges := range Relations(t, d) {
		fmt.Fprintf(&b, "relation %s\n", f.Types.Triple(i))
		for _, e := range edges {
			fmt.Fprintf(&b, "%s: %d <- %d\n", f.Types.Triple(i), local(e[0]), local(e[1]))
		}
	}
	raw := make([]byte, f.FeatureRows()*int64(f.RowBytes()))
	if err := d.ReadFeatures(t.Context(), 0, f.FeatureRows(), raw); err != nil {
		t.Fatal(err)
	}
	values := make([]float32, f.FeatureRows()*int64(f.Dim))
	dtype.Convert(binio.Bytes(values), dtype.Float32, raw, f.DType)
	for i, k := range f.Types.Nodes {
		lo, hi := f.Types.Range(i)
		for v := lo; v < hi && k.Features; v++ {
			fmt.Fprintf(&b, "feat %s %d:", k.Name, v-lo)
			for _, x := range values[v*int64(f.Dim):][:f.Dim] {
				fmt.Fprintf(&b, " %.9g", x+0) // not -0
			}
			b.WriteString("\n")
		}
	}
	labels, err := d.Labels()
	if err != nil {
		t.Fatal(err)
	}
	lo, hi := f.Types.Range(f.LabelledType)
	for v, c := range labels {
		if int64(v) >= lo && int64(v) < hi {
			fmt.Fprintf(&b, "label %s %d: %d\n", f.Types.Nodes[f.LabelledType].Name, int64(v)-lo, c)
		}
	}
	for _, name := range dataset.SplitNames {
		ids, err := d.Split(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s:", name)
		for _, v := range ids {
			fmt.Fprintf(&b, " %d", local(v))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Relations returns the edges of each relation of a typed dataset, as pairs of destination and source.
func Relations(t testing.TB, d *dataset.Dataset) [][][2]uint32 {
	t.Helper()
	types := d.Facts().Types
	top, err := d.Topology(t.Context(), progress.Discard, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	edges := make([][][2]uint32, len(types.Relations))
	for row := range types.NumRows() {
		v, relation := types.RowOf(row)
		for _, u := range top.Neighbors(uint32(row)) {
			edges[relation] = append(edges[relation], [2]uint32{v, u})
		}
	}
	return edges
}

// SameTyped compares a typed dataset with a typed golden, line by line.
func SameTyped(t testing.TB, d *dataset.Dataset, golden string) {
	t.Helper()
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, TypedText(t, d), string(b), golden)
}

// sameLines compares a text with a golden.
func sameLines(t testing.TB, text, golden, name string) {
	t.Helper()
	got, want := strings.Split(text, "\n"), strings.Split(golden, "\n")
	if slices.Equal(got, want) {
		return
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("%s: line %d: nothing, want %q", name, i+1, want[i])
		case i >= len(want):
			t.Fatalf("%s: line %d: %q, want nothing", name, i+1, got[i])
		case got[i] != want[i]:
			t.Fatalf("%s: line %d: %q, want %q", name, i+1, got[i], want[i])
		}
	}
}
