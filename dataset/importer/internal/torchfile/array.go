package torchfile

import (
	"errors"
	"fmt"
	"io"

	"diskgnn/dataset/importer/internal/npy"
	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/internal/vfs"
)

// Array opens one of the tensors of a file, or of NumPy's arrays in it, as an array: the one that
// pick returns of what was saved. Messages name it what, if that is not empty, beside the file. Closing the array closes
// the file.
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
	return t.array(v, what, t)
}

// Only picks what was saved, of a file that is a tensor or an array.
func Only(root any) (any, error) { return root, nil }

// Array opens a tensor of the file, or an array of NumPy, as an array. Closing it leaves the file
// open.
func (t *File) Array(v any, what string) (*npz.Array, error) { return t.array(v, what, stays{}) }

// stays is what closing leaves open.
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

// Reader returns the tensor's bytes as a stream that can seek, row after row. Where the rows of a
// matrix do not lie in order but its columns do, fortran is true, and it yields column after
// column. Elements that follow each other in neither way are an error.
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
		return nil, false, bad("a tensor of strides %v, whose elements do not follow each other: save it as its .contiguous()", t.Stride)
	}
	r.shape, r.stride = shape[:outer], stride[:outer]
	return r, fortran, nil
}

// reader yields the runs of a tensor one after the other.
type reader struct {
	t             *Tensor
	shape, stride []int64 // of the dimensions whose elements are runs
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
