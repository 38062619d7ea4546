// Package npz reads arrays of numbers from .npy files and .npz archives as streams, in
// bounded memory. Errors name the file, and in an archive the array.
package npz

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/flate"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/internal/npy"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Array reads an array from a .npy file, or from a member of an archive, as a stream.
type Array struct {
	*npy.Reader
	name   string // of the file, and in an archive the array
	member bool   // of an archive
	closer io.Closer
}

// New returns an array with the header h and the elements that r has. It reads r from the beginning;
// Skip seeks if r is an io.Seeker. name is for messages. Close closes c.
func New(h npy.Header, r io.Reader, name string, c io.Closer) *Array {
	return &Array{npy.NewRaw(h, r), name, false, c}
}

// Close closes the file or the member of the archive.
func (n *Array) Close() error { return n.closer.Close() }

// Fail puts the name of the array before an error. It returns nil for nil.
func (n *Array) Fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", n.name, err)
}

// Ints is npy.Reader.Ints with the name of the array in errors.
func (n *Array) Ints(dst []int64) error { return n.Fail(n.Reader.Ints(dst)) }

// Floats is npy.Reader.Floats with the name of the array in errors.
func (n *Array) Floats(dst []float32) error { return n.Fail(n.Reader.Floats(dst)) }

// Skip is npy.Reader.Skip with the name of the array in errors.
func (n *Array) Skip(count int64) error { return n.Fail(n.Reader.Skip(count)) }

// End must be called after the last element of a member of an archive, which checks its checksum
// there. For other arrays it does nothing.
func (n *Array) End() error {
	if !n.member {
		return nil
	}
	return n.Fail(n.Reader.End())
}

// Vector returns an error unless the array has one dimension of the given length, or of any length if
// that is negative, and elements that are integers.
func (n *Array) Vector(length int64) error {
	if !n.Integer() {
		return n.Fail(fault.New(fault.ErrInput, "its elements are %s instead of integers", n.Type()))
	}
	if len(n.Shape) != 1 || length >= 0 && n.Shape[0] != length {
		want := "one dimension"
		if length >= 0 {
			want = fmt.Sprintf("(%d,)", length)
		}
		return n.Fail(fault.New(fault.ErrInput, "its shape is %s instead of %s", n.ShapeString(), want))
	}
	return nil
}

// Open opens a .npy file. A file that is longer than its header says is an error: the rest, such as a
// second array, would be lost silently.
func Open(fsys vfs.FS, name string) (*Array, error) {
	f, err := importer.OpenFile(fsys, name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	section := io.NewSectionReader(f, 0, st.Size())
	r, err := npy.NewReader(section)
	if err == nil {
		var header int64
		if header, err = section.Seek(0, io.SeekCurrent); err == nil {
			err = r.Fits(st.Size() - header)
		}
		if want := header + r.Count()*int64(r.Size); err == nil && st.Size() > want {
			err = fault.New(fault.ErrInput, "it has %d bytes, but a header and an array of %s of shape %s have %d", st.Size(), r.Type(), r.ShapeString(), want)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return &Array{r, name, false, f}, nil
}

// Archive is a .npz archive of arrays.
type Archive struct {
	name string
	f    vfs.File
	zip  *zip.Reader
}

// OpenArchive opens a .npz archive. The caller closes it.
func OpenArchive(fsys vfs.FS, name string) (*Archive, error) {
	f, err := importer.OpenFile(fsys, name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r, err := OpenZip(f, st.Size())
	if err != nil {
		return nil, errors.Join(fault.New(fault.ErrInput, "%s is not a .npz archive, or is truncated: %v", name, err), f.Close())
	}
	r.RegisterDecompressor(zip.Deflate, inflate)
	return &Archive{name, f, r}, nil
}

// Close closes the archive. Close its arrays first.
func (z *Archive) Close() error { return z.f.Close() }

// Has reports whether the archive has an array with the name key.
func (z *Archive) Has(key string) bool { return z.entry(key) != nil }

func (z *Archive) entry(key string) *zip.File {
	for _, e := range z.zip.File {
		if e.Name == key+".npy" {
			return e
		}
	}
	return nil
}

// Array opens an array of the archive by its name. The caller closes it.
func (z *Archive) Array(key string) (*Array, error) {
	e := z.entry(key)
	if e == nil {
		return nil, fault.New(fault.ErrInput, "%s has no array %q", z.name, key)
	}
	name := fmt.Sprintf("%s: %s", z.name, key)
	c, err := e.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, importer.Unpacking(err))
	}
	r, err := npy.NewReader(bufio.NewReaderSize(inflated{c}, inflateBuffer))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), unpacking{c}.Close())
	}
	return &Array{r, name, true, unpacking{c}}, nil
}

// Text returns the string of an array with a single string, such as the format of a matrix that SciPy
// saved.
func (z *Archive) Text(key string) (text string, err error) {
	e := z.entry(key)
	if e == nil {
		return "", fault.New(fault.ErrInput, "%s has no array %q", z.name, key)
	}
	c, err := e.Open()
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w", z.name, key, importer.Unpacking(err))
	}
	const most = 512 // the header takes 128
	b, err := io.ReadAll(io.LimitReader(inflated{c}, most))
	if err = errors.Join(err, unpacking{c}.Close()); err != nil {
		return "", fmt.Errorf("%s: %s: %w", z.name, key, err)
	}
	_, after, ok := bytes.Cut(b, []byte("\n"))
	if !ok || len(b) == most || !bytes.HasPrefix(b, []byte(npy.Magic)) {
		return "", fault.New(fault.ErrInput, "%s: %s is not an array of one string", z.name, key)
	}
	return strings.ReplaceAll(string(after), "\x00", ""), nil // NumPy's own texts have four bytes a letter
}

// Buffers for a compressed member of an archive: of the compressed and of the decompressed bytes.
const (
	deflatedBuffer = 64 << 10
	inflateBuffer  = 16 << 10
)

// inflate unpacks twice as fast as the standard library does. By itself it would read 4 KiB at a
// time, which takes a tenth longer.
func inflate(r io.Reader) io.ReadCloser {
	return flate.NewReader(bufio.NewReaderSize(r, deflatedBuffer))
}

// inflated turns errors in compressed bytes, checksums included, into bad input.
type inflated struct{ r io.Reader }

func (i inflated) Read(b []byte) (int, error) {
	n, err := i.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = importer.Unpacking(err)
	}
	return n, err
}

// unpacking closes a member of an archive. An error of decompression was returned by an earlier
// read, or lies in bytes that were not read.
type unpacking struct{ c io.Closer }

func (u unpacking) Close() error {
	_ = u.c.Close()
	return nil
}

// All reads a vector of length integers whole.
func (z *Archive) All(key string, length int64) (v []int64, err error) {
	a, err := z.Array(key)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := a.Vector(length); err != nil {
		return nil, err
	}
	v = make([]int64, length)
	if err := a.Ints(v); err != nil {
		return nil, err
	}
	return v, a.End()
}

// Name returns the path of the file and, in an archive, the name of the array, for messages.
func (n *Array) Name() string { return n.name }

// Name returns the archive's path.
func (z *Archive) Name() string { return z.name }

// Header opens an array of the archive, calls do with it, and closes it.
func (z *Archive) Header(key string, do func(*Array) error) error {
	return importer.With(func() (*Array, error) { return z.Array(key) }, do)
}

// Each reads a vector of integers to its end, calls do for every element with its index, and then End.
func (n *Array) Each(ctx context.Context, do func(i, v int64) error) error {
	var buf [chunk]int64
	count := n.Count()
	for i := int64(0); i < count; {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := buf[:min(chunk, count-i)]
		if err := n.Ints(part); err != nil {
			return err
		}
		for _, v := range part {
			if err := do(i, v); err != nil {
				return n.Fail(err)
			}
			i++
		}
	}
	return n.End()
}

// chunk is the number of elements of an array that are looked at at a time.
const chunk = 1 << 14

// Ints is an array of integers as a stream.Integers.
type Ints struct {
	a    *Array
	left int64
}

// NewInts returns the elements of a, of any shape, in the order of the file. Close closes a.
func NewInts(a *Array) *Ints { return &Ints{a, a.Count()} }

// Next sets dst to the next integers and returns their number, less than len(dst) only at the end.
func (v *Ints) Next(dst []int64) (int, error) {
	n := min(int64(len(dst)), v.left)
	v.left -= n
	return int(n), v.a.Ints(dst[:n])
}

// Close closes the array.
func (v *Ints) Close() error { return v.a.Close() }

// Doubles is npy.Reader.Doubles with the name of the array in errors.
func (n *Array) Doubles(dst []float64) error { return n.Fail(n.Reader.Doubles(dst)) }

// OpenRaw opens a file of numbers without a header. h describes the array; a file of another length is
// an error.
func OpenRaw(fsys vfs.FS, name string, h npy.Header) (*Array, error) {
	f, err := importer.OpenFile(fsys, name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil {
		if want := h.Count() * int64(h.Size); st.Size() != want {
			err = fault.New(fault.ErrInput, "%s has %d bytes, but an array of %s of shape %s has %d", name, st.Size(), h.Type(), h.ShapeString(), want)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Array{npy.NewRaw(h, io.NewSectionReader(f, 0, st.Size())), name, false, f}, nil
}

// IsNPY reports whether a file begins with npy.Magic.
func IsNPY(fsys vfs.FS, name string) (is bool, err error) {
	f, err := importer.OpenFile(fsys, name)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := make([]byte, len(npy.Magic))
	n, err := f.ReadAt(b, 0)
	if n < len(b) && (err == nil || errors.Is(err, io.EOF)) {
		return false, nil
	}
	return string(b) == npy.Magic, err
}

// Keys returns the names of the archive's arrays in alphabetical order.
func (z *Archive) Keys() []string {
	var keys []string
	for _, e := range z.zip.File {
		if key, ok := strings.CutSuffix(e.Name, ".npy"); ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// OpenMember opens the array key of the archive name. Closing the array also closes the archive.
func OpenMember(fsys vfs.FS, name, key string) (*Array, error) {
	z, err := OpenArchive(fsys, name)
	if err != nil {
		return nil, err
	}
	a, err := z.Array(key)
	if err != nil {
		return nil, errors.Join(err, z.Close())
	}
	a.closer = both{a.closer, z}
	return a, nil
}

// both closes two things in order.
type both struct{ first, second io.Closer }

func (b both) Close() error { return errors.Join(b.first.Close(), b.second.Close()) }
