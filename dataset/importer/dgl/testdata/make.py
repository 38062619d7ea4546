"""Files of DGL, and the graph that DGL loads from them: make.py DIR

All files of one graph but many.bin have the graph of graph.txt, which is in the form of
importertest.Text. The committed files were made by DGL 2.1.0 with torch 2.2.2. old.bin was made by DGL
1.0.1 in the same way (make.py DIR old). The bytes 32 to 4095, which DGL leaves undefined, are set to zero.
"""

import os
import sys

import dgl
import torch

out = sys.argv[1]
old = sys.argv[2:] == ["old"]
n = 6
src = torch.tensor([0, 1, 5, 2, 2, 4, 3, 1, 0, 5])
dst = torch.tensor([1, 0, 0, 2, 1, 3, 1, 5, 1, 3])
feat = torch.arange(2 * n).reshape(n, 2) / 4 - 1
label = torch.tensor([0, 2, 1, -1, 0, 2])
part = torch.tensor([1, 1, 2, 0, 3, 3])
masks = {name: part == i + 1 for i, name in enumerate(("train_mask", "val_mask", "test_mask"))}


def graph(node=None, edge=None, **how):
    g = dgl.graph((src, dst), num_nodes=n, **how)
    for name, data in (node or {"feat": feat, "label": label, **masks}).items():
        g.ndata[name] = data
    for name, data in (edge or {}).items():
        g.edata[name] = data
    return g


def save(name, graphs, labels=None, **how):
    path = os.path.join(out, name + ".bin")
    dgl.save_graphs(path, graphs, labels, **how)
    with open(path, "r+b") as f:
        f.seek(32)
        f.write(bytes(4096 - 32))


def golden():
    """Writes graph.txt."""
    save("temporary", [graph()])
    path = os.path.join(out, "temporary.bin")
    g = dgl.load_graphs(path)[0][0]
    os.remove(path)
    u, v = (x.tolist() for x in g.edges())
    with open(os.path.join(out, "graph.txt"), "w") as f:
        print("nodes", g.num_nodes(), file=f)
        print("edges", g.num_edges(), file=f)
        for d, s in sorted(zip(v, u)):
            print(d, "<-", s, file=f)
        for i, row in enumerate(g.ndata["feat"].tolist()):
            print(f"feat {i}:", *("%.9g" % x for x in row), file=f)
        for i, x in enumerate(g.ndata["label"].tolist()):
            print(f"label {i}:", x, file=f)
        for name, mask in zip(("train", "valid", "test"), ("train_mask", "val_mask", "test_mask")):
            print(" ".join([name + ":"] + [str(i) for i in g.ndata[mask].nonzero().flatten().tolist()]), file=f)


if old:
    save("old", [graph()])
    sys.exit()
golden()
save("coo", [graph()])
for form in ("csr", "csc"):
    save(form, [graph().formats(form)])
save("forms", [graph()], formats=["csr", "csc"])  # both, with the numbers of edges
save("int32", [graph(idtype=torch.int32)])
save("weighted", [graph(edge={"w": torch.rand(len(src)), "a": torch.zeros(len(src), 3)})])
for name, kind in ("float16", torch.float16), ("bfloat16", torch.bfloat16), ("float64", torch.float64):
    save(name, [graph({"x": feat.to(kind), "y": label.float(), "train_mask": masks["train_mask"].byte(), "valid_mask": masks["val_mask"].int(), "test_mask": masks["test_mask"].long()})])
sets = {name: (part == i + 1).nonzero().flatten() for i, name in enumerate(("train_idx", "valid_idx", "test_idx"))}
save("ogb", [graph({"feat": feat, "year": torch.arange(n)})], {"labels": label[:, None], "glabel": torch.tensor([1]), **sets})
# Masks with several columns: the sets of graph.txt are in column 1.
columns = {name: torch.stack([mask.roll(1), mask, mask.roll(2)], 1) for name, mask in masks.items()}
save("columns", [graph({"feat": feat, "label": label, **columns})])
one = dgl.heterograph({("paper", "cites", "paper"): (src, dst)}, {"paper": n})
for name, data in {"feat": feat, "label": label, **masks}.items():
    one.nodes["paper"].data[name] = data
save("homogeneous", [dgl.to_homogeneous(one, ndata=["feat", "label", *masks])])
save("named", [one])
save("two", [graph(), graph()], {"glabel": torch.tensor([0, 1])})
many = dgl.heterograph({("paper", "cites", "paper"): ([0, 1], [1, 2]), ("author", "writes", "paper"): ([0, 1, 1], [2, 0, 1])})
many.nodes["paper"].data["feat"] = torch.zeros(3, 2)
many.edges["writes"].data["w"] = torch.ones(3)
save("many", [many])
