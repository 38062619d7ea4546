"""Directories as DiskGNN's prepare_dataset.py makes them, and the graph that they were made of: make.py DIR

DIR/bolt is in the layout of its last release, with a graph of GraphBolt's, features.bin and labels.pth; DIR/dgl in
that of its paper, with a DGLGraph, features.npy without a header, labels.npy of the nodes from label_offset on, and
the label 404. The graphs are DGL's own. DIR/NAME.txt has a line per node of what torch, numpy and DGL load: the
node, its in-neighbours in ascending order, its features, its label and its set. The committed files were made by
DGL 2.1.0 with torch 2.2.1.
"""

import json
import os
import sys

import dgl
import dgl.graphbolt as gb
import numpy as np
import torch

out = sys.argv[1]
torch.manual_seed(2)
nodes, classes = 20, 4


def write(name, graph, near, features, labels, split, offset):
    base = os.path.join(out, name)
    os.makedirs(base)
    path = lambda file: os.path.join(base, file)
    torch.save(graph, path("graph.pth"))
    features.numpy().tofile(path("features.bin" if name == "bolt" else "features.npy"))
    if name == "bolt":
        torch.save(labels, path("labels.pth"))
    else:
        np.save(path("labels.npy"), labels.numpy())
    conf = {"num_nodes": nodes, "features_shape": tuple(features.shape), "features_dtype": str(features.dtype if name == "bolt" else features.numpy().dtype),
            "feat_itemsize": features.element_size(), "labels_shape": tuple(labels.shape), "labels_dtype": str(labels.dtype),
            "num_classes": classes, "label_offset": offset, "total_num_nodes": nodes}
    with open(path("conf.json"), "w") as f:
        json.dump(conf, f)
    torch.save(split, path("split_idx.pth"))
    part = {v: key for key, ids in torch.load(path("split_idx.pth")).items() for v in ids.tolist()}
    near = near(torch.load(path("graph.pth")))
    with open(os.path.join(out, name + ".txt"), "w") as f:
        for v in range(nodes):
            label = labels[v - offset].item() if v >= offset else -1
            label = -1 if label == 404 or label != label else int(label)
            print(v, " ".join(map(str, sorted(near(v)))), " ".join(format(x, ".9g") for x in features[v].tolist()),
                  label, part.get(v, "-") if label >= 0 else "-", sep=" | ", file=f)


def split(first):
    ids = first + torch.randperm(nodes - first)
    return {"train": ids[:6], "valid": ids[6:9], "test": ids[9:]}


source, destination = torch.randint(0, nodes, (2, 3 * nodes))
order = torch.argsort(destination, stable=True)
indptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(torch.bincount(destination, minlength=nodes), 0)])
bolt = gb.fused_csc_sampling_graph(indptr, source[order])
labels = torch.randint(-1, classes, (nodes,))
write("bolt", bolt, lambda g: lambda v: g.indices[g.csc_indptr[v]:g.csc_indptr[v + 1]].tolist(),
      torch.randn(nodes, 3).half(), labels, split(0), 0)

graph = dgl.graph((source, destination), num_nodes=nodes).formats("coo")
labels = torch.randint(0, classes, (nodes - 5,)).float()
labels[2], labels[3] = 404, float("nan")
write("dgl", graph, lambda g: lambda v: g.in_edges(v)[0].tolist(), torch.randn(nodes, 3), labels, split(5), 5)
