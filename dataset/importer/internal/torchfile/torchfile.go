// Package torchfile reads the files that torch.save writes, without Python: an archive of uncompressed
// records. The record data.pkl is a pickle that describes the tensors, and the others have their
// elements.
//
//	NAME/data.pkl    a pickle; a tensor in it is a call of torch._utils._rebuild_tensor_v2 with
//	                 ("storage", type, key, device, elements), offset, shape, strides, …
//	NAME/data/KEY    the elements of a storage, in the machine's order of bytes
//	NAME/byteorder   "little"; absent from older files, which are little-endian too
//	NAME/version     of the archive's layout
//
// Only the pickle is held in memory. Tensors are read as streams, from the range of the file that they
// lie in, and arrays of NumPy from the pickle, which includes their elements. The pickle's description
// of a tensor is checked against the record: shapes and strides are not negative, and reach no byte
// that is not the storage's.
//
// Files from before torch 1.6 are no archives, and are refused. Errors are of kind fault.ErrInput, in
// one line that names the file.
package torchfile

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/pickle"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// File is an open file of torch.save. Its tensors can be read concurrently.
type File struct {
	name string
	f    vfs.File
	size int64
	zip  *zip.Reader
	dir  string // prefix of the names of records
	root any
}

// Look opens a file, calls do with the saved value, and closes the file. It puts the file's name before
// errors of do.
func Look(fsys vfs.FS, name string, do func(root any) error) error {
	t, err := Open(fsys, name)
	if err != nil {
		return err
	}
	if err = do(t.root); err != nil {
		err = t.fail(err)
	}
	return errors.Join(err, t.Close())
}

// limits are the limits of a pickle that may hold arrays of NumPy as a whole.
var limits = pickle.Limits{Bytes: 64 << 20, Values: pickle.Default.Values, Depth: pickle.Default.Depth}

// Open opens a file and reads its pickle. The caller closes it.
func Open(fsys vfs.FS, name string) (*File, error) { return openLimited(fsys, name, limits) }

func openLimited(fsys vfs.FS, name string, limits pickle.Limits) (_ *File, err error) {
	t, err := openArchive(fsys, name)
	if err != nil {
		return nil, err
	}
	text, err := t.small(t.dir+pickleRecord, limits.Bytes)
	if err == nil {
		t.root, err = pickle.Load(text, limits)
	}
	if err != nil {
		return nil, errors.Join(t.fail(err), t.Close())
	}
	return t, nil
}

// Held returns the bytes of memory for reading the given files: pickle.Memory and, for each file, the
// bytes of its pickle beyond pickle.Default, since it may have NumPy arrays.
func Held(fsys vfs.FS, names ...string) (int64, error) {
	held := int64(pickle.Memory)
	for _, name := range names {
		t, err := openArchive(fsys, name)
		if err != nil {
			return 0, err
		}
		if e := t.entry(t.dir + pickleRecord); e.UncompressedSize64 <= uint64(limits.Bytes) {
			held += max(int64(e.UncompressedSize64)-pickle.Default.Bytes, 0)
		}
		if err := t.Close(); err != nil {
			return 0, err
		}
	}
	return held, nil
}

// pickleRecord is the record with the pickle.
const pickleRecord = "data.pkl"

// openArchive opens a file and does not read its pickle.
func openArchive(fsys vfs.FS, name string) (_ *File, err error) {
	st, err := fsys.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, bad("%s is missing", name)
	case err != nil:
		return nil, err
	case st.IsDir():
		return nil, bad("%s is a directory, not a file of torch.save", name)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	t := &File{name: name, f: f, size: st.Size()}
	if t.zip, err = npz.OpenZip(f, t.size); err != nil {
		err = bad("not an archive of torch.save, or truncated (%v); if torch before 1.6 wrote it, load it with torch and save it again", err)
	} else {
		err = t.readOrder()
	}
	if err != nil {
		return nil, errors.Join(t.fail(err), f.Close())
	}
	return t, nil
}

func bad(format string, args ...any) error { return fault.New(fault.ErrInput, format, args...) }

func (t *File) fail(err error) error { return fmt.Errorf("%s: %w", t.name, err) }

// Close closes the file. Its tensors cannot be read afterwards.
func (t *File) Close() error { return t.f.Close() }

// Name returns the name of the file.
func (t *File) Name() string { return t.name }

// Root returns the saved value, as package pickle represents it.
func (t *File) Root() any { return t.root }

// readOrder finds the prefix of the names of records, and returns an error for big-endian elements.
func (t *File) readOrder() error {
	for _, e := range t.zip.File {
		if dir, ok := strings.CutSuffix(e.Name, pickleRecord); ok && (dir == "" || strings.Count(dir, "/") == 1 && strings.HasSuffix(dir, "/")) {
			t.dir = dir
			if t.entry(dir+"constants.pkl") != nil {
				return bad("it is a program of TorchScript: load it with torch.jit.load, and save its tensors with torch.save")
			}
			if t.entry(dir+"byteorder") == nil {
				return nil
			}
			order, err := t.small(dir+"byteorder", 16)
			if err == nil && order != "little" {
				err = bad("its byte order is %.16q: only little-endian files can be read", order)
			}
			return err
		}
	}
	return bad("the archive has no data.pkl: torch.save did not write it")
}

func (t *File) entry(name string) *zip.File {
	for _, e := range t.zip.File {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// record returns the bytes of a record, as a range of the file.
func (t *File) record(name string) (*io.SectionReader, error) {
	e := t.entry(name)
	switch {
	case e == nil:
		return nil, bad("it has no record %.80q", name)
	case e.Method != zip.Store || e.Flags&1 != 0 || e.CompressedSize64 != e.UncompressedSize64 || e.UncompressedSize64 > math.MaxInt64:
		return nil, bad("its record %.80q is compressed; torch.save does not compress records", name)
	}
	at, err := e.DataOffset()
	if err != nil {
		return nil, bad("its record %.80q cannot be found: %v", name, err)
	}
	size := int64(e.UncompressedSize64)
	if size > t.size-at { // also an error for an empty record behind the file's end
		return nil, bad("truncated: its record %.80q of %d bytes reaches beyond the end of the file", name, size)
	}
	return io.NewSectionReader(t.f, at, size), nil
}

// small reads a whole record of at most limit bytes.
func (t *File) small(name string, limit int64) (string, error) {
	r, err := t.record(name)
	if err != nil {
		return "", err
	}
	if r.Size() > limit {
		return "", bad("its record %.80q has %d bytes, more than %d", name, r.Size(), limit)
	}
	var b strings.Builder
	b.Grow(int(r.Size()))
	_, err = io.Copy(&b, r)
	return b.String(), err
}

// Type is the type of a tensor's elements: Kind is 'i', 'u', 'f' or 'b' as in NumPy, or 'B' for
// bfloat16, and Size the bytes of an element.
type Type struct {
	Kind byte
	Size int
}

// types are the types of the storages.
var types = map[string]Type{
	"BFloat16Storage": {'B', 2}, "HalfStorage": {'f', 2}, "FloatStorage": {'f', 4}, "DoubleStorage": {'f', 8},
	"CharStorage": {'i', 1}, "ShortStorage": {'i', 2}, "IntStorage": {'i', 4}, "LongStorage": {'i', 8},
	"ByteStorage": {'u', 1}, "BoolStorage": {'b', 1},
}

// Tensor is a view of a storage: its element (i, j, …) is element offset + i·Stride[0] + j·Stride[1] +
// … of the storage.
type Tensor struct {
	Type
	Shape, Stride []int64 // in elements
	offset        int64
	storage       *io.SectionReader
}

// maxDims bounds the dimensions of a tensor.
const maxDims = 8

// Count returns the number of elements.
func (t *Tensor) Count() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// IsTensor reports whether a value of the pickle is a tensor.
func IsTensor(v any) bool {
	o, ok := v.(*pickle.Object)
	return ok && o.Class == pickle.Global{Module: "torch._utils", Name: "_rebuild_tensor_v2"}
}

func (t *File) tensor(v any) (*Tensor, error) {
	if !IsTensor(v) {
		return nil, bad("it has %s instead of a tensor", describe(v))
	}
	args := v.(*pickle.Object).Args
	if len(args) < 4 {
		return nil, bad("a tensor has %d arguments instead of at least 4", len(args))
	}
	x := &Tensor{}
	elements, err := t.readStorage(args[0], x)
	if err != nil {
		return nil, err
	}
	offset, ok := args[1].(int64)
	if !ok || offset < 0 {
		return nil, bad("a tensor has the offset %s", describe(args[1]))
	}
	x.offset = offset
	if x.Shape, err = dims(args[2], "sizes"); err != nil {
		return nil, err
	}
	if x.Stride, err = dims(args[3], "strides"); err != nil {
		return nil, err
	}
	if len(x.Shape) != len(x.Stride) {
		return nil, bad("a tensor has %d dimensions, but %d strides", len(x.Shape), len(x.Stride))
	}
	return x, x.check(elements)
}

func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case *pickle.Object:
		return v.Class.String()
	case pickle.Global:
		return v.String()
	case *pickle.Dict:
		return "a dictionary"
	case *pickle.List:
		return "a list"
	case *pickle.Tuple:
		return "a tuple"
	case string, pickle.Bytes:
		return "text"
	case *pickle.Persistent:
		return "a storage"
	}
	return fmt.Sprintf("%v", v)
}

// readStorage finds the record of a storage, and returns how many elements it has.
func (t *File) readStorage(v any, x *Tensor) (int64, error) {
	p, ok := v.(*pickle.Persistent)
	if !ok {
		return 0, bad("a tensor has %s instead of a storage", describe(v))
	}
	id, ok := p.ID.(*pickle.Tuple)
	if !ok || len(id.Items) != 5 || id.Items[0] != "storage" {
		return 0, bad("a tensor has a storage of an unknown form")
	}
	kind, _ := id.Items[1].(pickle.Global)
	if x.Type, ok = types[kind.Name]; !ok || kind.Module != "torch" {
		return 0, bad("a tensor has a storage of an unknown type")
	}
	key, ok := id.Items[2].(string)
	elements, ok2 := id.Items[4].(int64)
	if !ok || !ok2 || elements < 0 || elements > math.MaxInt64/int64(x.Size) {
		return 0, bad("a tensor has a storage of an unknown form")
	}
	if _, err := strconv.ParseUint(key, 10, 32); err != nil {
		return 0, bad("a tensor has the storage %.20q, which is not a number", key)
	}
	r, err := t.record(t.dir + "data/" + key)
	if err != nil {
		return 0, err
	}
	if r.Size() != elements*int64(x.Size) {
		return 0, bad("its storage %s has %d bytes instead of %d elements of %d bytes", key, r.Size(), elements, x.Size)
	}
	x.storage = r
	return elements, nil
}

// dims reads a tuple of numbers that are not negative.
func dims(v any, what string) ([]int64, error) {
	if o, ok := v.(*pickle.Object); ok && o.Class == (pickle.Global{Module: "torch", Name: "Size"}) && len(o.Args) == 1 {
		v = o.Args[0]
	}
	t, ok := v.(*pickle.Tuple)
	if !ok || len(t.Items) > maxDims {
		return nil, bad("the %s of a tensor are not a tuple of at most %d numbers", what, maxDims)
	}
	d := make([]int64, len(t.Items))
	for i, v := range t.Items {
		if d[i], ok = v.(int64); !ok || d[i] < 0 {
			return nil, bad("the %s of a tensor contain %s", what, describe(v))
		}
	}
	return d, nil
}

// check returns an error for a tensor that reaches beyond the elements of its storage, or has a size
// that cannot be computed.
func (t *Tensor) check(elements int64) error {
	n, empty := int64(t.Size), false
	for _, d := range t.Shape {
		empty = empty || d == 0
		d = max(d, 1)
		if n > math.MaxInt64/d {
			return bad("the shape of a tensor, %v, is impossible", t.Shape)
		}
		n *= d
	}
	if empty {
		return nil
	}
	last := t.offset
	for i, d := range t.Shape {
		if s := t.Stride[i]; s > 0 && d-1 > (math.MaxInt64-last)/s {
			return bad("the strides of a tensor, %v, are impossible", t.Stride)
		}
		last += (d - 1) * t.Stride[i]
	}
	if last >= elements {
		return bad("a tensor of shape %v with strides %v, from element %d on, reaches beyond its storage of %d elements", t.Shape, t.Stride, t.offset, elements)
	}
	return nil
}

// Dict returns v as a dictionary: a dict, or a dictionary class of collections; the bool is false for
// other values.
func Dict(v any) (*pickle.Dict, bool) {
	switch v := v.(type) {
	case *pickle.Dict:
		return v, true
	case *pickle.Object:
		if v.Class.Module == "collections" {
			return &v.Items, true
		}
	}
	return nil, false
}

// Attributes returns the values in a saved value by their names: of a dictionary, of a graph of PyTorch
// Geometric (class Data), and of one of both that is the only value of a list or a tuple, beside None
// and a class. The bool is false for other values.
func Attributes(v any) (*pickle.Dict, bool) {
	switch t := v.(type) {
	case *pickle.Tuple:
		v = only(t.Items)
	case *pickle.List:
		v = only(t.Items)
	}
	if o, ok := v.(*pickle.Object); ok && o.Class.Name == "Data" {
		return fields(o)
	}
	return Dict(v)
}

// only returns the first value, if all others are None or classes.
func only(items []any) any {
	for i, v := range items {
		if _, class := v.(pickle.Global); i > 0 && v != nil && !class {
			return nil
		}
	}
	if len(items) == 0 {
		return nil
	}
	return items[0]
}

// fields returns the attributes of a Data object: the attributes of its store or, before release 2.0,
// its own.
func fields(data *pickle.Object) (*pickle.Dict, bool) {
	own, ok := data.State.(*pickle.Dict)
	if !ok {
		return nil, false
	}
	v, ok := own.Get("_store")
	if !ok {
		return own, true
	}
	if store, ok := v.(*pickle.Object); ok {
		if state, ok := store.State.(*pickle.Dict); ok {
			v, _ = state.Get("_mapping")
			return Dict(v)
		}
	}
	return nil, false
}

// Keys returns the names of the values of a dictionary that are not None.
func Keys(d *pickle.Dict) (names []string) {
	for i, k := range d.Keys {
		if name, ok := k.(string); ok && d.Values[i] != nil {
			names = append(names, name)
		}
	}
	return names
}
