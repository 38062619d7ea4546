// Package npy reads NumPy's array files, .npy, as streams: a header, then numbers, of which only one
// piece at a time is in memory.
//
// It reads versions 1 to 3 of the format, little-endian integers, booleans and floats. Anything else,
// and anything malformed, is an error of kind fault.ErrInput that names the fault, but not the file:
// the caller knows its name.
package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// Header describes an array: the type of its elements and its shape.
type Header struct {
	Kind    byte // 'i', 'u', 'f' or 'b' as in NumPy, or 'B' for bfloat16, which NumPy does not have
	Size    int  // bytes of an element: 1, 2, 4 or 8
	Fortran bool // column-major
	Shape   []int64
}

const (
	// Magic is the first bytes of every .npy file.
	Magic     = "\x93NUMPY"
	maxHeader = 64 << 10 // far above any array of numbers, and the limit of version 1
	maxDims   = 8
)

// Count returns the number of elements.
func (h *Header) Count() int64 {
	n := int64(1)
	for _, d := range h.Shape {
		n *= d
	}
	return n
}

// Type returns the element type as NumPy names it, such as float32.
func (h *Header) Type() string {
	name := map[byte]string{'i': "int", 'u': "uint", 'f': "float", 'b': "bool", 'B': "bfloat"}[h.Kind]
	if h.Kind == 'b' {
		return name
	}
	return name + strconv.Itoa(8*h.Size)
}

// DType returns the type of dataset features for these elements: float16 and bfloat16 for themselves,
// float32 for all others.
func (h *Header) DType() dtype.Type {
	switch {
	case h.Kind == 'f' && h.Size == 2:
		return dtype.Float16
	case h.Kind == 'B':
		return dtype.BFloat16
	}
	return dtype.Float32
}

// Integer reports whether the elements are integers.
func (h *Header) Integer() bool { return h.Kind == 'i' || h.Kind == 'u' }

// ShapeString writes the shape as NumPy does.
func (h *Header) ShapeString() string {
	s := make([]string, len(h.Shape))
	for i, d := range h.Shape {
		s[i] = strconv.FormatInt(d, 10)
	}
	if len(s) == 1 {
		return "(" + s[0] + ",)"
	}
	return "(" + strings.Join(s, ", ") + ")"
}

// ReadHeader reads the header of a .npy file from r, up to the first element.
func ReadHeader(r io.Reader) (Header, error) {
	var fixed [12]byte
	if err := readFull(r, fixed[:8]); err != nil {
		return Header{}, err
	}
	if string(fixed[:len(Magic)]) != Magic {
		return Header{}, bad("it is not a .npy array")
	}
	var size int64
	switch version := fixed[6]; version {
	case 1:
		if err := readFull(r, fixed[8:10]); err != nil {
			return Header{}, err
		}
		size = int64(binary.LittleEndian.Uint16(fixed[8:]))
	case 2, 3:
		if err := readFull(r, fixed[8:12]); err != nil {
			return Header{}, err
		}
		size = int64(binary.LittleEndian.Uint32(fixed[8:]))
	default:
		return Header{}, bad("it has version %d of the .npy format; the program reads versions 1 to 3", version)
	}
	if size > maxHeader {
		return Header{}, bad("its header has %d bytes, more than %d", size, maxHeader)
	}
	text := make([]byte, size)
	if err := readFull(r, text); err != nil {
		return Header{}, err
	}
	return parse(string(text))
}

func bad(format string, args ...any) error { return fault.New(fault.ErrInput, format, args...) }

var errTruncated = bad("truncated: it ends before its last element")

// Fits returns an error if the array's elements take more than the given number of bytes.
func (h *Header) Fits(bytes int64) error {
	if h.Count() > bytes/int64(h.Size) {
		return errTruncated
	}
	return nil
}

// readFull reads all of b, or says that the file is too short.
func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTruncated
	}
	return err
}

// parse reads the header's text, a Python dictionary like
//
//	{'descr': '<i8', 'fortran_order': False, 'shape': (3, 4), }
func parse(text string) (Header, error) {
	p := &parser{rest: strings.TrimRight(text, " \n\x00")}
	h := Header{}
	var descr string
	seen := map[string]bool{}
	p.expect("{")
	for p.err == nil && !p.accept("}") {
		key := p.str()
		p.expect(":")
		switch key {
		case "descr":
			if !strings.HasPrefix(p.peek(), "'") && !strings.HasPrefix(p.peek(), "\"") {
				return h, bad("it is a structured array: only plain numbers can be read")
			}
			descr = p.str()
		case "fortran_order":
			h.Fortran = p.boolean()
		case "shape":
			h.Shape = p.tuple()
		default:
			p.fail()
		}
		seen[key] = true
		if !p.accept(",") && !strings.HasPrefix(p.peek(), "}") {
			p.fail()
		}
	}
	if p.err != nil || len(seen) != 3 || p.peek() != "" {
		return h, bad("its header %.80q is malformed", text)
	}
	return h, h.setType(descr)
}

// setType reads a type like <f4, and checks that the array's size can be
// computed.
func (h *Header) setType(descr string) error {
	if len(descr) < 3 {
		return bad("its elements have the unknown type %q", descr)
	}
	size, err := strconv.Atoi(descr[2:])
	if err != nil || strings.IndexByte("<|=>", descr[0]) < 0 {
		return bad("its elements have the unknown type %q", descr)
	}
	h.Kind, h.Size = descr[1], size
	if descr[0] == '>' && size > 1 {
		return bad("its elements are big-endian (%s): save the array in little-endian order", descr)
	}
	switch {
	case h.Integer() && (size == 1 || size == 2 || size == 4 || size == 8):
	case h.Kind == 'f' && (size == 2 || size == 4 || size == 8):
	case h.Kind == 'b' && size == 1:
	case h.Kind == 'U' || h.Kind == 'S':
		return bad("its elements have the type %q, text: save words as a table, as with numpy.savetxt(\"y.csv\", y, \"%%s\", header=\"label\", comments=\"\")", descr)
	default:
		return bad("its elements have the type %q: only integers, floats and booleans can be read", descr)
	}
	n := int64(size)
	for _, d := range h.Shape {
		if d < 0 || d > 0 && n > math.MaxInt64/d {
			return bad("its shape %s is impossible", h.ShapeString())
		}
		n *= d
	}
	return nil
}

// parser reads a Python literal from the front of rest.
type parser struct {
	rest string
	err  error
}

func (p *parser) fail() {
	if p.err == nil {
		p.err = fmt.Errorf("malformed")
	}
}

func (p *parser) peek() string {
	p.rest = strings.TrimLeft(p.rest, " \t\n")
	return p.rest
}

func (p *parser) accept(token string) bool {
	if p.err != nil || !strings.HasPrefix(p.peek(), token) {
		return false
	}
	p.rest = p.rest[len(token):]
	return true
}

func (p *parser) expect(token string) {
	if !p.accept(token) {
		p.fail()
	}
}

func (p *parser) str() string {
	for _, quote := range []string{"'", "\""} {
		if p.accept(quote) {
			s, rest, ok := strings.Cut(p.rest, quote)
			if !ok {
				p.fail()
			}
			p.rest = rest
			return s
		}
	}
	p.fail()
	return ""
}

func (p *parser) boolean() bool {
	if p.accept("True") {
		return true
	}
	p.expect("False")
	return false
}

// tuple reads (), (3,) or (3, 4). Python 2 wrote long integers as 3L.
func (p *parser) tuple() []int64 {
	shape := []int64{}
	p.expect("(")
	for p.err == nil && !p.accept(")") {
		s := p.peek()
		digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
		n, err := strconv.ParseInt(s[:digits], 10, 64)
		if err != nil || len(shape) == maxDims {
			p.fail()
			break
		}
		p.rest = s[digits:]
		p.accept("L")
		shape = append(shape, n)
		if !p.accept(",") && !strings.HasPrefix(p.peek(), ")") {
			p.fail()
		}
	}
	return shape
}
