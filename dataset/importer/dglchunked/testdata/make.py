"""Graphs in DGL's chunked format, in the documented layout, and what they say: make.py DIR

DIR/one has a single type, edges as csv with blanks, features and labels as arrays; DIR/many has two node
types and three edge types, in Parquet, as GraphStorm's GSProcessing writes them. NAME.txt has a line per
node of one homogeneous graph, in which the types follow each other in the order of node_type: the node, its
in-neighbours in ascending order, its features (zeros for types without a label), its label, its set. The
committed files were made by NumPy 2.4.6 and PyArrow 26.0.1.
"""

import json
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

out = sys.argv[1]
rng = np.random.default_rng(1)


def chunks(n, parts):
    cuts = np.linspace(0, n, parts + 1).astype(int)
    return list(zip(cuts, cuts[1:]))


class Graph:
    def __init__(self, name, form):
        self.dir, self.form = os.path.join(out, name), form
        os.makedirs(self.dir)
        self.meta = {"graph_name": name, "node_type": [], "num_nodes_per_chunk": [], "edge_type": [], "num_edges_per_chunk": [],
                     "edges": {}, "node_data": {}, "edge_data": {}}

    def write(self, base, values, parts, form):
        paths = []
        for i, (lo, hi) in enumerate(chunks(len(values), parts)):
            path = f"{base}-{i:05}.{form}"
            os.makedirs(os.path.dirname(os.path.join(self.dir, path)), exist_ok=True)
            part, file = values[lo:hi], os.path.join(self.dir, path)
            if form == "csv":
                np.savetxt(file, part, fmt="%d", delimiter=" ")
            elif form == "npy":
                np.save(file, part)
            elif base.startswith("edges"):
                pq.write_table(pa.table({"src_int_id": part[:, 0], "dst_int_id": part[:, 1]}), file)
            else:
                column = pa.array(part.tolist(), pa.list_(pa.float32())) if part.ndim > 1 else pa.array(part)
                pq.write_table(pa.table({os.path.basename(base): column}), file)
            paths.append(path)
        name = {"csv": "csv", "npy": "numpy", "parquet": "parquet"}[form]
        return {"format": {"name": name, **({"delimiter": " "} if form == "csv" else {})}, "data": paths}

    def nodes(self, kind, n, parts, **data):
        self.meta["node_type"].append(kind)
        self.meta["num_nodes_per_chunk"].append([int(hi - lo) for lo, hi in chunks(n, parts)])
        form = "npy" if self.form == "csv" else self.form
        self.meta["node_data"][kind] = {key: self.write(f"node_data/{kind}/{key}", v, parts, form) for key, v in data.items()}

    def edges(self, kind, edges, parts):
        self.meta["edge_type"].append(kind)
        self.meta["num_edges_per_chunk"].append([int(hi - lo) for lo, hi in chunks(len(edges), parts)])
        self.meta["edges"][kind] = self.write("edges/" + kind.replace(":", "_"), edges, parts, self.form)

    def save(self, **more):
        with open(os.path.join(self.dir, "metadata.json"), "w") as f:
            json.dump({**self.meta, **more}, f, indent=1)


def golden(name, n, edges, features, labels, part):
    with open(os.path.join(out, name + ".txt"), "w") as f:
        for v in range(n):
            near = sorted(edges[edges[:, 1] == v, 0].tolist())
            print(v, " ".join(map(str, near)), " ".join(format(float(np.float32(x)), ".9g") for x in features[v]), labels[v],
                  ["-", "train", "valid", "test"][part[v]], sep=" | ", file=f)


def masks(part):
    return {name: (part == i + 1).astype(np.int8) for i, name in enumerate(("train_mask", "val_mask", "test_mask"))}


n = 20
part = np.concatenate(([1, 2, 3], rng.integers(0, 4, n - 3)))
features, labels, edges = rng.standard_normal((n, 3)).astype(np.float32), rng.integers(0, 4, n), rng.integers(0, n, (50, 2))
g = Graph("one", "csv")
g.nodes("_N", n, 3, feat=features, label=labels, year=rng.integers(2000, 2020, n), **masks(part))
g.edges("_N:_E:_N", edges, 2)
g.save()
golden("one", n, edges, features, labels, part)

papers, authors = 12, 7
part = np.concatenate(([1, 2, 3], rng.integers(0, 4, papers - 3)))
width, text = rng.standard_normal(papers).astype(np.float32), rng.standard_normal((papers, 2)).astype(np.float32)
labels = rng.integers(0, 3, papers)
g = Graph("many", "parquet")
g.nodes("author", authors, 2, age=rng.standard_normal(authors).astype(np.float32))
g.nodes("paper", papers, 2, width=width, text=text, venue=labels, **masks(part))
all_edges = []
for kind, source, destination in ("author:writes:paper", authors, papers), ("paper:writes-rev:author", papers, authors), ("paper:cites:paper", papers, papers):
    e = np.stack((rng.integers(0, source, 15), rng.integers(0, destination, 15)), 1)
    g.edges(kind, e, 2)
    offset = {"author": 0, "paper": authors}
    s, _, d = kind.split(":")
    all_edges.append(e + [offset[s], offset[d]])
g.save(graph_info={"ntype_label": ["paper"], "ntype_label_property": ["venue"], "is_homogeneous": False})
golden("many", authors + papers, np.concatenate(all_edges), np.concatenate((np.zeros((authors, 3)), np.concatenate((text, width[:, None]), 1))),
       [-1] * authors + labels.tolist(), [0] * authors + part.tolist())
