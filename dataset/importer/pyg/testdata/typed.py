"""Graphs of several types as PyTorch Geometric saves them, and what it loads from them: typed.py DIR

The golden is written as importer/testdata/make.py writes those of typed graphs. The committed files were made by
PyTorch Geometric 2.8.1 with torch 2.15.0.
"""

import os
import sys
import warnings

warnings.filterwarnings("ignore")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../testdata"))

import torch
import torch_geometric.transforms as T
from make import typed_golden
from torch_geometric.data import HeteroData, InMemoryDataset

out = sys.argv[1]
torch.manual_seed(5)
path = lambda name: os.path.join(out, name)
counts = {"venue": 3, "author": 6, "paper": 9}  # in the order of the file; venues have no features
relations = [("paper", "in", "venue"), ("author", "writes", "paper"), ("paper", "cites", "paper")]


def graph():
    data = HeteroData()
    data["venue"].num_nodes = counts["venue"]
    for kind in "author", "paper":
        data[kind].x = torch.randn(counts[kind], 4)
    data["paper"].y = torch.tensor([0, 1, 2, 0, 1, 2, -1, 0, 1])
    for i, name in enumerate(("train_mask", "val_mask", "test_mask")):
        data["paper"][name] = torch.arange(9) % 3 == i
    for s, r, d in relations:
        pairs = torch.randperm(counts[s] * counts[d])[:12]  # no parallel edges, which sparse tensors add up
        data[s, r, d].edge_index = torch.stack([pairs // counts[d], pairs % counts[d]])
    data["paper", "in", "venue"].edge_weight = torch.rand(12)
    return data


class Loaded(InMemoryDataset):
    def __init__(self, file):
        super().__init__()
        self.load(file, data_cls=HeteroData)


data = graph()
InMemoryDataset.save([data], path("typed.pt"))
torch.save(data, path("typed-object.pt"))
torch.save(InMemoryDataset.collate([data]), path("typed-tuple.pt"))
read = Loaded(path("typed.pt"))[0]
kept = [v for v in range(9) if read["paper"].y[v] >= 0]
typed_golden(path("typed.txt"), counts, {k: read[k].x.numpy() for k in ("author", "paper")}, "paper", read["paper"].y.tolist(),
             {k: read[k].edge_index.numpy() for k in relations},
             {n: [v for v in kept if read["paper"][m][v]] for n, m in (("train", "train_mask"), ("valid", "val_mask"), ("test", "test_mask"))})

# The same with each relation as a sparse tensor, a row of which has the sources of a node.
del data["paper", "in", "venue"].edge_weight
data = T.ToSparseTensor(layout=torch.sparse_csr)(data)
del data["venue"].num_nodes
torch.save(data, path("typed-adj.pt"))

# Features of two widths, two types with labels, and a type of unknown size.
data = graph()
data["author"].x = torch.randn(6, 2)
torch.save(data, path("typed-widths.pt"))
data = graph()
data["author"].y = torch.tensor([0, 1, 0, 1, 0, 1])
for name in "train_mask", "val_mask", "test_mask":
    data["author"][name] = data["paper"][name][:6]
torch.save(data, path("typed-labels.pt"))
data = graph()
del data["venue"].num_nodes
torch.save(data, path("typed-unknown.pt"))
