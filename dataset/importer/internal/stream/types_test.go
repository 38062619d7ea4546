package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/stream"
	"diskgnn/graph"
	"diskgnn/internal/fault"
)

// TestNumber numbers five authors, no venues and three papers.
func TestNumber(t *testing.T) {
	types, err := stream.Number("set", []stream.Type{{Name: "venue", Count: 0}, {Name: "paper", Count: 3}, {Name: "author", Count: 5}})
	if err != nil {
		t.Fatal(err)
	}
	if types.Nodes != 8 || types.Offsets != "author:0 paper:5 venue:8" || types.All[1].Name != "paper" {
		t.Errorf("%+v", types)
	}
	if at, err := types.Labelled("paper"); err != nil || at != (stream.Span{First: 5, Count: 3}) {
		t.Errorf("papers: %+v, %v", at, err)
	}
	var r stream.Relation
	if err := types.Join(&r, "author__writes__paper", "__"); err != nil || r.Src != (stream.Span{First: 0, Count: 5}) || r.Dst != (stream.Span{First: 5, Count: 3}) {
		t.Errorf("%+v, %v", r, err)
	}
	for what, err := range map[string]error{
		`set: labels are of the node type "x"`:                                                          second(types.Labelled("x")),
		"the edge type x__by__paper is between node types of which at least one does not exist":         types.Join(&r, "x__by__paper", "__"),
		"the edge type paper__by__x is between node types of which at least one does not exist":         types.Join(&r, "paper__by__x", "__"),
		`the name of the edge type "paper__paper" is not HEAD__RELATION__TAIL`:                          types.Join(&r, "paper__paper", "__"),
		`the name of the edge type "a__b__c__d" is not HEAD__RELATION__TAIL`:                            types.Join(&r, "a__b__c__d", "__"),
		`the node type "a" is listed twice, or with an impossible number of nodes, 3`:                   number(stream.Type{Name: "a", Count: 1}, stream.Type{Name: "a", Count: 3}),
		`the node type "a" is listed twice, or with an impossible number of nodes, -1`:                  number(stream.Type{Name: "a", Count: -1}),
		`the node type "a" is listed twice, or with an impossible number of nodes, 9223372036854775807`: number(stream.Type{Name: "a", Count: 1<<63 - 1}),
		"the node type \"a\" is listed twice, or with an impossible number of nodes, 8589934593":        number(stream.Type{Name: "a", Count: 1<<33 + 1}),
		"the graph has 0 nodes; at least 1 is needed":                                                   number(stream.Type{Name: "a", Count: 0}),
		"32-bit": number(stream.Type{Name: "a", Count: 1 << 32}, stream.Type{Name: "b", Count: 1}),
	} {
		if !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v; want bad input that says %q", err, what)
		}
	}
	if err := number(stream.Type{Name: "a", Count: 1 << 33}); !strings.Contains(err.Error(), "32-bit") { // the most that is added up
		t.Error(err)
	}
	if err := number(stream.Type{Name: "a", Count: 1}); err != nil {
		t.Errorf("a graph of one node: %v", err)
	}
	for name, want := range map[string]bool{"paper": true, "field of study": true, "a..b": true, "": false, ".": false, "..": false, "a/b": false, `a\b`: false, "/": false,
		"a\x1b[2J": false, "a\nb": false, strings.Repeat("a", 255): true, strings.Repeat("a", 256): false} {
		if stream.IsName(name) != want {
			t.Errorf("%q is a name: %v", name, !want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func number(types ...stream.Type) error { return second(stream.Number("set", types)) }

// pairs yields edges one at a time.
type pairs [][2]int64

// closing counts how often a stream is closed.
type closing struct {
	stream.Pairs
	closed int
}

func (c *closing) Close() error { c.closed++; return c.Pairs.Close() }

func (p *pairs) Next(dst, src []int64) (int, error) {
	if len(*p) == 0 {
		return 0, nil
	}
	src[0], dst[0] = (*p)[0][0], (*p)[0][1]
	*p = (*p)[1:]
	return 1, nil
}

func (*pairs) Close() error { return nil }

// TestReadRelation moves the edges of three authors and two papers to where these are.
func TestReadRelation(t *testing.T) {
	read := func(n int64, p pairs) (string, error) {
		r := stream.Relation{Name: "writes", Edges: n, Open: func() (stream.Pairs, error) { return &p, nil }, Src: stream.Span{First: 10, Count: 3}, Dst: stream.Span{First: 20, Count: 2}}
		var got []string
		err := r.Read(t.Context(), func(dst, src []int64) error {
			for i := range dst {
				got = append(got, fmt.Sprint(src[i], ">", dst[i]))
			}
			return nil
		})
		return strings.Join(got, " "), err
	}
	if got, err := read(2, pairs{{0, 1}, {2, 0}}); err != nil || got != "10>21 12>20" {
		t.Errorf("%s, %v", got, err)
	}
	for what, c := range map[string]struct {
		n int64
		p pairs
	}{
		"from 3 to 0 is out of range: there are 3 source nodes and 2 destination nodes":  {1, pairs{{3, 0}}},
		"the edge from 0 to 2 is out of range: there are":                                {1, pairs{{0, 2}}},
		"from -1 to 0 is out of range: there are 3 source nodes and 2 destination nodes": {1, pairs{{-1, 0}}},
		"the edge from 0 to -1 is out of range: there are":                               {1, pairs{{0, -1}}},
		"it does not have the 2 edges that it should have":                               {2, pairs{{0, 0}}},
		"it does not have the 1 edges that it should have":                               {1, pairs{{0, 0}, {0, 0}}},
	} {
		if _, err := read(c.n, c.p); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), what) || !strings.HasPrefix(err.Error(), "writes: ") {
			t.Errorf("%v; want bad input that says %q", err, what)
		}
	}
}

// TestReadStops ends with the context, and with errors of opening, reading and adding, and closes
// the edges.
func TestReadStops(t *testing.T) {
	boom := errors.New("boom")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for what, c := range map[string]struct {
		ctx       context.Context
		open, add error
		want      error
		closed    int
	}{
		"whole": {t.Context(), nil, nil, nil, 1}, "cancelled": {done, nil, nil, context.Canceled, 1},
		"not opened": {t.Context(), boom, nil, boom, 0}, "not added": {t.Context(), nil, boom, boom, 1},
	} {
		p := &closing{Pairs: &pairs{{0, 0}}}
		one := stream.Span{First: 0, Count: 1}
		r := stream.Relation{Name: "writes", Edges: 1, Open: func() (stream.Pairs, error) { return p, c.open }, Src: one, Dst: one}
		if err := r.Read(c.ctx, func(_, _ []int64) error { return c.add }); !errors.Is(err, c.want) || p.closed != c.closed {
			t.Errorf("%s: %v, closed %d times", what, err, p.closed)
		}
	}
	p := &closing{Pairs: &failing{}}
	r := stream.Relation{Name: "writes", Edges: 1, Open: func() (stream.Pairs, error) { return p, nil }}
	if err := r.Read(t.Context(), func(_, _ []int64) error { return nil }); !errors.Is(err, errRead) || p.closed != 1 {
		t.Errorf("not read: %v, closed %d times", err, p.closed)
	}
}

var errRead = errors.New("the drive is gone")

// failing yields no edges.
type failing struct{ pairs }

func (*failing) Next(_, _ []int64) (int, error) { return 0, errRead }

// counting yields rows whose elements are 1 + their row.
type counting struct{ row, dim, left int64 }

func (c *counting) Next(values []float32) error {
	for i := range values {
		values[i] = float32(1 + c.row + int64(i)/c.dim)
	}
	n := int64(len(values)) / c.dim
	if c.row, c.left = c.row+n, c.left-n; c.left < 0 {
		return errors.New("rows behind the last")
	}
	return nil
}

func (*counting) Close() error { return nil }

// TestRowsOfType reads rows in pieces, and compares them with a table. Nothing is opened for zeros.
func TestRowsOfType(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(0, 9), 3, 3).Draw(t, "before, of the type, after")
		dim := rapid.Int64Range(1, 4).Draw(t, "dim")
		at, nodes := stream.Span{First: sizes[0], Count: sizes[1]}, sizes[0]+sizes[1]+sizes[2]
		first := rapid.Int64Range(0, nodes).Draw(t, "first")
		end := rapid.Int64Range(first, nodes).Draw(t, "end")
		opened := 0
		rows := stream.RowsOfType(int(dim), at, first, func(row int64) (importer.RowStream, error) {
			opened++
			return &counting{row, dim, at.Count - row}, nil
		})
		var got []float32
		for v := first; v < end; {
			n := rapid.Int64Range(1, end-v).Draw(t, "rows")
			values := slices.Repeat([]float32{-1}, int(n*dim))
			if err := rows.Next(values); err != nil {
				t.Fatal(err)
			}
			got, v = append(got, values...), v+n
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		var want []float32
		needed := 0
		for v := first; v < end; v++ {
			x := float32(0)
			if v >= at.First && v < at.First+at.Count {
				x, needed = float32(1+v-at.First), 1
			}
			want = append(want, slices.Repeat([]float32{x}, int(dim))...)
		}
		if !slices.Equal(got, want) || opened != needed {
			t.Errorf("%v, opened %d times; want %v, %d", got, opened, want, needed)
		}
	})
}

// TestNumberTyped numbers types with features first.
func TestNumberTyped(t *testing.T) {
	types, err := stream.NumberTyped("set", []stream.Type{{Name: "venue", Count: 2}, {Name: "paper", Count: 3, Features: true}, {Name: "author", Count: 5}, {Name: "city", Count: 1, Features: true}})
	if err != nil || types.Offsets != "paper:0 city:3 venue:4 author:6" {
		t.Fatalf("%+v, %v", types, err)
	}
	var r stream.Relation
	if err := types.Join(&r, "author__writes__paper", "__"); err != nil {
		t.Fatal(err)
	}
	var sh importer.Shape
	types.Typed(&sh, "city", [][3]string{r.Triple})
	if k := sh.Types; sh.LabelledType != 1 || k.Relations[0] != (graph.Relation{Source: 3, Name: "writes", Destination: 0}) || !k.Nodes[1].Features || k.Nodes[2].Features {
		t.Errorf("%+v, labels of %d", k, sh.LabelledType)
	}
}
