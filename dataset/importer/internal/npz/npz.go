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

// Array is an array that is read from a file, or a member of one, as a stream.
type Array struct {
	*npy.Reader
	name   string // of the file, and in an archive the array
	member bool   // of an archive
	closer io.Closer
}

// New returns an array of the elements that r yields; it reads them from the beginning, and skips by
// seeking if r can. Closing the array closes c.
func New(h npy.Header, r io.Reader, name string, c io.Closer) *Array {
	return &Array{npy.NewRaw(h, r), name, false, c}
}

// Close closes the file, or the member.
func (n *Array) Close() error { return n.closer.Close() }

// Fail names the array in an error.
func (n *Array) Fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", n.name, err)
}

// Ints is the Reader's, with errors that name the array.
func (n *Array) Ints(dst []int64) error { return n.Fail(n.Reader.Ints(dst)) }

// Floats is likewise the Reader's.
func (n *Array) Floats(dst []float32) error { return n.Fail(n.Reader.Floats(dst)) }

// Skip is likewise the Reader's.
func (n *Array) Skip(count int64) error { return n.Fail(n.Reader.Skip(count)) }

// End must follow the last element: an archive checks its checksum there.
func (n *Array) End() error {
	if !n.member {
		return nil
	}
	return n.Fail(n.Reader.End())
}

// Vector checks that the array is one row of integers, of the given length, or
// of any if that is negative.
func (n *Array) Vector(length int64) error {
	if !n.Integer() {
		return n.Fail(fault.New(fault.ErrInput, "its elements are %s instead of integers", n.Type()))
	}
	return n.oneDimension(length)
}

// oneDimension checks that the array has so many elements in one dimension, or any number if that is
// negative.
func (n *Array) oneDimension(length int64) error {
	if len(n.Shape) != 1 || length >= 0 && n.Shape[0] != length {
		want := "one dimension"
		if length >= 0 {
			want = fmt.Sprintf("(%d,)", length)
		}
		return n.Fail(fault.New(fault.ErrInput, "its shape is %s instead of %s", n.ShapeString(), want))
	}
	return nil
}

// Open opens a .npy file. It must be as long as its header says: bytes after the elements, such as a
// second array that was saved to the same file, would be left out without a word.
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

// OpenArchive opens a .npz archive.
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

// Close closes the archive. Arrays that are open must be closed before.
func (z *Archive) Close() error { return z.f.Close() }

// Has reports whether the archive has an array.
func (z *Archive) Has(key string) bool { return z.entry(key) != nil }

func (z *Archive) entry(key string) *zip.File {
	for _, e := range z.zip.File {
		if e.Name == key+".npy" {
			return e
		}
	}
	return nil
}

// Array opens one of the archive's arrays.
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

// Text returns an array of one short text, such as the name that SciPy saves of a matrix's form.
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

// Buffers of a member that is unpacked: of what is read of the archive, and of what comes of it.
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

// All reads a small array of integers whole.
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

// Name returns the file, and in an archive the array, for messages.
func (n *Array) Name() string { return n.name }

// Name returns the archive's path.
func (z *Archive) Name() string { return z.name }

// Header calls do with an array of an archive that is open, but not read.
func (z *Archive) Header(key string, do func(*Array) error) (err error) {
	a, err := z.Array(key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return do(a)
}

// Each calls do for every element of a vector of integers.
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

// Rows reads feature rows from an array, row-major, as they are. It closes the array, and
// the archive that the array is of unless that is nil.
type Rows struct {
	a       *Array
	left    int64 // elements
	archive *Archive
}

// NewRows returns the rows of a from the row first on, of dim elements each.
func NewRows(a *Array, archive *Archive, first int64, dim int) (*Rows, error) {
	r := &Rows{a, a.Count() - first*int64(dim), archive}
	if err := a.Skip(first * int64(dim)); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Next fills values with the following whole rows.
func (r *Rows) Next(values []float32) error {
	if err := r.a.Floats(values); err != nil {
		return err
	}
	if r.left -= int64(len(values)); r.left > 0 {
		return nil
	}
	return r.a.End()
}

// Close closes the array and its archive.
func (r *Rows) Close() error {
	if r.archive == nil {
		return r.a.Close()
	}
	return errors.Join(r.a.Close(), r.archive.Close())
}

// Ints is a vector of integers, as a stream.
type Ints struct {
	a    *Array
	left int64
}

// NewInts reads the elements of an array one after the other, whatever its shape.
func NewInts(a *Array) *Ints { return &Ints{a, a.Count()} }

// Next fills dst as far as there are integers, and returns how many there were.
func (v *Ints) Next(dst []int64) (int, error) {
	n := min(int64(len(dst)), v.left)
	v.left -= n
	return int(n), v.a.Ints(dst[:n])
}

// Close closes the array.
func (v *Ints) Close() error { return v.a.Close() }

// Doubles is the Reader's, with errors that name the array.
func (n *Array) Doubles(dst []float64) error { return n.Fail(n.Reader.Doubles(dst)) }

// OpenRaw opens a file of numbers without a header, which h describes. The file must be as
// long as that says.
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

// IsNPY tells whether a file begins as a .npy array does.
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

// Keys lists the archive's arrays, in alphabetical order.
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

// OpenMember opens an array of an archive, which is closed with it.
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
