"""Files of DGL with graphs of several types, and the graph that DGL loads from them: typed.py DIR

All files have the graph of typed.txt, which importer/testdata/make.py describes. The bytes 32 to 4095, which DGL
leaves undefined, are set to zero. GraphBolt, which the files do not need, is not loaded.
"""

import importlib
import os
import sys
import types

os.environ.setdefault("DGLBACKEND", "pytorch")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../testdata"))


class Empty(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


sys.modules.setdefault("dgl.graphbolt", Empty("dgl.graphbolt"))
dgl = importlib.import_module("dgl")
import torch
from make import typed_golden

out = sys.argv[1]
torch.manual_seed(7)
counts = {"venue": 3, "paper": 9, "author": 6}
relations = [("author", "writes", "paper"), ("paper", "in", "venue"), ("paper", "cites", "paper"), ("author", "reviews", "paper")]
label = torch.tensor([0, 1, 2, 0, 1, 2, -1, 0, 1])
feats = {kind: torch.randn(counts[kind], 4) for kind in ("author", "paper")}
edges = {r: (torch.randint(0, counts[r[0]], (12,)), torch.randint(0, counts[r[2]], (12,))) for r in relations}


def save(name, form="coo", **how):
    g = dgl.heterograph(edges, counts, **how).formats(form)
    for kind, x in feats.items():
        g.nodes[kind].data["feat"] = x
    g.nodes["paper"].data["label"] = label
    for i, mask in enumerate(("train_mask", "val_mask", "test_mask")):
        g.nodes["paper"].data[mask] = torch.arange(9) % 3 == i
    g.edges["in"].data["w"] = torch.rand(12)
    path = os.path.join(out, name + ".bin")
    dgl.save_graphs(path, [g])
    with open(path, "r+b") as f:
        f.seek(32)
        f.write(bytes(4096 - 32))
    return dgl.load_graphs(path)[0][0]


g = save("typed-coo")
save("typed-csr", "csr")
save("typed-csc", "csc")
save("typed-int32", idtype=torch.int32)
kept = [v for v in range(9) if label[v] >= 0]
# DGL orders types and relations by their names.
typed_golden(os.path.join(out, "typed.txt"), {k: g.num_nodes(k) for k in g.ntypes}, {k: g.nodes[k].data["feat"].numpy() for k in feats}, "paper",
             g.nodes["paper"].data["label"].tolist(), {r: torch.stack(g.edges(etype=r)).numpy() for r in g.canonical_etypes},
             {n: [v for v in kept if g.nodes["paper"].data[m][v]] for n, m in (("train", "train_mask"), ("valid", "val_mask"), ("test", "test_mask"))})
