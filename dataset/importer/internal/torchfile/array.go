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
