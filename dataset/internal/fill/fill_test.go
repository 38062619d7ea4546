package fill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

func TestMain(m *testing.M) { os.Exit(vfstest.Main(m)) }

// typesOf makes types, without features if the name begins with a dash, and relations of pairs of source and
// destination.
func typesOf(t *testing.T, names string, ends ...[2]int) *graph.Types {
	t.Helper()
	g := &graph.Types{}
	for _, name := range strings.Fields(names) {
		plain := strings.TrimPrefix(name, "-")
		g.Nodes = append(g.Nodes, graph.NodeType{Name: plain, Count: 2, Features: plain == name})
	}
	for i, e := range ends {
		g.Relations = append(g.Relations, graph.Relation{Source: e[0], Name: fmt.Sprint("r", i), Destination: e[1]})
	}
	return g
}

// TestOrder fills types in rounds: first the types beside those with features.
func TestOrder(t *testing.T) {
	for _, c := range []struct {
		types *graph.Types
		want  string
	}{
		{typesOf(t, "paper -city -author", [2]int{2, 0}, [2]int{2, 1}), "[0 2 1]"},
		{typesOf(t, "paper -city -author", [2]int{0, 2}, [2]int{1, 2}), "[0 2 1]"},
		{typesOf(t, "paper -city -author", [2]int{2, 0}, [2]int{0, 1}), "[0 1 2]"},
		{typesOf(t, "paper -a -b -c -d", [2]int{4, 0}, [2]int{3, 4}, [2]int{2, 3}, [2]int{1, 2}), "[0 4 3 2 1]"},
		{typesOf(t, "paper -a -b", [2]int{0, 0}, [2]int{1, 2}), "no relations join the node types a, b with a type that has features: they cannot be filled"},
		{typesOf(t, "paper author", [2]int{0, 1}), "all node types have features: there is nothing to fill"},
		{typesOf(t, "-paper", [2]int{0, 0}), "no relations join the node types paper with a type that has features: they cannot be filled"},
	} {
		order, err := Order(c.types)
		got := fmt.Sprint(order)
		if err != nil {
			got = err.Error()
		}
		if got != c.want || err != nil && !errors.Is(err, fault.ErrInput) {
			t.Errorf("%+v: %s, want %s", c.types, got, c.want)
		}
	}
}

// TestSteps prefers relations into a type, and takes none from types of the same round or a later one.
func TestSteps(t *testing.T) {
	for _, c := range []struct {
		types *graph.Types
		want  string
	}{
		{typesOf(t, "paper -author -city", [2]int{1, 0}, [2]int{0, 1}, [2]int{2, 1}, [2]int{1, 2}), "[{1 [1] false} {2 [3] false}]"},
		{typesOf(t, "paper -author -city", [2]int{1, 0}, [2]int{1, 0}, [2]int{1, 1}, [2]int{1, 2}), "[{1 [0 1] true} {2 [3] false}]"},
		{typesOf(t, "paper word -author", [2]int{2, 0}, [2]int{2, 1}), "[{2 [0 1] true}]"},
		{typesOf(t, "paper word -author", [2]int{2, 0}, [2]int{1, 2}), "[{2 [1] false}]"},
		{typesOf(t, "paper -a -b", [2]int{0, 1}, [2]int{0, 2}, [2]int{1, 2}), "[{1 [0] false} {2 [1] false}]"}, // a and b in one round
		{typesOf(t, "paper -city -author", [2]int{2, 0}, [2]int{2, 1}), "fill: types of the rounds [0 2 1] are out of order"},
		{typesOf(t, "paper -a", [2]int{0, 0}), "fill: types of the rounds [0 -1] are out of order"},
	} {
		steps, err := Steps(c.types)
		got := fmt.Sprint(steps)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.types, got, c.want)
		}
	}
}

// TestMemory divides the memory: a row of 100 elements takes 808 bytes.
func TestMemory(t *testing.T) {
	s := Shape{100, dtype.Float32}
	fixed := int64(2*2621*400 + 8<<16)
	if got := LeastMemory(s); got != fixed+4<<20+1<<16 {
		t.Errorf("%d bytes at least", got)
	}
	for _, c := range []struct{ memory, sort, nodes int64 }{
		{LeastMemory(s), 4 << 20, (1 << 16) / 808},
		{fixed + 16<<20, 4 << 20, (12 << 20) / 808},
		{fixed + 64<<20, 16 << 20, (48 << 20) / 808},
		{fixed + 48<<30, 512 << 20, (48<<30 - 512<<20) / 808},
		{fixed + 808<<30, 8 << 30, 800 << 30 / 808},
	} {
		if sort, nodes := divide(s, c.memory); sort != c.sort || nodes != c.nodes {
			t.Errorf("%d bytes: %d for the sort, and %d nodes; want %d, %d", c.memory, sort, nodes, c.sort, c.nodes)
		}
	}
	if got, want := LeastMemory(Shape{1 << 20, dtype.Float16}), int64(2*6<<20+pairs*8+4<<20+8<<20+8); got != want {
		t.Errorf("a wide row: %d bytes, want %d", got, want)
	}
}

// TestHeldMemory compares the memory that is held with the plan: with the sort it is all, but for a part of a row.
func TestHeldMemory(t *testing.T) {
	for _, s := range []Shape{{1, dtype.Float32}, {100, dtype.BFloat16}, {300_000, dtype.Float16}} {
		memory := LeastMemory(s) + 10<<20
		a := NewSums(Options{Shape: s, Memory: memory}, 1<<40)
		held := a.sort + int64(8*cap(a.sums)+8*cap(a.counts)+4*cap(a.keys)+4*cap(a.nodeOf))
		for _, slot := range a.slots {
			if held += int64(4 * cap(slot.values)); s.DType != dtype.Float32 {
				held += int64(cap(slot.raw))
			}
		}
		if held > memory || held <= memory-s.sumBytes() {
			t.Errorf("%+v: %d bytes are held, %d are planned", s, held, memory)
		}
	}
}

// memory is a graph in memory. Rows lie in pieces of an odd size.
type memory struct {
	types *graph.Types
	lists [][]uint32 // by row of the topology
	rows  []float32
	raw   []byte
	shape Shape
	piece int64
	read  []int64 // the pieces read in this pass
	fails error   // reading rows
	lost  error   // counting edges
}

func (m *memory) pieces(lo, hi int64) (first, last int64) {
	row := m.shape.rowBytes()
	return lo * row / m.piece, (hi*row - 1) / m.piece
}

func (m *memory) Read(_ context.Context, lo, hi int64, buf []byte) error {
	copy(buf, m.raw[lo*m.shape.rowBytes():hi*m.shape.rowBytes()])
	for p, last := m.pieces(lo, hi); p <= last; p++ {
		if n := len(m.read); n == 0 || m.read[n-1] != p {
			m.read = append(m.read, p)
		}
	}
	return m.fails
}

func (m *memory) Apart(a, b int64) bool {
	_, last := m.pieces(a, a+1)
	first, _ := m.pieces(b, b+1)
	return first > last+1
}

func (m *memory) Edges(_ context.Context, lo, hi int64) (n int64, err error) {
	for _, list := range m.lists[lo:hi] {
		n += int64(len(list))
	}
	return n, m.lost
}

func (m *memory) Each(_ context.Context, lo, hi int64, see func(row int64, sources []uint32) error) error {
	for row := lo; row < hi; row++ {
		for part := range slices.Chunk(m.lists[row], 3) {
			if err := see(row, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// sums returns the sums of a graph, for passes of up to n nodes.
func (m *memory) sums(t *testing.T, n int64, workers int) *Sums {
	return NewSums(Options{
		Shape: m.shape, Types: m.types, Topology: m, FS: vfs.OS, Scratch: filepath.Join(t.TempDir(), "fill"), Memory: LeastMemory(m.shape) + 2*n*m.shape.sumBytes(), Workers: workers,
	}, n)
}

// TestPasses compares passes over drawn graphs with sums in the order of the neighbours: of types 0 and 1 the rows are
// known, and type 2 is filled.
func TestPasses(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := &memory{types: &graph.Types{}, shape: Shape{rapid.SampledFrom([]int{1, 3, 20, 100_000}).Draw(r, "dim"), rapid.SampledFrom([]dtype.Type{dtype.Float32, dtype.Float16}).Draw(r, "dtype")}}
		for i := range 3 {
			m.types.Nodes = append(m.types.Nodes, graph.NodeType{Name: fmt.Sprint("t", i), Count: int64(rapid.IntRange(1, 9).Draw(r, "nodes")), Features: i < 2})
		}
		kind := rapid.IntRange(0, 2)
		for i := range rapid.IntRange(1, 5).Draw(r, "relations") {
			m.types.Relations = append(m.types.Relations, graph.Relation{Source: kind.Draw(r, "source"), Name: fmt.Sprint("r", i), Destination: kind.Draw(r, "destination")})
		}
		slices.SortStableFunc(m.types.Relations, func(a, b graph.Relation) int { return a.Destination - b.Destination })
		if err := m.types.Check(); err != nil {
			r.Fatal(err)
		}
		steps, err := Steps(m.types)
		if err != nil {
			return // no relation joins the third type
		}
		node := func(kind int) uint32 {
			lo, hi := m.types.Range(kind)
			return uint32(rapid.Int64Range(lo, hi-1).Draw(r, "node"))
		}
		type edge struct{ node, neighbour uint32 }
		var edges []edge
		for row := range m.types.NumRows() {
			v, relation := m.types.RowOf(row)
			var list []uint32
			for range rapid.IntRange(0, 5).Draw(r, "degree") {
				list = append(list, node(m.types.Relations[relation].Source))
			}
			slices.Sort(list)
			m.lists = append(m.lists, list)
			for _, u := range list {
				switch {
				case !slices.Contains(steps[0].Relations, relation):
				case steps[0].Reversed:
					edges = append(edges, edge{u, v})
				default:
					edges = append(edges, edge{v, u})
				}
			}
		}
		slices.SortStableFunc(edges, func(a, b edge) int { return int(a.neighbour) - int(b.neighbour) })
		lo, end := m.types.Range(2)
		m.rows = make([]float32, lo*int64(m.shape.Dim))
		for i := range m.rows {
			m.rows[i] = float32(i*i%1009) / 8
		}
		m.raw = make([]byte, len(m.rows)*m.shape.DType.Size())
		dtype.Convert(m.raw, m.shape.DType, binio.Bytes(m.rows), dtype.Float32)
		dtype.Convert(binio.Bytes(m.rows), dtype.Float32, m.raw, m.shape.DType)
		m.piece = max(1, m.shape.rowBytes()*rapid.Int64Range(1, 5).Draw(r, "thirds of a row to a piece")/3)
		s := m.sums(t, rapid.Int64Range(1, end-lo).Draw(r, "nodes of a pass"), rapid.IntRange(1, 4).Draw(r, "workers"))
		for at := lo; at < end; {
			m.read = nil
			hi, err := s.Pass(t.Context(), steps[0], m, at, end)
			if err != nil || hi != min(at+s.nodes, end) {
				r.Fatalf("%d to %d: %v", at, hi, err)
			}
			var needed []int64
			row := make([]float32, m.shape.Dim)
			for v := at; v < hi; v++ {
				sum, n := make([]float64, m.shape.Dim), int64(0)
				for _, e := range edges {
					if int64(e.node) != v {
						continue
					}
					n++
					for j := range sum {
						sum[j] += float64(m.rows[int(e.neighbour)*m.shape.Dim+j])
					}
				}
				if got := s.Mean(v, row); got != n {
					r.Fatalf("node %d has %d neighbours, want %d", v, got, n)
				}
				for j := range sum {
					if want := float32(sum[j] / float64(max(n, 1))); row[j] != want {
						r.Fatalf("node %d: element %d is %v, want %v", v, j, row[j], want)
					}
				}
			}
			for _, e := range edges {
				if int64(e.node) >= at && int64(e.node) < hi {
					for p, last := m.pieces(int64(e.neighbour), int64(e.neighbour)+1); p <= last; p++ {
						needed = append(needed, p)
					}
				}
			}
			// Each piece with a row of a neighbour is read once, and no other.
			slices.Sort(needed)
			needed = slices.Compact(needed)
			if !slices.Equal(m.read, needed) {
				r.Fatalf("pieces %v are read, %v are needed", m.read, needed)
			}
			at = hi
		}
	})
}

// TestHub fills a node with more neighbours than are gathered at once: 40,000 edges from each of two nodes. In float32, the
// sum of the rows would be wrong.
func TestHub(t *testing.T) {
	m := &memory{types: typesOf(t, "paper -author", [2]int{0, 1}), shape: Shape{1, dtype.Float32}, piece: 4}
	if err := m.types.Check(); err != nil {
		t.Fatal(err)
	}
	for i := range uint32(80_000) {
		if i == 0 {
			m.lists = append(m.lists, nil, nil)
		}
		m.lists[1] = append(m.lists[1], i/40_000)
	}
	m.raw = binio.Bytes([]float32{1<<24 + 2, 1<<24 + 4})
	s := m.sums(t, 2, 1)
	steps, err := Steps(m.types)
	if err == nil {
		_, err = s.Pass(t.Context(), steps[0], m, 2, 4)
	}
	row := make([]float32, 1)
	if n := s.Mean(3, row); err != nil || n != 80_000 || row[0] != 1<<24+4 { // 2^24 + 3, to even
		t.Errorf("%v of %d neighbours, %v", row, n, err)
	}
	if n := s.Mean(2, row); n != 0 || row[0] != 0 {
		t.Errorf("%v of %d neighbours", row, n)
	}
	if cap(s.keys) != 1<<16 || cap(s.nodeOf) != 1<<16 {
		t.Errorf("room for %d and %d edges: it has grown", cap(s.keys), cap(s.nodeOf))
	}
	boom := errors.New("boom")
	m.lost = boom
	if _, err := s.Pass(t.Context(), steps[0], m, 2, 4); !errors.Is(err, boom) {
		t.Errorf("edges that cannot be counted: %v", err)
	}
	m.fails, m.lost = boom, nil
	if _, err := s.Pass(t.Context(), steps[0], m, 2, 4); !errors.Is(err, boom) || !strings.Contains(err.Error(), "read rows 0 to 1: ") {
		t.Errorf("%v", err)
	}
}

// TestWrongEdges refuses sources that are no nodes of the relation's source.
func TestWrongEdges(t *testing.T) {
	for _, c := range []struct {
		ends [2]int
		row  int
		says string
	}{
		{[2]int{0, 1}, 0, "an edge joins nodes 1 to 2, but the node type paper has nodes 0 to 1"},
		{[2]int{1, 0}, 0, "an edge joins nodes 1 to 2, but the node type author has nodes 2 to 3"},
	} {
		m := &memory{types: typesOf(t, "paper -author", c.ends), shape: Shape{1, dtype.Float32}, piece: 4, raw: make([]byte, 8)}
		if err := m.types.Check(); err != nil {
			t.Fatal(err)
		}
		m.lists = [][]uint32{{1, 2}, nil}
		steps, err := Steps(m.types)
		if err == nil {
			_, err = m.sums(t, 2, 1).Pass(t.Context(), steps[0], m, 2, 4)
		}
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v; want %q", err, c.says)
		}
	}
}
