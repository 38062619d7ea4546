package matrix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unsafe"

	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// A kind is the type of a column's values.
type kind uint8

const (
	boolean kind = iota // a byte, 0 or 1
	int8s
	int16s
	int32s
	int64s
	uint8s
	uint16s
	uint32s
	uint64s
	halves
	singles
	doubles
	words
)

// size is the number of bytes of a value.
func (k kind) size() int {
	return [...]int{1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 0}[k]
}

func (k kind) integer() bool { return k <= uint64s }

// block is the number of values that are converted at a time.
const block = 1024

// scratch is memory for a block, which the columns of a file share.
type scratch struct {
	values, other [block]uint64
	index         [block]int32
	present       [block]uint8
	starts        [block]uint8 // 1: a row begins with the value
}

// batch is values of a column that follow one another: a page, or the column in a record batch.
type batch struct {
	left    int                        // values that were not taken, with the missing
	present func(dst []uint8) error    // sets 1 for each of the next values that is there; nil: all are
	sparse  bool                       // data has places for the missing
	starts  func(dst []uint8) error    // sets 1 for each of the next values that begins a row; nil: by width
	index   func(dst []int32) error    // sets the places of the next values in data; nil: one after the other
	data    []byte                     // numbers
	at      int                        // values of data that were taken, without index
	word    func(i int) ([]byte, bool) // the i-th word, if it is there
}

// typed is a column of a file that has types, as a stream of values.
type typed struct {
	batch
	name  string
	kind  kind
	width int   // values of a row
	taken int64 // values
	// next sets the batch to the next one, or returns io.EOF.
	next func(c *typed) error
}

// columnar is a table of columns with types.
type columnar struct {
	name    string
	f       vfs.File
	rows    int64
	left    int64 // rows
	cols    int
	columns []*typed
	*scratch
	guard func(name string, do func() error) error // turns panics of a library into errors
}

func (m *columnar) Name() string  { return m.name }
func (m *columnar) Rows() int64   { return m.rows }
func (m *columnar) Columns() int  { return m.cols }
func (m *columnar) Integer() bool { return m.all(kind.integer) }
func (m *columnar) Half() bool    { return m.all(func(k kind) bool { return k == halves }) }
func (m *columnar) Mask() bool    { return m.all(func(k kind) bool { return k == boolean }) }
func (m *columnar) End() error    { return nil }
func (m *columnar) Close() error  { return m.f.Close() }

func (m *columnar) all(is func(kind) bool) bool {
	for _, c := range m.columns {
		if !is(c.kind) {
			return false
		}
	}
	return true
}

// Names has the name of a list for each of its elements.
func (m *columnar) Names() []string {
	names := make([]string, 0, m.cols)
	for _, c := range m.columns {
		for range c.width {
			names = append(names, c.name)
		}
	}
	return names
}

func (m *columnar) bad(format string, args ...any) error {
	return fault.New(fault.ErrInput, "%s: %s", m.name, fmt.Sprintf(format, args...))
}

// add appends a column, of words if they are allowed.
func (m *columnar) add(c *typed) error {
	m.columns = append(m.columns, c)
	if m.cols += c.width; m.cols > maxColumns {
		return m.bad("it has more than %d columns", maxColumns)
	}
	return nil
}

func (m *columnar) Ints(dst []int64) (int, error)      { return fill(m, dst) }
func (m *columnar) Floats(dst []float32) (int, error)  { return fill(m, dst) }
func (m *columnar) Doubles(dst []float64) (int, error) { return fill(m, dst) }

type number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// fill sets dst to the next rows and returns the number of elements set.
func fill[T number](m *columnar, dst []T) (n int, err error) {
	rows := int(min(int64(len(dst)/m.cols), m.left))
	err = m.guard(m.name, func() error {
		at := 0
		for _, c := range m.columns {
			if err := take(m, c, dst[min(at, len(dst)):], rows*c.width); err != nil {
				return err
			}
			at += c.width
		}
		m.left -= int64(rows)
		return m.checkEnd()
	})
	if err != nil {
		return 0, err
	}
	return rows * m.cols, nil
}

// checkEnd returns an error if all rows were read and a column has more values.
func (m *columnar) checkEnd() error {
	if m.left > 0 {
		return nil
	}
	for _, c := range m.columns {
		for c.left == 0 && c.next != nil {
			if err := c.next(c); errors.Is(err, io.EOF) {
				c.next = nil
			} else if err != nil {
				return err
			}
		}
		if c.left > 0 {
			return m.bad("column %s has more values than its description says", c.name)
		}
	}
	return nil
}

// ahead makes sure that a column has a value.
func (m *columnar) ahead(c *typed) error {
	for c.left == 0 {
		err := c.next(c)
		if errors.Is(err, io.EOF) {
			return m.bad("column %s ends %d values early", c.name, m.rows*int64(c.width)-c.taken)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// slots takes the next k values of a batch, of which it returns the number in data; it sets present and,
// if there is one, index.
func (m *columnar) slots(c *typed, k int) (n int, err error) {
	defer func() {
		if err != nil {
			err = m.bad("column %s: %v", c.name, err)
		}
	}()
	n = k
	if c.starts != nil {
		if err := c.starts(m.starts[:k]); err != nil {
			return 0, err
		}
		at := int(c.taken % int64(c.width))
		for _, starts := range m.starts[:k] {
			if (starts == 1) != (at == 0) {
				return 0, errors.New("its lists have different lengths")
			}
			if at++; at == c.width {
				at = 0
			}
		}
	}
	if c.present != nil {
		if err := c.present(m.present[:k]); err != nil {
			return 0, err
		}
		if !c.sparse {
			n = 0
			for _, p := range m.present[:k] {
				n += int(p)
			}
		}
	}
	if c.index != nil {
		err = c.index(m.index[:n])
	}
	c.left -= k
	c.taken += int64(k)
	return n, err
}

// take sets n elements of dst to the next values of a column: width of them in each row of m.cols.
func take[T number](m *columnar, c *typed, dst []T, n int) error {
	for done := 0; done < n; {
		if err := m.ahead(c); err != nil {
			return err
		}
		k := min(n-done, c.left, block)
		slots, err := m.slots(c, k)
		if err != nil {
			return err
		}
		row, place := done/c.width, done%c.width
		if err := convert(m, c, dst[row*m.cols:], place, k, slots); err != nil {
			return err
		}
		done += k
	}
	return nil
}

// convert sets elements of dst, which begins with a row, from the given place on.
func convert[T number](m *columnar, c *typed, dst []T, place, k, slots int) error {
	switch c.kind {
	case boolean, uint8s:
		return scatter(m, c, dst, place, k, gather[uint8](m, c, slots))
	case int8s:
		return scatter(m, c, dst, place, k, gather[int8](m, c, slots))
	case int16s:
		return scatter(m, c, dst, place, k, gather[int16](m, c, slots))
	case int32s:
		return scatter(m, c, dst, place, k, gather[int32](m, c, slots))
	case int64s:
		return scatter(m, c, dst, place, k, gather[int64](m, c, slots))
	case uint16s:
		return scatter(m, c, dst, place, k, gather[uint16](m, c, slots))
	case uint32s:
		return scatter(m, c, dst, place, k, gather[uint32](m, c, slots))
	case uint64s:
		v := gather[uint64](m, c, slots)
		if isInts(dst) {
			for i, x := range v {
				if x > math.MaxInt64 && !(c.present != nil && c.sparse && m.present[i] == 0) {
					return m.bad("column %s has the number %d, which is larger than a signed integer of 64 bits", c.name, x)
				}
			}
		}
		return scatter(m, c, dst, place, k, v)
	case halves:
		h := gather[uint16](m, c, slots)
		v := view[float32](&m.other)[:len(h)]
		dtype.Convert(binio.Bytes(v), dtype.Float32, binio.Bytes(h), dtype.Float16)
		return scatterReal(m, c, dst, place, k, v)
	case singles:
		return scatterReal(m, c, dst, place, k, gather[float32](m, c, slots))
	case doubles:
		return scatterReal(m, c, dst, place, k, gather[float64](m, c, slots))
	}
	return m.bad("column %s has words instead of numbers", c.name)
}

func isInts[T number](dst []T) bool {
	_, is := any(dst).([]int64)
	return is
}

func view[V number](b *[block]uint64) []V {
	return unsafe.Slice((*V)(unsafe.Pointer(b)), block)
}

// gather returns the next n values of a batch. It returns fewer if data has fewer, or if the index
// leads elsewhere.
func gather[V number](m *columnar, c *typed, n int) []V {
	var v V
	size := int(unsafe.Sizeof(v))
	out := view[V](&m.values)
	if c.index == nil {
		n = min(n, len(c.data)/size-c.at)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&m.values)), size*n), c.data[c.at*size:])
		c.at += n
		return out[:n]
	}
	dictionary := unsafe.Slice((*V)(unsafe.Pointer(unsafe.SliceData(c.data))), len(c.data)/size) // aligned
	for i, at := range m.index[:n] {
		switch {
		case uint(at) < uint(len(dictionary)):
			out[i] = dictionary[at]
		case c.sparse && c.present != nil && m.present[i] == 0: // any index is as good
		default:
			return out[:i]
		}
	}
	return out[:n]
}

// scatterReal is scatter for numbers that may have a fraction.
func scatterReal[T number, V float32 | float64](m *columnar, c *typed, dst []T, place, k int, v []V) error {
	if isInts(dst) {
		for i, x := range v {
			if x != V(math.Trunc(float64(x))) || math.Abs(float64(x)) > 1<<53 {
				if c.present != nil && c.sparse && m.present[i] == 0 {
					continue
				}
				if math.IsNaN(float64(x)) {
					return m.missing(c)
				}
				return m.bad("row %d: column %s has the number %v, which is not an integer", m.rowOf(c, k, i), c.name, x)
			}
		}
	}
	return scatter(m, c, dst, place, k, v)
}

// rowOf returns the row of the i-th value that is there of the last k ones.
func (m *columnar) rowOf(c *typed, k, i int) int64 {
	at := i
	if c.present != nil && !c.sparse {
		for at = 0; at < k && (m.present[at] == 0 || i > 0); at++ {
			i -= int(m.present[at])
		}
	}
	return (c.taken - int64(k-at)) / int64(c.width)
}

// missing is the error for a value that is not there.
func (m *columnar) missing(c *typed) error {
	return m.bad("column %s has a row without a value", c.name)
}

// scatter sets k elements of the rows of dst, from the given place in the first on, to v; the missing to
// NaN.
func scatter[T, V number](m *columnar, c *typed, dst []T, place, k int, v []V) error {
	present, jump := m.present[:k], m.cols-c.width
	if c.present == nil || c.sparse {
		if len(v) < k {
			return m.truncated(c)
		}
	}
	if c.present == nil && c.width == 1 {
		for i, x := range v[:k] {
			dst[i*m.cols] = T(x)
		}
		return nil
	}
	at, in := place, place
	for i := range k {
		switch {
		case c.present == nil || present[i] == 1 && c.sparse:
			dst[at] = T(v[i])
		case present[i] == 0:
			nan := math.NaN()
			if isInts(dst) {
				return m.missing(c)
			}
			dst[at] = T(nan)
		case len(v) == 0:
			return m.truncated(c)
		default:
			dst[at], v = T(v[0]), v[1:]
		}
		at++
		if in++; in == c.width {
			in, at = 0, at+jump
		}
	}
	return nil
}

func (m *columnar) truncated(c *typed) error {
	return m.bad("column %s has fewer values than it should have, or an index that is not in its dictionary", c.name)
}

func (m *columnar) Skip(rows int64) error {
	rows = min(rows, m.left)
	err := m.guard(m.name, func() error {
		for _, c := range m.columns {
			for n := rows * int64(c.width); n > 0; {
				if err := m.ahead(c); err != nil {
					return err
				}
				k := int(min(n, int64(c.left), block))
				slots, err := m.slots(c, k)
				if err != nil {
					return err
				}
				if c.index == nil {
					c.at += slots
				}
				n -= int64(k)
			}
		}
		return nil
	})
	m.left -= rows
	return err
}

// columnWords are columns as text.
type columnWords struct {
	*columnar
	any   bool // values of all types, and missing ones
	words [][]byte
}

func (w *columnWords) Next() (_ [][]byte, err error) {
	if w.left == 0 {
		return nil, errors.Join(io.EOF, w.guard(w.name, w.checkEnd))
	}
	err = w.guard(w.name, func() error {
		for i, c := range w.columns {
			var err error
			if w.words[i], err = w.append(w.words[i][:0], c); err != nil {
				return err
			}
		}
		return nil
	})
	w.left--
	return w.words, err
}

// append appends the next value of a column.
func (w *columnWords) append(b []byte, c *typed) ([]byte, error) {
	if err := w.ahead(c); err != nil {
		return b, err
	}
	if c.kind == boolean && !w.any {
		return b, w.bad("column %s has booleans; ids must be strings or integers", c.name)
	}
	slots, err := w.slots(c, 1)
	if err != nil {
		return b, err
	}
	if c.present != nil && w.present[0] == 0 {
		if c.sparse && c.index == nil {
			c.at++
		}
		if !w.any {
			return b, w.missing(c)
		}
		return b, nil
	}
	switch c.kind {
	case words:
		at := c.at
		if c.index != nil {
			at = int(w.index[0])
		} else {
			c.at++
		}
		word, ok := c.word(at)
		if !ok {
			return b, w.truncated(c)
		}
		return append(b, word...), nil
	case halves, singles, doubles:
		var x [1]float64
		if w.any {
			err := convert(w.columnar, c, x[:], 0, 1, slots)
			return appendReal(b, x[0]), err
		}
	}
	if c.kind == uint64s {
		v := gather[uint64](w.columnar, c, slots)
		if len(v) == 0 {
			return b, w.truncated(c)
		}
		return strconv.AppendUint(b, v[0], 10), nil
	}
	var x [1]int64
	err = convert(w.columnar, c, x[:], 0, 1, slots)
	if err == nil && c.kind == boolean {
		return strconv.AppendBool(b, x[0] != 0), nil
	}
	return strconv.AppendInt(b, x[0], 10), err
}

// texts are words behind one another: word i ends gap bytes before word i+1 begins.
type texts struct {
	b      []byte
	starts []uint32
	gap    uint32
}

func (t *texts) word(i int) ([]byte, bool) {
	if uint(i) >= uint(max(len(t.starts)-1, 0)) {
		return nil, false
	}
	from, to := t.starts[i], t.starts[i+1]-t.gap
	if from > to || int64(to) > int64(len(t.b)) {
		return nil, false
	}
	return t.b[from:to], true
}

var errNoWord = errors.New("it has fewer words than it states")

// plainTexts finds n words that have their lengths before them, 4 bytes each.
func (t *texts) plain(b []byte, n int) error {
	if n > len(b)/4 {
		return errNoWord
	}
	t.b, t.gap = b, 4
	if cap(t.starts) < n+1 {
		t.starts = make([]uint32, 0, n+1)
	}
	t.starts = t.starts[:0]
	at := 0
	for range n {
		if len(b)-at < 4 {
			return errNoWord
		}
		size := int(binary.LittleEndian.Uint32(b[at:]))
		if at += 4; size > len(b)-at {
			return errNoWord
		}
		t.starts = append(t.starts, uint32(at))
		at += size
	}
	t.starts = append(t.starts, uint32(at)+4)
	return nil
}
