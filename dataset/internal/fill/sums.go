package fill

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"diskgnn/dataset/internal/extsort"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/prefetch"
	"diskgnn/internal/vfs"
)

const (
	window    = 1 << 20   // bytes of rows, as float32, that are read at a time
	windows   = 2         // one is read while the rows of another are added
	pairs     = 1 << 16   // edges that are gathered before rows are read
	leastSums = 1 << 16   // bytes of sums, unless a row needs more
	mostSort  = 512 << 20 // more memory would not make sorting faster
	pairBytes = 4 + 4     // of an edge: neighbour and node
	sortShare = 4         // the sort gets a quarter of the memory
	sortLeast = extsort.LeastEdges
)

// Shape is the form of the rows.
type Shape struct {
	Dim   int
	DType dtype.Type
}

func (s Shape) rowBytes() int64 { return int64(s.Dim * s.DType.Size()) }

// windowRows returns the number of rows that are read at a time.
func (s Shape) windowRows() int64 { return max(1, window/int64(4*s.Dim)) }

// sumBytes is the memory of the sum of a row, and of the number of neighbours.
func (s Shape) sumBytes() int64 { return int64(8*s.Dim) + 8 }

// fixed is the memory of all but the sums and the sort.
func (s Shape) fixed() int64 {
	n := s.windowRows() * int64(4*s.Dim)
	if s.DType != dtype.Float32 {
		n += s.windowRows() * s.rowBytes()
	}
	return windows*n + pairs*pairBytes
}

// LeastMemory returns the least memory of a pass, in bytes.
func LeastMemory(s Shape) int64 { return s.fixed() + sortLeast + max(s.sumBytes(), leastSums) }

// divide returns the memory of the sort, and the number of nodes of a pass.
func divide(s Shape, memory int64) (sort, nodes int64) {
	free := memory - s.fixed()
	// All nodes of a pass may have one neighbour, which is sorted at once.
	sort = max(min(free/sortShare, max(mostSort, pairBytes*free/s.sumBytes())), sortLeast)
	return sort, max((free-sort)/s.sumBytes(), 1)
}

// NodesOfPass returns the number of nodes of a pass with the given memory, which is LeastMemory at least.
func NodesOfPass(s Shape, memory int64) int64 {
	_, n := divide(s, memory)
	return n
}

// ScratchBytes returns the largest size of the scratch file for a number of edges.
func ScratchBytes(edges int64) int64 { return extsort.EdgeBytes(edges) }

// Rows has the rows of features of the types that have some already. Nodes of these types are the numbers of their
// rows.
type Rows interface {
	// Read sets buf to the rows from lo to hi − 1. Ranges come in ascending order, in each pass from the first on.
	Read(ctx context.Context, lo, hi int64, buf []byte) error
	// Apart reports whether reading rows up to row a, and from row b on, spares reading a piece between them.
	Apart(a, b int64) bool
}

// Topology has the rows of the topology.
type Topology interface {
	// Edges returns the number of edges of the rows from lo to hi − 1.
	Edges(ctx context.Context, lo, hi int64) (int64, error)
	// Each calls see for each of these rows that has edges, in order, and for long ones several times. Sources
	// ascend, and are valid during the call.
	Each(ctx context.Context, lo, hi int64, see func(row int64, sources []uint32) error) error
}

// Options are the inputs and the limits of Sums.
type Options struct {
	Shape
	Types    *graph.Types
	Topology Topology
	FS       vfs.FS
	Scratch  string // the path of a scratch file
	Memory   int64
	Workers  int
}

// Sums are the sums of the rows of the neighbours of a range of nodes. It is not safe for concurrent use.
type Sums struct {
	o      Options
	sort   int64
	nodes  int64
	lo, hi int64     // the range of the last pass
	sums   []float64 // of nodes × dim
	counts []int64   // of neighbours
	keys   []uint32  // gathered edges: the neighbours, ascending,
	nodeOf []uint32  // and the nodes, from lo on
	cuts   []int     // of the gathered edges: where windows begin, and the end
	slots  []*slot
}

// slot has the rows of a window.
type slot struct {
	raw    []byte
	values []float32 // the same, in the same memory if it is float32
}

// NewSums allocates the memory for passes of up to most nodes.
func NewSums(o Options, most int64) *Sums {
	s := &Sums{o: o}
	s.sort, s.nodes = divide(o.Shape, o.Memory)
	s.nodes = min(s.nodes, most)
	s.sums, s.counts = make([]float64, s.nodes*int64(o.Dim)), make([]int64, s.nodes)
	s.keys, s.nodeOf = make([]uint32, 0, pairs), make([]uint32, 0, pairs)
	for range windows {
		r := &slot{values: make([]float32, o.windowRows()*int64(o.Dim))}
		if r.raw = binio.Bytes(r.values); o.DType != dtype.Float32 {
			r.raw = make([]byte, o.windowRows()*o.rowBytes())
		}
		s.slots = append(s.slots, r)
	}
	return s
}

// Pass sums the neighbours' rows of the nodes of the step's type from lo on, at most up to end − 1, and returns
// the node after the last.
func (s *Sums) Pass(ctx context.Context, step Step, table Rows, lo, end int64) (hi int64, err error) {
	s.lo, s.hi = lo, min(lo+s.nodes, end)
	clear(s.sums)
	clear(s.counts)
	s.keys, s.nodeOf = s.keys[:0], s.nodeOf[:0]
	if step.Reversed {
		err = s.along(ctx, step, table)
	} else {
		err = s.into(ctx, step, table)
	}
	if err == nil {
		err = s.flush(ctx, table)
	}
	return s.hi, err
}

// Mean sets row to the mean of node v of the last pass, and returns the number of its neighbours.
func (s *Sums) Mean(v int64, row []float32) int64 {
	i := v - s.lo
	n := s.counts[i]
	clear(row)
	if n > 0 {
		for j, sum := range s.sums[i*int64(len(row)):][:len(row)] {
			row[j] = float32(sum / float64(n))
		}
	}
	return n
}

// known returns the nodes that relation r of a step finds, as a range, and an error if it finds others.
func (s *Sums) known(kind int, first, last uint32) error {
	if lo, hi := s.o.Types.Range(kind); int64(first) < lo || int64(last) >= hi {
		return fault.New(fault.ErrCorrupt, "an edge joins nodes %d to %d, but the node type %s has nodes %d to %d", first, last, s.o.Types.Nodes[kind].Name, lo, hi-1)
	}
	return nil
}

// along adds the neighbours of relations that lead out of the type: rows of the topology are in their order.
func (s *Sums) along(ctx context.Context, step Step, table Rows) error {
	t := s.o.Types
	for kind := range t.Nodes {
		first, n := t.Into(kind)
		if !slices.ContainsFunc(step.Relations, func(r int) bool { return t.Relations[r].Destination == kind }) {
			continue
		}
		lo, hi := t.Range(kind)
		from, _ := t.Rows(uint32(lo))
		err := s.o.Topology.Each(ctx, from, from+(hi-lo)*int64(n), func(row int64, sources []uint32) error {
			at := row - from
			if !slices.Contains(step.Relations, first+int(at%int64(n))) {
				return nil
			}
			if err := s.known(step.Type, sources[0], sources[len(sources)-1]); err != nil {
				return err
			}
			i, _ := slices.BinarySearch(sources, uint32(s.lo))
			for _, v := range sources[i:] {
				if int64(v) >= s.hi {
					break
				}
				if err := s.add(ctx, table, uint32(lo+at/int64(n)), uint32(int64(v)-s.lo)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// into adds the neighbours of relations that lead into the type: the edges of its rows, sorted by the neighbours.
func (s *Sums) into(ctx context.Context, step Step, table Rows) (err error) {
	t := s.o.Types
	first, n := t.Into(step.Type)
	from, _ := t.Rows(uint32(s.lo))
	to := from + (s.hi-s.lo)*int64(n)
	edges, err := s.o.Topology.Edges(ctx, from, to)
	if err != nil {
		return err
	}
	end := int64(0) // of the neighbours
	for _, r := range step.Relations {
		_, hi := t.Range(t.Relations[r].Source)
		end = max(end, hi)
	}
	sort, err := extsort.NewEdges(s.o.FS, s.o.Scratch, extsort.EdgeOptions{Nodes: end, Edges: edges, Memory: s.sort, Workers: s.o.Workers})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sort.Close()) }()
	err = s.o.Topology.Each(ctx, from, to, func(row int64, sources []uint32) error {
		at := row - from
		relation := first + int(at%int64(n))
		if !slices.Contains(step.Relations, relation) {
			return nil
		}
		if err := s.known(t.Relations[relation].Source, sources[0], sources[len(sources)-1]); err != nil {
			return err
		}
		for _, u := range sources {
			if err := sort.Add(u, uint32(at/int64(n))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	u := uint32(0)
	return sort.Rows(ctx, func(degrees, nodes []uint32) error {
		for _, n := range degrees {
			for _, v := range nodes[:n] {
				if err := s.add(ctx, table, u, v); err != nil {
					return err
				}
			}
			nodes = nodes[n:]
			u++
		}
		return nil
	})
}

// add gathers an edge from neighbour u to node lo + i. Neighbours ascend.
func (s *Sums) add(ctx context.Context, table Rows, u, i uint32) error {
	if len(s.keys) == pairs {
		if err := s.flush(ctx, table); err != nil {
			return err
		}
	}
	s.keys, s.nodeOf = append(s.keys, u), append(s.nodeOf, i)
	return nil
}

// flush adds the rows of the gathered edges, window by window.
func (s *Sums) flush(ctx context.Context, table Rows) error {
	s.cuts = s.cuts[:0]
	for i, u := range s.keys {
		if i == 0 || int64(u-s.keys[s.cuts[len(s.cuts)-1]]) >= s.o.windowRows() || table.Apart(int64(s.keys[i-1]), int64(u)) {
			s.cuts = append(s.cuts, i)
		}
	}
	n := len(s.cuts)
	s.cuts = append(s.cuts, len(s.keys))
	err := errgroup.Ordered(ctx, n, s.slots,
		func(ctx context.Context, r *slot, i int) error {
			first, last := int64(s.keys[s.cuts[i]]), int64(s.keys[s.cuts[i+1]-1])
			n := last - first + 1
			raw := r.raw[:n*s.o.rowBytes()]
			if err := table.Read(ctx, first, last+1, raw); err != nil {
				return fmt.Errorf("read rows %d to %d: %w", first, last, err)
			}
			if s.o.DType != dtype.Float32 {
				dtype.Convert(binio.Bytes(r.values[:n*int64(s.o.Dim)]), dtype.Float32, raw, s.o.DType)
			}
			return nil
		},
		func(r *slot, i int) error {
			at, end := s.cuts[i], s.cuts[i+1]
			return s.accumulate(ctx, r.values, s.keys[at], s.keys[at:end], s.nodeOf[at:end])
		})
	s.keys, s.nodeOf = s.keys[:0], s.nodeOf[:0]
	return err
}

// line is the number of sums in a line of a processor's cache.
const line = 8

// accumulate adds rows to sums. Workers divide the columns, so that each sum is made in the order of the edges.
func (s *Sums) accumulate(ctx context.Context, values []float32, first uint32, keys, nodes []uint32) error {
	for _, i := range nodes {
		s.counts[i]++
	}
	dim := int64(s.o.Dim)
	workers := max(s.o.Workers, 1)
	grain := ((s.o.Dim+workers-1)/workers + line - 1) / line * line
	return errgroup.Ranges(ctx, workers, s.o.Dim, grain, func(_, from, to int) error {
		for e, u := range keys {
			row := values[int64(u-first)*dim:][from:to]
			sum := s.sums[int64(nodes[e])*dim:][from:to]
			if e+ahead < len(nodes) {
				prefetch.Bytes(binio.Bytes(s.sums[int64(nodes[e+ahead])*dim:][from:to]))
			}
			addRow(sum, row)
		}
		return nil
	})
}

// ahead is by how many edges sums are asked for before they are used: they lie at random places.
const ahead = 4

// addRow adds a row to a sum.
func addRow(sum []float64, row []float32) {
	for len(row) >= 4 && len(sum) >= 4 {
		sum[0] += float64(row[0])
		sum[1] += float64(row[1])
		sum[2] += float64(row[2])
		sum[3] += float64(row[3])
		sum, row = sum[4:], row[4:]
	}
	for j, x := range row {
		sum[j] += float64(x)
	}
}
