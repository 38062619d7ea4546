package dataset

import (
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"io"

	"diskgnn/dataset/internal/npy"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// numbers is an array that is read from a file, or a member of one, as a stream.
type numbers struct {
	*npy.Reader
	name   string // for messages
	member bool   // of an archive
	closer io.Closer
}

func (n *numbers) close() error { return n.closer.Close() }

// fail names the array in an error.
func (n *numbers) fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", n.name, err)
}

// ints, floats and skip are the Reader's, with errors that name the array.
func (n *numbers) ints(dst []int64) error     { return n.fail(n.Ints(dst)) }
func (n *numbers) floats(dst []float32) error { return n.fail(n.Floats(dst)) }
func (n *numbers) skip(count int64) error     { return n.fail(n.Skip(count)) }

// end must follow the last element: an archive checks its checksum there.
func (n *numbers) end() error {
	if !n.member {
		return nil
	}
	return n.fail(n.End())
}

// vector checks that the array is one row of integers, of the given length, or
// of any if that is negative.
func (n *numbers) vector(length int64) error {
	switch {
	case !n.Integer():
		return n.fail(fault.New(fault.ErrInput, "its elements are %s, it takes integers", n.Type()))
	case len(n.Shape) != 1 || length >= 0 && n.Shape[0] != length:
		want := "one dimension"
		if length >= 0 {
			want = fmt.Sprintf("(%d,)", length)
		}
		return n.fail(fault.New(fault.ErrInput, "its shape is %s instead of %s", n.ShapeString(), want))
	}
	return nil
}

// openNPY opens a .npy file.
func openNPY(fsys vfs.FS, name string) (*numbers, error) {
	f, err := openSource(fsys, name)
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
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return &numbers{r, name, false, f}, nil
}

// npz is an archive of arrays.
type npz struct {
	name string
	f    vfs.File
	zip  *zip.Reader
}

func openNPZ(fsys vfs.FS, name string) (*npz, error) {
	f, err := openSource(fsys, name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r, err := openZip(f, st.Size())
	if err != nil {
		return nil, errors.Join(fault.New(fault.ErrInput, "%s is no .npz archive, or a truncated one: %v", name, err), f.Close())
	}
	return &npz{name, f, r}, nil
}

func (z *npz) close() error { return z.f.Close() }

// has reports whether the archive has an array.
func (z *npz) has(key string) bool { return z.entry(key) != nil }

func (z *npz) entry(key string) *zip.File {
	for _, e := range z.zip.File {
		if e.Name == key+".npy" {
			return e
		}
	}
	return nil
}

// array opens one of the archive's arrays.
func (z *npz) array(key string) (*numbers, error) {
	e := z.entry(key)
	if e == nil {
		return nil, fault.New(fault.ErrInput, "%s has no array %q", z.name, key)
	}
	name := fmt.Sprintf("%s: %s", z.name, key)
	c, err := e.Open()
	if err != nil {
		return nil, fault.New(fault.ErrInput, "%s: %v", name, err)
	}
	r, err := npy.NewReader(bufio.NewReaderSize(inflated{c}, chunk))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), unpacking{c}.Close())
	}
	return &numbers{r, name, true, unpacking{c}}, nil
}

// inflated turns errors in compressed bytes, checksums included, into bad input.
type inflated struct{ r io.Reader }

func (i inflated) Read(b []byte) (int, error) {
	n, err := i.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fault.New(fault.ErrInput, "cannot be unpacked: %w", err)
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

// all reads a small array of integers whole.
func (z *npz) all(key string, length int64) (v []int64, err error) {
	a, err := z.array(key)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.vector(length); err != nil {
		return nil, err
	}
	v = make([]int64, length)
	if err := a.ints(v); err != nil {
		return nil, err
	}
	return v, a.end()
}
