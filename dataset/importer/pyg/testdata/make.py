"""Files of PyTorch Geometric, and what it loads from them: make.py DIR

NAME.txt has a line per node of what the first graph of NAME.pt says: the node, its in-neighbours in
ascending order, its features, its label or its classes, its set. The committed files were made by PyTorch
Geometric 2.8.1 with torch 2.15.0.
"""

import os
import sys
import warnings

warnings.filterwarnings("ignore")

import torch
from torch_geometric.data import Data, HeteroData, InMemoryDataset

out = sys.argv[1]
torch.manual_seed(1)
path = lambda name: os.path.join(out, name)


class Loaded(InMemoryDataset):
    """What the library itself loads from a file."""

    def __init__(self, file):
        super().__init__()
        self.load(file)


def masks(n, columns=0):
    part = torch.randint(0, 4, (n,) + (columns,) * bool(columns))
    part[:3] = torch.arange(3)[(slice(None),) + (None,) * bool(columns)]
    return {name: part == i for i, name in enumerate(("train_mask", "val_mask", "test_mask"))}


def graph(n=20, **more):
    return Data(x=torch.randn(n, 4), edge_index=torch.randint(0, n, (2, 3 * n)), **{"y": torch.randint(0, 3, (n,)), **masks(n), **more})


def golden(name, data, column=None):
    column_of = lambda mask: mask if column is None else mask[:, column]
    with open(path(name + ".txt"), "w") as f:
        for v in range(data.num_nodes):
            source, destination = data.edge_index
            y = data.y[v].reshape(-1).tolist()
            part = [s for s in ("train", "val", "test") if column_of(data[s + "_mask"])[v]]
            print(v, " ".join(map(str, sorted(source[destination == v].tolist()))),
                  " ".join(format(x, ".9g") for x in data.x[v].tolist()),
                  " ".join(format(c, "g") for c in y), " ".join(part) or "-", sep=" | ", file=f)


# As InMemoryDataset.save writes it: (dictionary, None, class).
InMemoryDataset.save([graph()], path("data.pt"))
golden("data", Loaded(path("data.pt"))[0])

# As releases before 2.3 wrote it: (the object, None); and the object alone.
data = graph()
torch.save((data, None), path("tuple.pt"))
golden("tuple", torch.load(path("tuple.pt"), weights_only=False)[0])
torch.save(data, path("object.pt"))

# Edges by columns, nodes of any number of classes in float16, ten divisions into sets.
data = graph(y=torch.randint(0, 2, (20, 5)).float(), **masks(20, 10))
data.edge_index = data.edge_index.t().contiguous().t()
data.x = data.x.half()
InMemoryDataset.save([data], path("many.pt"))
golden("many", Loaded(path("many.pt"))[0], 0)

# Graphs of two types, and two graphs.
hetero = HeteroData()
hetero["paper"].x = torch.rand(3, 2)
hetero["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1], [1, 2]])
InMemoryDataset.save([hetero], path("hetero.pt"))
torch.save(hetero, path("hetero-object.pt"))
InMemoryDataset.save([graph(5), graph(6)], path("two.pt"))

# Arrays of NumPy where tensors are.
data = graph()
golden("arrays", data)
InMemoryDataset.save([Data(**{key: value.numpy() for key, value in data.to_dict().items()})], path("arrays.pt"))
