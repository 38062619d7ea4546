// Package table reads the feature table in ranges of rows, as rows of the pack's
// element type.
package table

import (
	"context"
	"fmt"
	"sync"

	"diskgnn/dataset"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/kernel"
	"diskgnn/iostack"
	"diskgnn/iostack/pieces"
)

const (
	// longRow is the least row, in bytes, that is read by ReadRows: a large part of every piece would
	// otherwise cross into the next.
	longRow = dataset.Granule / 16
)

// Reader reads ranges of the feature table, as rows of the pack's type. It reads many pieces at a time, and
// up to workers goroutines check and convert them as they arrive.
type Reader struct {
	rows *dataset.FeatureReader
	from dtype.Type
	to   dtype.Type
	dim  int

	*pieces.Reader
	buffers *pieces.Buffers
	wide    [pieces.Depth][]float32 // by buffer: a row before it is narrowed, if it is no float32s
	turns   chan struct{}           // a token for each worker that may compute
	seams   chan []byte             // memory of rows that lie in two pieces
}

// mostSeams bounds the rows of which one part has landed, and the other is on its way: a
// piece under way has at most one at either end.
const mostSeams = 2 * pieces.Depth

// Memory returns the memory of a Reader beside the ranges, in bytes, for a table with rows of rowBytes
// bytes and dim elements, compressed or not.
func Memory(rowBytes int64, dim int, compressed bool) int64 {
	wide := 4 * int64(dim) // a row before it is narrowed
	n := pieces.Memory(dataset.Granule, compressed)
	if rowBytes < longRow {
		return n + mostSeams*rowBytes + pieces.Depth*wide
	}
	n += rowBytes + wide + dataset.Granule // and the memory of ReadRows
	if compressed {
		n += 4 << 20
	}
	return n
}

// New opens the table of rows, with dim elements of type from in a row, for reading through the stack as
// rows of type to. workers is the number of converting goroutines. The caller closes the Reader.
func New(rows *dataset.FeatureReader, stack iostack.Stack, from, to dtype.Type, dim, workers int) (*Reader, error) {
	t := &Reader{rows: rows, from: from, to: to, dim: dim, turns: make(chan struct{}, workers), seams: make(chan []byte, mostSeams)}
	var err error
	if t.buffers, err = pieces.NewBuffers(dataset.Granule, rows.Compressed()); err != nil {
		return nil, err
	}
	if t.Reader, err = pieces.Open(stack, rows, t.buffers); err != nil {
		t.buffers.Free()
		return nil, err
	}
	return t, nil
}

// Close closes the file and frees the memory. No range may be under way.
func (t *Reader) Close() {
	_ = t.Reader.Close()
	t.buffers.Free()
}

// RowBytes returns the bytes of a row in the table.
func (t *Reader) RowBytes() int64 { return int64(t.dim * t.from.Size()) }

// End returns the end of a range that begins at row lo: at most n rows later, and if possible at the end of
// a piece, so that no piece is read twice. nodes is the number of rows of the table.
func (t *Reader) End(lo, n, nodes int64) int64 {
	if lo+n >= nodes {
		return nodes
	}
	if hi := (lo + n) * t.RowBytes() / dataset.Granule * dataset.Granule / t.RowBytes(); hi > lo {
		return hi
	}
	return lo + n
}

// Read fills dst with the rows lo ≤ v < hi, in the pack's element type. A value that this type cannot hold
// is an error of kind fault.ErrInput. One range is read at a time.
func (t *Reader) Read(ctx context.Context, lo, hi int64, dst []byte) error {
	if t.RowBytes() >= longRow {
		return t.readLong(ctx, lo, hi, dst)
	}
	e := t.rows.Extent(lo, hi)
	r := &rangeRead{t: t, lo: lo, hi: hi, dst: dst, halves: map[int64]*seam{}}
	next := e.First
	return t.Reader.Read(ctx, func() (int, bool) {
		next++
		return next - 1, next <= e.End
	}, r.piece)
}

// readLong reads rows that are longer than pieces, or nearly.
func (t *Reader) readLong(ctx context.Context, lo, hi int64, dst []byte) error {
	rb := int64(t.to.RowBytes(t.dim))
	if t.from == t.to {
		return t.rows.ReadRows(ctx, lo, hi, dst[:(hi-lo)*rb])
	}
	row := make([]byte, t.RowBytes())
	wide := make([]float32, t.dim)
	for v := lo; v < hi; v++ {
		if err := t.rows.ReadRows(ctx, v, v+1, row); err != nil {
			return err
		}
		if err := t.convert(wide, dst[(v-lo)*rb:(v-lo+1)*rb], row, v); err != nil {
			return err
		}
	}
	return nil
}

// convert writes whole rows of the table, the first of which is node first's, as rows of the pack. The
// table is finite; a value that is not finite in the pack's type is refused.
func (t *Reader) convert(wide []float32, dst, src []byte, first int64) error {
	if t.from == t.to {
		copy(dst, src)
		return nil
	}
	rb, sb := t.to.RowBytes(t.dim), int(t.RowBytes())
	if t.from == dtype.Float32 {
		if !kernel.Narrow(dst, t.to, binio.View[float32](src), t.dim) {
			return t.refuse(src, first)
		}
		return nil
	}
	for ; len(src) > 0; first, src, dst = first+1, src[sb:], dst[rb:] {
		kernel.Widen(wide, src[:sb], t.from, t.dim)
		if !kernel.Narrow(dst[:rb], t.to, wide, t.dim) {
			return t.refuse(src[:sb], first)
		}
	}
	return nil
}

// refuse names the first element that the pack's type does not hold.
func (t *Reader) refuse(src []byte, first int64) error {
	one, out := make([]float32, 1), make([]byte, dtype.ScaleBytes+4)
	for i := 0; i < len(src)/t.from.Size(); i++ {
		kernel.Widen(one, src[i*t.from.Size():(i+1)*t.from.Size()], t.from, 1)
		if !kernel.Narrow(out, t.to, one, 1) {
			return fault.New(fault.ErrInput, "%s: feature %d of node %d is more than %s holds; use another --dtype", t.rows.Path(), i%t.dim, first+int64(i/t.dim), t.to)
		}
	}
	return fault.New(fault.ErrInput, "%s: features from node %d on are more than %s holds; use another --dtype", t.rows.Path(), first, t.to)
}

// wideRow returns a buffer's memory for one row of float32, nil if no row is converted by way of float32.
func (t *Reader) wideRow(buffer int) []float32 {
	if t.from == t.to || t.from == dtype.Float32 {
		return nil
	}
	t.wide[buffer] = binio.Grow(t.wide[buffer], t.dim)
	return t.wide[buffer]
}

// rangeRead is the state of reading one range.
type rangeRead struct {
	t      *Reader
	lo, hi int64
	dst    []byte

	mu     sync.Mutex
	halves map[int64]*seam // by row: the rows with one part landed
}

// seam is a row in two pieces.
type seam struct {
	row  []byte
	have int // bytes of it
}

// piece checks and converts a piece.
func (r *rangeRead) piece(p *pieces.Piece) error {
	r.t.turns <- struct{}{}
	defer func() { <-r.t.turns }()
	plain, err := p.Decode()
	if err != nil {
		return err
	}
	wide := r.t.wideRow(p.Buffer)
	sb, rb := r.t.RowBytes(), int64(r.t.to.RowBytes(r.t.dim))
	at := int64(p.Index) * dataset.Granule // of plain in the table
	end := at + int64(len(plain))
	a, b := max((at+sb-1)/sb, r.lo), min(end/sb, r.hi) // whole rows
	if a < b {
		if err := r.t.convert(wide, r.dst[(a-r.lo)*rb:(b-r.lo)*rb], plain[a*sb-at:b*sb-at], a); err != nil {
			return err
		}
	}
	// The rows in part: the front of the piece ends one, its back begins another.
	if n := at % sb; n != 0 {
		if err := r.part(wide, at/sb, n, plain[:sb-n]); err != nil {
			return err
		}
	}
	if n := end % sb; n != 0 {
		return r.part(wide, end/sb, 0, plain[int64(len(plain))-n:])
	}
	return nil
}

// part takes the bytes from at on of a row in two pieces, and converts the row when it has both.
func (r *rangeRead) part(wide []float32, v, at int64, b []byte) error {
	if v < r.lo || v >= r.hi {
		return nil
	}
	r.mu.Lock()
	s := r.halves[v]
	if s == nil {
		s = &seam{row: r.t.takeSeam()}
		r.halves[v] = s
	}
	copy(s.row[at:], b)
	s.have += len(b)
	whole := s.have == len(s.row)
	if whole {
		delete(r.halves, v)
	}
	r.mu.Unlock()
	if !whole {
		return nil
	}
	defer r.t.giveSeam(s.row)
	rb := int64(r.t.to.RowBytes(r.t.dim))
	if err := r.t.convert(wide, r.dst[(v-r.lo)*rb:(v-r.lo+1)*rb], s.row, v); err != nil {
		return fmt.Errorf("node %d: %w", v, err)
	}
	return nil
}

// takeSeam returns memory for a row, reusing an earlier row's if there is any.
func (t *Reader) takeSeam() []byte {
	select {
	case row := <-t.seams:
		return row
	default:
		return make([]byte, t.RowBytes())
	}
}

// giveSeam takes memory of a row back.
func (t *Reader) giveSeam(row []byte) {
	select {
	case t.seams <- row:
	default: // no more are ever under way
	}
}
