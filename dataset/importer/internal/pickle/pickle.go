// Package pickle reads Python's pickles as data: a machine for the opcodes of protocols 2 to 4 that
// builds plain values and never runs anything.
//
// A pickle is a program for a stack machine, which may name any function of any Python module and have
// it called. This machine knows a committed table of names, which the files of torch, NumPy, PyTorch
// Geometric and DGL hold (globals.go), and does not call these either: a call becomes an Object with
// the function's name and arguments. Every other name is an error, as is every opcode that those
// libraries do not write.
//
// Limits bound the memory that a text makes the machine allocate, whatever it says: every value that is
// pushed and every entry of the memo counts, and strings are parts of the text. A list, a tuple or a
// dictionary that contains itself is an error, unless by way of an object, and so are values that are
// nested too deep: code that walks them by recursion has to stop at objects alone.
//
// Errors are of kind fault.ErrInput, in one line; they say at which byte, but not of which file.
package pickle

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"diskgnn/internal/fault"
)

// The values that a pickle stands for are nil (None), bool, int64, float64, string, and those
// below. Pointers are shared wherever the pickle shares an object.
type (
	// Bytes are Python's bytes.
	Bytes string
	// Tuple is a tuple.
	Tuple struct{ Items []any }
	// List is a list.
	List struct{ Items []any }
	// Dict is a dictionary, in the order in which it was filled.
	Dict struct{ Keys, Values []any }
	// Persistent is a reference to something outside the pickle, such as a storage of torch; ID
	// identifies it.
	Persistent struct{ ID any }
	// Object is an instance of a class, or the result of calling a function, neither of which was run.
	Object struct {
		Class Global // or the function
		Args  []any
		State any  // the argument of the opcode BUILD, nil without one
		Items Dict // items that were set by keys
		List  []any
	}
)

// Global is a class or a function of a Python module, by its name.
type Global struct{ Module, Name string }

func (g Global) String() string { return g.Module + "." + g.Name }

// Get returns the value of the last entry with the string key.
func (d *Dict) Get(key string) (any, bool) {
	for i, k := range slices.Backward(d.Keys) {
		if k == key {
			return d.Values[i], true
		}
	}
	return nil, false
}

// Limits are the largest sizes of a pickle that Load accepts.
type Limits struct {
	Bytes  int64 // length of the pickle
	Values int   // values pushed onto the stack; also entries of the memo
	Depth  int   // nesting of values
}

// Default suits the pickle of a file of tensors, without their elements.
var Default = Limits{Bytes: 1 << 20, Values: 1 << 15, Depth: 64}

// Memory is an upper bound of the bytes of memory of a pickle within Default and of its values.
const Memory = 16 << 20

// Load returns the value of a pickle, or an error of kind fault.ErrInput. Bytes after the pickle's end
// are ignored.
func Load(text string, limits Limits) (any, error) {
	if int64(len(text)) > limits.Bytes {
		return nil, fault.New(fault.ErrInput, "its pickle has %d bytes, more than %d", len(text), limits.Bytes)
	}
	m := &machine{text: text, limits: limits}
	v, err := m.run()
	if err != nil {
		return nil, fault.New(fault.ErrInput, "byte %d of its pickle: %w", m.op, err)
	}
	if err := (&measure{limit: limits.Depth, heights: map[any]int{}}).check(v); err != nil {
		return nil, err
	}
	return v, nil
}

// machine is the stack machine.
type machine struct {
	text   string
	at, op int // positions of the next byte, and of the current opcode
	limits Limits
	pushed int
	stack  []any
	marks  []int // stack heights, of the parts that are being built
	memo   []any // entries that were not put are unset{}
}

type unset struct{}

func bad(format string, args ...any) error { return fault.New(fault.ErrInput, format, args...) }

var (
	errShort     = bad("it is truncated")
	errUnderflow = bad("an opcode takes more values than the stack has")
)

// take returns the next n bytes of the text.
func (m *machine) take(n uint64) (string, error) {
	if n > uint64(len(m.text)-m.at) {
		return "", errShort
	}
	s := m.text[m.at:][:n]
	m.at += int(n)
	return s, nil
}

// number reads a little-endian number of size bytes.
func (m *machine) number(size uint64) (uint64, error) {
	s, err := m.take(size)
	if err != nil {
		return 0, err
	}
	var b [8]byte
	copy(b[:], s)
	return binary.LittleEndian.Uint64(b[:]), nil
}

// sized reads a string behind its length, which is a number of size bytes.
func (m *machine) sized(size uint64) (string, error) {
	n, err := m.number(size)
	if err != nil {
		return "", err
	}
	return m.take(n)
}

func (m *machine) line() (string, error) {
	s, _, ok := strings.Cut(m.text[m.at:], "\n")
	if !ok {
		return "", errShort
	}
	m.at += len(s) + 1
	return s, nil
}

func (m *machine) push(v any) error {
	if m.pushed++; m.pushed > m.limits.Values {
		return bad("it has more than %d values", m.limits.Values)
	}
	m.stack = append(m.stack, v)
	return nil
}

// floor is where the part of the stack begins that is being built.
func (m *machine) floor() int {
	if len(m.marks) == 0 {
		return 0
	}
	return m.marks[len(m.marks)-1]
}

// pop takes the last n values off the stack; they are valid until the next push.
func (m *machine) pop(n int) ([]any, error) {
	if len(m.stack)-m.floor() < n {
		return nil, errUnderflow
	}
	v := m.stack[len(m.stack)-n:]
	m.stack = m.stack[:len(m.stack)-n]
	return v, nil
}

// popMark removes the last mark and the values above it, and returns these.
func (m *machine) popMark() ([]any, error) {
	if len(m.marks) == 0 {
		return nil, errUnderflow
	}
	v, err := m.pop(len(m.stack) - m.floor())
	m.marks = m.marks[:len(m.marks)-1]
	return v, err
}

// top returns the last value of the stack.
func (m *machine) top() (any, error) {
	if len(m.stack) == m.floor() {
		return nil, errUnderflow
	}
	return m.stack[len(m.stack)-1], nil
}

// put remembers the last value under an index.
func (m *machine) put(i uint64) error {
	v, err := m.top()
	if err != nil {
		return err
	}
	if i >= uint64(m.limits.Values) {
		return bad("it stores entry %d of its memo, which has at most %d entries", i, m.limits.Values)
	}
	for uint64(len(m.memo)) <= i {
		m.memo = append(m.memo, unset{})
	}
	m.memo[i] = v
	return nil
}

func (m *machine) get(i uint64) error {
	if i >= uint64(len(m.memo)) || m.memo[i] == (unset{}) {
		return bad("it reads entry %d of its memo, which is not set", i)
	}
	return m.push(m.memo[i])
}

// name pushes a global of the table.
func (m *machine) name(module, name string) error {
	g := Global{module, name}
	if advice := unread[g]; advice != "" {
		return bad("it uses %q: %s; nothing was run", g.String(), advice)
	}
	if !allowed[g] {
		return bad("it uses %.80q, which is not one of the supported classes of tensors, arrays and graphs; nothing was run", g.String())
	}
	return m.push(g)
}

// long decodes the two's complement of Python's integers.
func long(s string) (int64, error) {
	if len(s) > 8 {
		return 0, bad("an integer has %d bytes, more than 8", len(s))
	}
	if len(s) == 0 {
		return 0, nil
	}
	var v int64
	for i := len(s) - 1; i >= 0; i-- {
		v = v<<8 | int64(s[i])
	}
	shift := 64 - 8*len(s)
	return v << shift >> shift, nil
}

// object makes the object that calling or instantiating a global would return.
func (m *machine) object(class, args any) error {
	g, ok := class.(Global)
	if !ok {
		return bad("it calls a value that is not a class or a function")
	}
	t, ok := args.(*Tuple)
	if !ok {
		return bad("it calls %v with arguments that are not a tuple", g)
	}
	return m.push(&Object{Class: g, Args: t.Items})
}

// extend appends to a list, or an object that is one.
func extend(v any, items []any) error {
	switch v := v.(type) {
	case *List:
		v.Items = append(v.Items, items...)
	case *Object:
		v.List = append(v.List, items...)
	default:
		return bad("it appends to a value that is not a list")
	}
	return nil
}

// fill puts keys and values, by turns, into a dictionary, or an object that is one.
func fill(v any, items []any) error {
	var d *Dict
	switch v := v.(type) {
	case *Dict:
		d = v
	case *Object:
		d = &v.Items
	default:
		return bad("it sets items of a value that is not a dictionary")
	}
	if len(items)%2 != 0 {
		return bad("a dictionary has a key without a value")
	}
	for i := 0; i < len(items); i += 2 {
		d.Keys, d.Values = append(d.Keys, items[i]), append(d.Values, items[i+1])
	}
	return nil
}

// measure bounds how deep values lie inside each other.
type measure struct {
	limit   int
	heights map[any]int // by pointer; 0 while its parts are measured
}

// check refuses a value that no recursion should walk.
func (c *measure) check(v any) error {
	_, err := c.height(v, 1)
	return err
}

// height returns how many values lie inside each other in a value, itself included, that has
// level-1 around it. Numbers and texts do not count.
func (c *measure) height(v any, level int) (int, error) {
	var parts [][]any
	switch v := v.(type) {
	case *Tuple:
		parts = [][]any{v.Items}
	case *List:
		parts = [][]any{v.Items}
	case *Dict:
		parts = [][]any{v.Keys, v.Values}
	case *Persistent:
		parts = [][]any{{v.ID}}
	case *Object:
		parts = [][]any{v.Args, {v.State}, v.Items.Keys, v.Items.Values, v.List}
	default:
		return 0, nil
	}
	if h, ok := c.heights[v]; ok {
		if _, object := v.(*Object); h == 0 && object { // a graph's store refers to its graph
			return 0, nil
		}
		if h == 0 {
			return 0, bad("its pickle has a value that contains itself")
		}
		if level+h-1 > c.limit {
			return 0, c.deep()
		}
		return h, nil
	}
	if level > c.limit {
		return 0, c.deep()
	}
	c.heights[v] = 0
	most := 0
	for _, items := range parts {
		for _, item := range items {
			h, err := c.height(item, level+1)
			if err != nil {
				return 0, err
			}
			most = max(most, h)
		}
	}
	c.heights[v] = most + 1
	return most + 1, nil
}

func (c *measure) deep() error {
	return bad("its pickle has values nested more than %d deep", c.limit)
}

func opName(op byte) string {
	if op > ' ' && op < 0x7f {
		return strconv.QuoteRune(rune(op))
	}
	return "0x" + strconv.FormatUint(uint64(op), 16)
}

func (m *machine) float() (float64, error) {
	s, err := m.take(8)
	if err != nil {
		return 0, err
	}
	return math.Float64frombits(binary.BigEndian.Uint64([]byte(s))), nil
}
