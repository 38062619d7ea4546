// Package extsort sorts data larger than memory: the edges of a graph (Edges), and records that have
// places (Records). Both write blocks to one scratch file, by buckets, and sort one bucket after the
// other. The order does not depend on the memory, the number of buckets or workers.
package extsort

import (
	"math/bits"

	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

const (
	bytesOfEdge = 8
	blockEdges  = 8192
	blockBytes  = blockEdges * bytesOfEdge

	// maxBuckets bounds the write buffers, maxCells the counters from which the
	// units of sorting are cut.
	maxBuckets = 4096
	maxCells   = 1 << 16
	// nodeBytes is the memory of a unit per destination: a degree and an offset.
	nodeBytes = 4 + 8
	// unitBytes is about as much as a unit should hold however much memory there
	// is: more would only leave the caches.
	unitBytes = 32 << 20
)

// EdgeOptions describe a sort of edges.
type EdgeOptions struct {
	Nodes   int64
	Edges   int64 // how many at most; a guess does, for the number of buckets
	Memory  int64 // bytes to hold
	Workers int
	Unique  bool // drop all but one of equal edges
}

// EdgeBytes returns the size of the scratch file for the given number of edges.
func EdgeBytes(edges int64) int64 { return bytesOfEdge * edges }

// LeastEdges is the memory that every sort of edges needs; hubs may need more.
const LeastEdges = 4 << 20

// Edges puts the edges of a graph in order of destination and source, in a bounded amount of
// memory.
//
// Edges arrive in any order. They are bucketed by ranges of destinations into
// one scratch file, in blocks; then each bucket is read back, counted, placed
// and sorted row by row, and handed on in order:
//
//	Add … Add ──► blocks per bucket, on disk ──► Rows: count ─► place ─► sort ──► emit
//
// A block of the scratch file is up to 8192 edges of 8 bytes each: destination,
// source, uint32, little-endian.
type Edges struct {
	file        *blockFile
	o           EdgeOptions
	cellNodes   int64 // destinations of a cell
	bucketCells int64
	cellShift   int     // cellNodes as a power of two
	bucketShift int     // destinations of a bucket likewise
	cells       []int64 // edges of each cell
	buckets     []edgeBucket
	added       int64
}

type edgeBucket struct {
	buf    []uint32 // pairs of destination and source, not yet in the file
	blocks []block
}

// NewEdges prepares a sort with a scratch file of the given name, which Close removes.
func NewEdges(fsys vfs.FS, name string, o EdgeOptions) (_ *Edges, err error) {
	if o.Memory < LeastEdges {
		return nil, fault.New(fault.ErrBudget, "sorting edges needs at least %s of memory", budget.FormatBytes(LeastEdges))
	}
	s := &Edges{o: o}
	// Powers of two, so that an edge's cell and bucket are found by shifts.
	s.cellShift = shiftFor(max((o.Nodes+maxCells-1)/maxCells, 1))
	s.cellNodes = 1 << s.cellShift
	cells := (o.Nodes + s.cellNodes - 1) / s.cellNodes
	n := s.wantBuckets()
	s.bucketCells = 1 << shiftFor((cells+n-1)/n)
	s.bucketShift = s.cellShift + shiftFor(s.bucketCells)
	s.cells = make([]int64, cells)
	s.buckets = make([]edgeBucket, (cells+s.bucketCells-1)/s.bucketCells)
	if s.file, err = createBlocks(fsys, name, false); err != nil {
		return nil, err
	}
	return s, nil
}

// wantBuckets returns how many buckets make units of the right size, if the
// edges spread evenly, and leave work for every worker.
func (s *Edges) wantBuckets() int64 {
	total := 4*s.o.Edges + nodeBytes*s.o.Nodes
	unit := min(s.o.Memory/int64(s.o.Workers+1), unitBytes)
	n := 2 * (total + unit - 1) / unit
	if s.o.Edges > 64*blockEdges {
		n = max(n, int64(2*s.o.Workers))
	}
	return max(min(n, maxBuckets, s.o.Memory/(2*blockBytes), s.o.Nodes), 1)
}

// Add takes the edge from src to dst. Both must be nodes. It is not safe for
// concurrent use.
func (s *Edges) Add(dst, src uint32) error {
	b := &s.buckets[int(dst>>s.bucketShift)]
	if b.buf == nil {
		b.buf = make([]uint32, 0, 2*blockEdges)
	}
	b.buf = append(b.buf, dst, src)
	s.added++
	if len(b.buf) == cap(b.buf) {
		return s.flush(b)
	}
	return nil
}

// AddAll takes edges, as pairs of destination and source; with both set, their reverses too.
func (s *Edges) AddAll(pairs []uint32, both bool) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := s.Add(pairs[i], pairs[i+1]); err != nil {
			return err
		}
		if !both {
			continue
		}
		if err := s.Add(pairs[i+1], pairs[i]); err != nil {
			return err
		}
	}
	return nil
}

// shiftFor returns the least power of two that is n or more, as an exponent.
func shiftFor(n int64) int { return bits.Len64(uint64(n - 1)) }

// Added returns the number of edges so far.
func (s *Edges) Added() int64 { return s.added }

func (s *Edges) flush(b *edgeBucket) error {
	if len(b.buf) == 0 {
		return nil
	}
	// The counting is here, where all cells belong to one bucket, and are near each other in memory.
	for i := 0; i < len(b.buf); i += 2 {
		s.cells[b.buf[i]>>s.cellShift]++
	}
	k, err := s.file.Write(binio.Bytes(b.buf))
	if err != nil {
		return err
	}
	b.blocks = append(b.blocks, k)
	b.buf = b.buf[:0]
	return nil
}

// Close removes the scratch file.
func (s *Edges) Close() error { return s.file.Close() }
