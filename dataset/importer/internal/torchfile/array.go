package torchfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"diskgnn/dataset/importer/internal/npy"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/pickle"
	"diskgnn/internal/vfs"
)

// Array opens a file and returns a tensor, or a NumPy array, in it as an array. pick returns that
// value, given the saved value of the file. The second string is the name of the array in messages,
// unless it is empty. Closing the array closes the file.
func Array(fsys vfs.FS, name, what string, pick func(root any) (any, error)) (_ *npz.Array, err error) {
	t, err := Open(fsys, name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	v, err := pick(t.root)
	if err != nil {
		return nil, t.fail(err)
	}
	t.root = nil // several arrays may be open
	return t.array(v, what, t)
}

// Only is the pick of Array for a file that has only a tensor or an array.
func Only(root any) (any, error) { return root, nil }

// Array returns v, a tensor or a NumPy array in the file, as an array. The string is its name in
// messages, unless it is empty. Closing the array leaves the file open; reading it requires that the
// file is open.
func (t *File) Array(v any, what string) (*npz.Array, error) { return t.array(v, what, stays{}) }

// stays is an io.Closer that does nothing.
type stays struct{}

func (stays) Close() error { return nil }

func (t *File) array(v any, what string, c io.Closer) (*npz.Array, error) {
	name := t.name
	if what != "" {
		name += ": " + what
	}
	if o, ok := isNumPy(v, "_reconstruct"); ok {
		h, r, err := numpyArray(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return npz.New(h, r, name, c), nil
	}
	x, err := t.tensor(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r, fortran, err := x.Reader()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return npz.New(npy.Header{Kind: x.Kind, Size: x.Size, Fortran: fortran, Shape: x.Shape}, r, name, c), nil
}

// Reader returns the tensor's elements as a stream, row-major. If a matrix is contiguous only column
// by column, the stream is column-major and fortran is true. A tensor that is contiguous in neither
// order is an error.
func (t *Tensor) Reader() (_ io.ReadSeeker, fortran bool, err error) {
	shape, stride := t.Shape, t.Stride
	if len(shape) == 2 && stride[1] != 1 && shape[1] > 1 && stride[0] == 1 {
		shape, stride = []int64{shape[1], shape[0]}, []int64{stride[1], stride[0]}
		fortran = true
	}
	r := &reader{t: t, size: t.Count() * int64(t.Size), run: int64(t.Size)}
	// The inner dimensions that lie without gaps are one run.
	outer := len(shape)
	for outer > 0 && (shape[outer-1] <= 1 || stride[outer-1]*int64(t.Size) == r.run) {
		r.run *= max(shape[outer-1], 1)
		outer--
	}
	if outer == len(shape) && outer > 0 && r.size > 0 {
		return nil, false, bad("a tensor with strides %v is not contiguous: save its .contiguous()", t.Stride)
	}
	r.shape, r.stride = shape[:outer], stride[:outer]
	return r, fortran, nil
}

// reader yields the runs of a tensor one after the other.
type reader struct {
	t             *Tensor
	shape, stride []int64 // of the outer dimensions: their elements are runs
	run, size     int64   // bytes of a run, and of all
	at            int64   // bytes that were read
}

// Read implements io.Reader.
func (r *reader) Read(b []byte) (int, error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	i, in := r.at/r.run, r.at%r.run
	place := r.t.offset
	for d := len(r.shape) - 1; d >= 0; d-- {
		place += i % r.shape[d] * r.stride[d]
		i /= r.shape[d]
	}
	b = b[:min(int64(len(b)), r.run-in)]
	n, err := r.t.storage.ReadAt(b, place*int64(r.t.Size)+in)
	r.at += int64(n)
	if n == len(b) && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Seek implements io.Seeker.
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, bad("a place before the tensor's first element")
	}
	r.at = offset
	return offset, nil
}

// A NumPy array is part of the pickle: a call of _reconstruct with the state (version, shape, dtype,
// column-major, bytes). In protocol 2 the bytes are a text with one letter up to ÿ for each byte,
// which _codecs.encode would turn into bytes.

// isNumPy reports whether a value is a result of a function of NumPy's multiarray.
func isNumPy(v any, function string) (*pickle.Object, bool) {
	o, ok := v.(*pickle.Object)
	ok = ok && o.Class.Name == function && (o.Class.Module == "numpy.core.multiarray" || o.Class.Module == "numpy._core.multiarray")
	return o, ok
}

// IsArray reports whether a value of the pickle is a tensor or a NumPy array.
func IsArray(v any) bool {
	_, ok := isNumPy(v, "_reconstruct")
	return ok || IsTensor(v)
}

// Int returns the integer value of v, a Python integer or an integer scalar of NumPy; the bool is
// false for other values.
func Int(v any) (int64, bool) {
	if n, ok := v.(int64); ok {
		return n, true
	}
	o, ok := isNumPy(v, "scalar")
	if !ok || len(o.Args) != 2 {
		return 0, false
	}
	h, err := describeType(o.Args[0])
	if err != nil || !h.Integer() {
		return 0, false
	}
	var b [8]byte
	r, n, err := content(o.Args[1])
	if err != nil || n != int64(h.Size) {
		return 0, false
	}
	if _, err := io.ReadFull(r, b[:n]); err != nil {
		return 0, false
	}
	u := binary.LittleEndian.Uint64(b[:])
	if h.Kind == 'u' {
		return int64(u), int64(u) >= 0
	}
	shift := 64 - 8*n
	return int64(u<<shift) >> shift, true
}

// numpyArray returns the header of an array, and its elements as a stream.
func numpyArray(o *pickle.Object) (h npy.Header, r io.Reader, err error) {
	state, ok := o.State.(*pickle.Tuple)
	if !ok || len(state.Items) != 5 {
		return h, nil, bad("an array of NumPy has an unknown form")
	}
	shape, err := dims(state.Items[1], "sizes")
	if err != nil {
		return h, nil, err
	}
	if h, err = describeType(state.Items[2], shape...); err != nil {
		return h, nil, err
	}
	if h.Fortran, ok = state.Items[3].(bool); !ok {
		return h, nil, bad("an array of NumPy has an unknown form")
	}
	r, n, err := content(state.Items[4])
	if err != nil {
		return h, nil, err
	}
	if n != h.Count()*int64(h.Size) {
		return h, nil, bad("an array of NumPy of shape %s and type %s has %d bytes", h.ShapeString(), h.Type(), n)
	}
	return h, r, nil
}

// describeType reads a dtype: a call of numpy.dtype with its name, and a state that begins with the
// byte order and has no fields.
func describeType(v any, shape ...int64) (npy.Header, error) {
	o, ok := v.(*pickle.Object)
	if !ok || o.Class != (pickle.Global{Module: "numpy", Name: "dtype"}) || len(o.Args) == 0 {
		return npy.Header{}, bad("an array of NumPy has %s instead of a dtype", describe(v))
	}
	name, ok := o.Args[0].(string)
	state, ok2 := o.State.(*pickle.Tuple)
	if !ok || !ok2 || len(state.Items) < 5 || len(name) < 2 {
		return npy.Header{}, bad("an array of NumPy has an unknown dtype")
	}
	order, ok := state.Items[1].(string)
	if !ok || len(order) != 1 || state.Items[2] != nil || state.Items[3] != nil || state.Items[4] != nil {
		return npy.Header{}, bad("an array of NumPy has fields: only plain numbers can be read")
	}
	return npy.Describe(order+name, shape...)
}

// content returns bytes of a pickle as a stream, and how many there are.
func content(v any) (io.Reader, int64, error) {
	switch v := v.(type) {
	case pickle.Bytes:
		return strings.NewReader(string(v)), int64(len(v)), nil
	case *pickle.Object:
		if v.Class == (pickle.Global{Module: "__builtin__", Name: "bytes"}) && len(v.Args) == 0 {
			return strings.NewReader(""), 0, nil
		}
		if v.Class == (pickle.Global{Module: "_codecs", Name: "encode"}) && len(v.Args) == 2 && v.Args[1] == "latin1" {
			if text, ok := v.Args[0].(string); ok {
				return encode(text)
			}
		}
	}
	return nil, 0, bad("an array of NumPy has %s as elements: only numbers can be read", describe(v))
}

// encode encodes a text as Python's latin1: a byte for each letter.
func encode(text string) (io.Reader, int64, error) {
	n := int64(0)
	for _, c := range text {
		if c > 0xff { // also utf8.RuneError
			return nil, 0, bad("an array of NumPy has elements that are not encoded as bytes")
		}
		n++
	}
	return &latin1{text}, n, nil
}

// latin1 yields a byte for each letter of a text.
type latin1 struct{ rest string }

// Read implements io.Reader.
func (l *latin1) Read(b []byte) (n int, err error) {
	if l.rest == "" && len(b) > 0 {
		return 0, io.EOF
	}
	for n < len(b) && l.rest != "" {
		c, size := utf8.DecodeRuneInString(l.rest)
		b[n], l.rest = byte(c), l.rest[size:]
		n++
	}
	return n, nil
}
