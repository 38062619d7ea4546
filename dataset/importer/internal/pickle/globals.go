package pickle

// allowed are the classes and functions that a pickle may name. Each occurs in a file that its library
// wrote: testdata/globals.tsv, made by Python's pickletools, lists in which. None of them is ever
// called.
var allowed = map[Global]bool{
	// Dictionaries of the standard library, and a default value of one.
	{"collections", "OrderedDict"}: true,
	{"collections", "defaultdict"}: true,
	{"__builtin__", "dict"}:        true,
	{"__builtin__", "bytes"}:       true, // that are empty, in protocol 2

	// Builtin types that values among a graph's attributes may have; protocol 3 names their module
	// as Python 3 does.
	{"__builtin__", "set"}:       true,
	{"__builtin__", "frozenset"}: true,
	{"__builtin__", "slice"}:     true,
	{"__builtin__", "complex"}:   true,
	{"__builtin__", "xrange"}:    true,
	{"builtins", "set"}:          true,
	{"builtins", "frozenset"}:    true,
	{"builtins", "slice"}:        true,
	{"builtins", "complex"}:      true,
	{"builtins", "range"}:        true,

	// Tensors and where their elements are.
	{"torch._utils", "_rebuild_tensor_v2"}: true,
	{"torch", "Size"}:                      true,
	{"torch", "BFloat16Storage"}:           true,
	{"torch", "BoolStorage"}:               true,
	{"torch", "ByteStorage"}:               true,
	{"torch", "CharStorage"}:               true,
	{"torch", "DoubleStorage"}:             true,
	{"torch", "FloatStorage"}:              true,
	{"torch", "HalfStorage"}:               true,
	{"torch", "IntStorage"}:                true,
	{"torch", "LongStorage"}:               true,
	{"torch", "ShortStorage"}:              true,

	// Sparse tensors, of torch and of torch_sparse.
	{"torch._utils", "_rebuild_sparse_tensor"}: true,
	{"torch.serialization", "_get_layout"}:     true,
	{"torch_sparse.storage", "SparseStorage"}:  true,
	{"torch_sparse.tensor", "SparseTensor"}:    true,

	// Arrays; NumPy 2 has renamed the module. Their bytes are texts, encoded.
	{"numpy", "dtype"}:                         true,
	{"numpy", "ndarray"}:                       true,
	{"numpy.core.multiarray", "_reconstruct"}:  true,
	{"numpy.core.multiarray", "scalar"}:        true,
	{"numpy._core.multiarray", "_reconstruct"}: true,
	{"numpy._core.multiarray", "scalar"}:       true,
	{"_codecs", "encode"}:                      true,

	// PyTorch Geometric's graphs.
	{"torch_geometric.data.data", "Data"}:              true,
	{"torch_geometric.data.data", "DataEdgeAttr"}:      true,
	{"torch_geometric.data.data", "DataTensorAttr"}:    true,
	{"torch_geometric.data.storage", "GlobalStorage"}:  true,
	{"torch_geometric.data.storage", "AttrType"}:       true,
	{"torch_geometric.data.hetero_data", "HeteroData"}: true,
	// of a HeteroData, which is refused by its name
	{"torch_geometric.data.graph_store", "EdgeAttr"}:     true,
	{"torch_geometric.data.feature_store", "TensorAttr"}: true,
	{"torch_geometric.data.storage", "BaseStorage"}:      true,
	{"torch_geometric.data.storage", "NodeStorage"}:      true,
	{"torch_geometric.data.storage", "EdgeStorage"}:      true,

	// GraphBolt's graph.
	{"dgl.graphbolt.impl.fused_csc_sampling_graph", "FusedCSCSamplingGraph"}: true,
	{"torch", "ScriptObject"}: true,

	// DGL's graph.
	{"dgl.heterograph", "DGLGraph"}:                 true,
	{"dgl.heterograph_index", "HeteroGraphIndex"}:   true,
	{"dgl.heterograph_index", "HeteroPickleStates"}: true,
	{"dgl._ffi.object", "_new_object"}:              true,
	{"dgl.frame", "Frame"}:                          true,
	{"__builtin__", "bytearray"}:                    true,
}

// unread has advice for names of values that are not read.
var unread = map[Global]string{
	{"torch._utils", "_rebuild_sparse_csr_tensor"}: "torch before 1.13 wrote its sparse tensor: load it with torch and save it again",
	{"scipy.sparse._csr", "csr_matrix"}:            noSciPy,
	{"scipy.sparse._csr", "csr_array"}:             noSciPy,
	{"scipy.sparse._coo", "coo_matrix"}:            noSciPy,
	{"scipy.sparse._coo", "coo_array"}:             noSciPy,
	{"scipy.sparse.csr", "csr_matrix"}:             noSciPy,
}

const noSciPy = "SciPy's matrices in pickles are not read; save the matrix with scipy.sparse.save_npz"
