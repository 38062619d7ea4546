package torchfile

import (
	"slices"

	"diskgnn/dataset/importer/internal/pickle"
)

// A sparse tensor of torch is a call of _rebuild_sparse_tensor with its layout, and its parts: indices,
// values and size (COO), or offsets, indices, values and size (CSR and CSC). The class SparseTensor of
// torch_sparse has a storage with row or rowptr, or both, and col, and values unless all are 1.

// Sparse is a sparse tensor of two dimensions.
type Sparse struct {
	Layout        string // coo, csr or csc
	Rows, Columns int64
	// Parts has the tensors by SciPy's names: of CSR and CSC indptr and indices; of COO either coords, of
	// shape (2, n), or row and col; data, if there are values.
	Parts map[string]any
}

// FindSparse returns the description of v if v is a sparse tensor, and nil if not. The tensors in it are
// not checked.
func FindSparse(v any) (*Sparse, error) {
	o, ok := v.(*pickle.Object)
	if !ok {
		return nil, nil
	}
	switch o.Class {
	case pickle.Global{Module: "torch._utils", Name: "_rebuild_sparse_tensor"}:
		return ofTorch(o)
	case pickle.Global{Module: "torch_sparse.tensor", Name: "SparseTensor"}:
		return ofLibrary(o)
	}
	return nil, nil
}

var errSparse = bad("a sparse tensor has an unknown form")

// ofTorch reads a tensor of torch itself.
func ofTorch(o *pickle.Object) (*Sparse, error) {
	if len(o.Args) != 2 {
		return nil, errSparse
	}
	layout, ok := o.Args[0].(*pickle.Object)
	parts, ok2 := o.Args[1].(*pickle.Tuple)
	if !ok || !ok2 || layout.Class != (pickle.Global{Module: "torch.serialization", Name: "_get_layout"}) || len(layout.Args) != 1 {
		return nil, errSparse
	}
	names := map[any][]string{
		"torch.sparse_coo": {"coords", "data", "size"},
		"torch.sparse_csr": {"indptr", "indices", "data", "size"},
		"torch.sparse_csc": {"indptr", "indices", "data", "size"},
	}
	text, _ := layout.Args[0].(string)
	keys, ok := names[text]
	if !ok {
		return nil, bad("a sparse tensor has the layout %.40q: only sparse_coo, sparse_csr and sparse_csc can be read", text)
	}
	if len(parts.Items) < len(keys) {
		return nil, errSparse
	}
	s := &Sparse{Layout: text[len(text)-3:], Parts: map[string]any{}}
	for i, key := range keys[:len(keys)-1] {
		s.Parts[key] = parts.Items[i]
	}
	return s, s.setSize(parts.Items[len(keys)-1])
}

// ofLibrary reads a SparseTensor.
func ofLibrary(o *pickle.Object) (*Sparse, error) {
	state, ok := o.State.(*pickle.Dict)
	if !ok {
		return nil, errSparse
	}
	v, _ := state.Get("storage")
	o, ok = v.(*pickle.Object)
	if !ok || o.Class != (pickle.Global{Module: "torch_sparse.storage", Name: "SparseStorage"}) {
		return nil, errSparse
	}
	if state, ok = o.State.(*pickle.Dict); !ok {
		return nil, errSparse
	}
	row, _ := state.Get("_row")
	col, _ := state.Get("_col")
	rowptr, _ := state.Get("_rowptr")
	value, _ := state.Get("_value")
	size, _ := state.Get("_sparse_sizes")
	s := &Sparse{Layout: "csr", Parts: map[string]any{"indptr": rowptr, "indices": col}}
	if rowptr == nil {
		s.Layout, s.Parts = "coo", map[string]any{"row": row, "col": col}
	}
	if value != nil {
		s.Parts["data"] = value
	}
	return s, s.setSize(size)
}

func (s *Sparse) setSize(v any) error {
	size, err := dims(v, "sizes")
	if err != nil {
		return err
	}
	if len(size) != 2 || slices.Max(size) > mostRows {
		return bad("a sparse tensor has the sizes %v: only matrices can be read", size)
	}
	s.Rows, s.Columns = size[0], size[1]
	return nil
}

// mostRows bounds the rows and columns of a matrix, so that one more is a number too.
const mostRows = 1 << 48
