"""Graphs in the layouts of GraphSAINT and of GraphSAGE's Reddit, and what PyTorch Geometric loads from them:
make.py DIR

DIR/flickr has a class per node, DIR/yelp any number; NAME.txt has a line per node: the node, its in-neighbours
in ascending order, its features, its label or classes, its set. The committed files were made by SciPy 1.17.1
and PyTorch Geometric 2.8.1.
"""

import json
import os
import shutil
import sys
import warnings

warnings.filterwarnings("ignore")

import numpy as np
import scipy.sparse as sp
from torch_geometric.datasets import Flickr, Reddit, Yelp

out = sys.argv[1]
rng = np.random.default_rng(1)
n, dim = 24, 3


def adjacency():
    a = sp.random(n, n, 0.12, "csr", random_state=rng)
    return a + a.T.multiply(rng.random((n, n)) < 0.7).tocsr()  # nearly symmetric: the direction shows


def golden(name, data):
    with open(os.path.join(out, name + ".txt"), "w") as f:
        source, destination = data.edge_index
        for v in range(n):
            part = [s for s in ("train", "val", "test") if data[s + "_mask"][v]]
            print(v, " ".join(map(str, sorted(source[destination == v].tolist()))),
                  " ".join(format(x, ".9g") for x in data.x[v].tolist()),
                  " ".join(format(c, "g") for c in data.y[v].reshape(-1).tolist()), " ".join(part) or "-", sep=" | ", file=f)


def saint(name, load, labels):
    raw = os.path.join(out, name, "raw")
    os.makedirs(raw)
    sp.save_npz(os.path.join(raw, "adj_full.npz"), adjacency().astype(bool))
    np.save(os.path.join(raw, "feats.npy"), rng.standard_normal((n, dim)))
    order = rng.permutation(n).tolist()
    with open(os.path.join(raw, "class_map.json"), "w") as f:
        json.dump({str(v): labels[v].tolist() for v in order}, f)
    with open(os.path.join(raw, "role.json"), "w") as f:
        json.dump({"tr": order[:14], "va": order[14:19], "te": order[19:]}, f)
    golden(name, load(os.path.join(out, name))[0])
    shutil.rmtree(os.path.join(out, name, "processed"))


saint("flickr", Flickr, rng.integers(0, 4, n))
saint("yelp", Yelp, rng.integers(0, 2, (n, 5)))

raw = os.path.join(out, "reddit", "raw")
os.makedirs(raw)
sp.save_npz(os.path.join(raw, "reddit_graph.npz"), adjacency().tocoo())
np.savez(os.path.join(raw, "reddit_data.npz"), feature=rng.standard_normal((n, dim)).astype(np.float32), label=rng.integers(0, 5, n),
         node_types=rng.integers(1, 4, n), node_ids=np.arange(n))
golden("reddit", Reddit(os.path.join(out, "reddit"))[0])
shutil.rmtree(os.path.join(out, "reddit", "processed"))
