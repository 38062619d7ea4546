package matrix

import (
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/dataset/importer/internal/npz"
	"diskgnn/dataset/importer/internal/torchfile"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// isTorch reports whether a name is of a file of torch.save.
func isTorch(name string) bool { return slices.Contains([]string{".pt", ".pth"}, filepath.Ext(name)) }

// OpenTorch opens a value in a file of torch.save: a tensor, an array of NumPy or a sparse tensor. key
// is its name in messages; pick returns the value, given the saved value of the file. The memory that
// it takes is torchfile.Held.
func OpenTorch(fsys vfs.FS, name, key string, pick func(root any) (any, error)) (Matrix, error) {
	s, err := SparseTorch(fsys, name, key, pick)
	if err != nil {
		return nil, err
	}
	if s != nil {
		return s.Matrix()
	}
	a, err := torchfile.Array(fsys, name, key, pick)
	if err != nil {
		return nil, err
	}
	return FromArray(a)
}

// SparseTorch returns the sparse tensor that pick picks, or nil if it picks another value. The
// arguments are as OpenTorch's.
func SparseTorch(fsys vfs.FS, name, key string, pick func(root any) (any, error)) (*Sparse, error) {
	var t *torchfile.Sparse
	err := torchfile.Look(fsys, name, func(root any) error {
		v, err := pick(root)
		if err == nil {
			t, err = torchfile.FindSparse(v)
		}
		return err
	})
	if t == nil || err != nil {
		return nil, err
	}
	full := name
	if key != "" {
		full += ": " + key
	}
	s := &Sparse{Name: full, Layout: t.Layout, Rows: t.Rows, Columns: t.Columns, Coords: t.Parts["coords"] != nil, Data: t.Parts["data"] != nil}
	s.Array = func(part string) (*npz.Array, error) {
		what := strings.TrimPrefix(key+"'s "+part, "'s ")
		return torchfile.Array(fsys, name, what, func(root any) (any, error) {
			v, err := pick(root)
			if err != nil {
				return nil, err
			}
			t, err := torchfile.FindSparse(v)
			if err == nil && t == nil {
				err = fault.New(fault.ErrInput, "its sparse tensor is gone")
			}
			if err != nil {
				return nil, err
			}
			return t.Parts[part], nil
		})
	}
	return s, nil
}

// pickKey returns the pick of OpenTorch for a key of a dictionary or of a graph of PyTorch Geometric;
// "" is the saved value itself, which must not be one of these.
func pickKey(key string) func(root any) (any, error) {
	return func(root any) (any, error) {
		d, ok := torchfile.Attributes(root)
		switch {
		case !ok && key == "":
			return root, nil
		case !ok:
			return nil, fault.New(fault.ErrInput, "it has a single value, without the name %q", key)
		}
		v, ok := d.Get(key)
		if !ok || v == nil {
			return nil, fault.New(fault.ErrInput, "it has %.200s: name one of them, as in FILE.pt:KEY", strings.Join(torchfile.Keys(d), ", "))
		}
		return v, nil
	}
}
