"""Graphs with sparse tensors, and with sets of nodes of other names: sparse.py DIR

The forms of data.pt's graph that make.py does not write. NAME.txt is as make.py writes it. The variable SOURCES names a
directory with torch_sparse 0.6.18 from its source archive and a torch_scatter with two names: of the
library's C++, only the two operators below are needed to make and save a SparseTensor, and they are
written here in Python. The committed files were made by torch 2.15.0, PyTorch Geometric 2.8.1 and that.
"""

import os
import sys
import warnings

warnings.filterwarnings("ignore")

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import ToSparseTensor

out = sys.argv[1]
torch.manual_seed(2)
path = lambda name: os.path.join(out, name)
n = 12
x = torch.where(torch.rand(n, 5) < 0.4, torch.randn(n, 5), torch.zeros(n, 5))
x[3] = 0
edge_index = torch.unique(torch.randint(0, n, (2, 3 * n)), dim=1)
y = torch.randint(0, 3, (n,))
part = torch.arange(n) % 4
masks = {name: part == i for i, name in enumerate(("train_mask", "val_mask", "test_mask"))}
data = Data(x=x, edge_index=edge_index, y=y, **masks)

with open(path("sparse.txt"), "w") as f:
    for v in range(n):
        source, destination = edge_index
        print(v, " ".join(map(str, sorted(source[destination == v].tolist()))), " ".join(format(e, ".9g") for e in x[v].tolist()), int(y[v]),
              ("train", "val", "test", "-")[part[v]], sep=" | ", file=f)

# The library's transform, with tensors of torch: adj_t in CSR. SparseTensor is not installed.
torch.save(ToSparseTensor(layout=torch.sparse_csr)(data.clone()), path("adj_csr.pt"))
torch.save(ToSparseTensor(layout=torch.sparse_coo)(data.clone()), path("adj_coo.pt"))
with_csc = data.clone()
with_csc.adj_t = torch.sparse_coo_tensor(edge_index.flip(0), torch.full((edge_index.shape[1],), 0.5), (n, n)).to_sparse_csc()
del with_csc.edge_index
torch.save(with_csc, path("adj_csc.pt"))

# Sparse features, in both layouts that have rows in order, and one that has not.
for name, to in ("x_csr", x.to_sparse_csr()), ("x_coo", x.to_sparse()), ("x_csc", x.to_sparse_csc()):
    torch.save([Data(x=to, edge_index=edge_index, y=y, **masks)], path(name + ".pt"))
i, v = x.nonzero().flip(0).t(), x[tuple(x.nonzero().flip(0).t())]
torch.save(Data(x=torch.sparse_coo_tensor(i, v, x.shape), edge_index=edge_index, y=y, **masks), path("x_unsorted.pt"))

# Sets of nodes as other programs write them, and float labels of whole numbers in a column.
ids = {s: (part == i).nonzero().reshape(-1) for i, s in enumerate(("train", "valid", "test"))}
torch.save({"x": x, "edge_index": edge_index, "y": y.float().reshape(-1, 1), "split_idx": ids}, path("split_idx.pt"))
torch.save((Data(x=x, edge_index=edge_index, y=y.numpy(), **{s + "_idx": v.numpy() for s, v in ids.items()}),), path("idx.pt"))
torch.save(Data(x=x, edge_index=edge_index, y=y, **{k: torch.stack([~m, m], 1).byte() for k, m in masks.items()}), path("bytes.pt"))

# A tensor alone, and a dictionary of tensors.
torch.save(x, path("x.pt"))
torch.save({"feat": x.to_sparse(), "label": y, "edges": edge_index, "none": None}, path("tensors.pt"))

if sources := os.environ.get("SOURCES"):
    sys.path.insert(0, sources)
    torch.jit.script = lambda f, *a, **k: f  # returns a class as it is, too
    lib = torch.library.Library("torch_sparse", "DEF")
    lib.define("ptr2ind(Tensor p, int e) -> Tensor")
    lib.define("ind2ptr(Tensor i, int n) -> Tensor")
    lib.impl("ptr2ind", lambda p, e: torch.repeat_interleave(torch.arange(len(p) - 1), p.diff()), "CPU")
    lib.impl("ind2ptr", lambda i, n: torch.cat([torch.zeros(1, dtype=torch.long), torch.bincount(i, minlength=n).cumsum(0)]), "CPU")
    import torch_sparse.storage
    from torch_sparse.tensor import SparseTensor

    adj_t = SparseTensor(row=edge_index[1], col=edge_index[0], sparse_sizes=(n, n))
    torch.save(Data(x=SparseTensor.from_dense(x), adj_t=adj_t, y=y, **masks), path("library.pt"))
    adj_t.storage.rowptr()
    torch.save(Data(x=x, adj_t=adj_t.set_value(torch.rand(adj_t.nnz())), y=y, **masks), path("library_csr.pt"))
