package importer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/graph"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// typedGraph is a source in memory. Edges are pairs of destination and source.
type typedGraph struct {
	drawn
	types    *graph.Types
	of       [][][2]int64 // by relation
	labelled int          // the type with labels
}

func (g *typedGraph) Shape() importer.Shape {
	s := g.drawn.Shape()
	s.Types, s.LabelledType, s.Edges = g.types, g.labelled, 0
	for _, edges := range g.of {
		s.Edges += int64(len(edges))
	}
	return s
}

func (g *typedGraph) CountEdges(map[string]int64) int64 { return g.Shape().Edges }

func (g *typedGraph) Labels(_ context.Context, l *importer.Labelling) error {
	first := int64(0)
	for _, k := range g.types.Nodes[:g.labelled] {
		first += k.Count
	}
	for v := range g.types.Nodes[g.labelled].Count {
		var err error
		if g.multi {
			err = l.Row(first+v, []float32{float32(v % 2), 1, float32(v % 3 % 2)})
		} else {
			err = l.Label(first+v, v%3)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *typedGraph) Relation(_ context.Context, relation int, add func(dst, src []int64) error) error {
	for _, e := range g.of[relation] {
		if err := add([]int64{e[0]}, []int64{e[1]}); err != nil {
			return err
		}
	}
	return nil
}

// drawTyped draws up to three types, and up to four relations in any order. All types have features: a drawn
// graph has rows of all nodes.
func drawTyped(t *rapid.T) *typedGraph {
	g := &typedGraph{types: &graph.Types{}}
	var first []int64
	for i := range rapid.IntRange(1, 3).Draw(t, "types") {
		n := int64(rapid.IntRange(4, 9).Draw(t, "nodes"))
		first = append(first, int64(g.nodes))
		g.nodes += int(n)
		g.types.Nodes = append(g.types.Nodes, graph.NodeType{Name: fmt.Sprint("t", i), Count: n, Features: true})
	}
	names := []string{"a", "b", "rev_a", "rev_rev_a"}
	for range rapid.IntRange(1, 4).Draw(t, "relations") {
		kind := rapid.IntRange(0, len(first)-1)
		r := graph.Relation{Source: kind.Draw(t, "source"), Name: rapid.SampledFrom(names).Draw(t, "name"), Destination: kind.Draw(t, "destination")}
		if slices.Contains(g.types.Relations, r) {
			continue
		}
		g.types.Relations = append(g.types.Relations, r)
		node := func(kind int) int64 {
			return first[kind] + int64(rapid.IntRange(0, int(g.types.Nodes[kind].Count)-1).Draw(t, "node"))
		}
		var edges [][2]int64
		for range rapid.IntRange(0, 12).Draw(t, "edges") {
			edges = append(edges, [2]int64{node(r.Destination), node(r.Source)})
		}
		g.of = append(g.of, edges)
	}
	g.dim, g.classes = 2, 3
	return g
}

// reference returns the edges that a dataset of the graph has, by the names of relations and ends.
func (g *typedGraph) reference(o *importer.Options) map[string][][2]uint32 {
	has := func(source int, name string, destination int) bool {
		return slices.Contains(g.types.Relations, graph.Relation{Source: source, Name: name, Destination: destination})
	}
	want := map[string][][2]uint32{}
	put := func(source int, name string, destination int, dst, src int64) {
		key := fmt.Sprintf("%d:%s:%d", source, name, destination)
		if dst == src && (o.SelfLoops == importer.LoopsDrop || o.Symmetrize) {
			return
		}
		want[key] = append(want[key], [2]uint32{uint32(dst), uint32(src)})
	}
	for i, r := range g.types.Relations {
		want[fmt.Sprintf("%d:%s:%d", r.Source, r.Name, r.Destination)] = nil
		forth, is := strings.CutPrefix(r.Name, "rev_")
		within := o.Symmetrize && r.Source == r.Destination
		adds := (o.Symmetrize || o.Reverse == importer.ReverseYes) && !within && !has(r.Destination, "rev_"+r.Name, r.Source) && !(is && has(r.Destination, forth, r.Source))
		if adds {
			want[fmt.Sprintf("%d:%s:%d", r.Destination, "rev_"+r.Name, r.Source)] = nil
		}
		for _, e := range g.of[i] {
			put(r.Source, r.Name, r.Destination, e[0], e[1])
			if within {
				put(r.Source, r.Name, r.Destination, e[1], e[0])
			}
			if adds {
				put(r.Destination, "rev_"+r.Name, r.Source, e[1], e[0])
			}
		}
	}
	for key, edges := range want {
		slices.SortFunc(edges, func(a, b [2]uint32) int { return slices.Compare(a[:], b[:]) })
		if o.Dedupe || o.Symmetrize {
			want[key] = slices.Compact(edges)
		}
	}
	return want
}

// TestTypedEdges imports typed graphs with options for edges, and compares each relation with a plain reference.
func TestTypedEdges(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		g := drawTyped(r)
		o := importer.Options{
			Sources: []string{"-"}, Symmetrize: rapid.Bool().Draw(r, "symmetrize"), Dedupe: rapid.Bool().Draw(r, "dedupe"),
			SelfLoops: rapid.SampledFrom([]string{importer.LoopsKeep, importer.LoopsDrop}).Draw(r, "loops"),
			Reading:   importer.Reading{Typed: true, Reverse: rapid.SampledFrom(importer.Reverses()).Draw(r, "reverse")},
		}
		o.Workers = rapid.IntRange(1, 2).Draw(r, "workers")
		want := g.reference(&o)
		f := importer.Format{Name: "typed", Takes: []string{"typed"}, Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return g, nil }}
		n++
		out := fmt.Sprintf("%s/%d", dir, n)
		if _, err := importer.Import(t.Context(), datasettest.FS, out, f, o, progress.Discard); err != nil {
			r.Fatal(err)
		}
		d := datasettest.Verified(r, out)
		types := d.Facts().Types
		if len(types.Relations) != len(want) {
			r.Fatalf("%d relations, want %d", len(types.Relations), len(want))
		}
		for i, edges := range importertest.Relations(t, d) {
			k := types.Relations[i]
			key := fmt.Sprintf("%d:%s:%d", k.Source, k.Name, k.Destination)
			if w, ok := want[key]; !ok || !slices.Equal(edges, w) {
				r.Fatalf("%s: %v, want %v", key, edges, w)
			}
		}
	})
}
