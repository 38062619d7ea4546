"""GraphBolt trees, and what DGL loads from them: make.py DIR [NODES]

DIR/tutorial is the tree of DGL's tutorial "OnDiskDataset for Homogeneous Graph", made step by step as it
says, of NODES nodes (its own number is 1000) and with its two tasks in the other order: link prediction
first. DIR/preprocessed is what GraphBolt made of it, without the source. DIR/arrays has the
tutorial's files of torch with arrays of NumPy in place of tensors.

For both, DIR/tutorial.txt has a line per node of what the loaded dataset says: the node, its in-neighbours in
ascending order, the elements of feat_0 and feat_1, its label and its set in the node classification task.
The committed files were made by DGL 2.1.0 with torch 2.2.1.
"""

import os
import shutil
import sys

import numpy as np
import torch

import dgl.graphbolt as gb

out = sys.argv[1]
num_nodes = int(sys.argv[2]) if len(sys.argv) > 2 else 60
np.random.seed(1)
torch.manual_seed(1)

base = os.path.join(out, "tutorial")
os.makedirs(base)
path = lambda name: os.path.join(base, name)

# Edges: CSV without index and header.
num_edges = 10 * num_nodes
edges = np.random.randint(0, num_nodes, size=(num_edges, 2))
np.savetxt(path("edges.csv"), edges, fmt="%d", delimiter=",")

# Features of nodes and edges: an array and a tensor each.
np.save(path("node-feat-0.npy"), np.random.rand(num_nodes, 5))
torch.save(torch.rand(num_nodes, 5), path("node-feat-1.pt"))
np.save(path("edge-feat-0.npy"), np.random.rand(num_edges, 5))
torch.save(torch.rand(num_edges, 5), path("edge-feat-1.pt"))

# Node classification: ids as arrays, labels as tensors.
ids = np.arange(num_nodes)
np.random.shuffle(ids)
train, valid = int(num_nodes * 0.6), int(num_nodes * 0.2)
for name, part in ("train", ids[:train]), ("val", ids[train:train + valid]), ("test", ids[train + valid:]):
    np.save(path(f"nc-{name}-ids.npy"), part)
    torch.save(torch.randint(0, 10, (len(part),)), path(f"nc-{name}-labels.pt"))

# Link prediction: pairs; for validation and test ten negative ones for each, with labels and indexes.
train, valid = int(num_edges * 0.6), int(num_edges * 0.2)
np.save(path("lp-train-seeds.npy"), edges[:train])
for name, part in ("val", edges[train:train + valid]), ("test", edges[train + valid:]):
    n = len(part)
    negative = np.concatenate((np.repeat(part[:, 0], 10), np.random.randint(0, num_nodes, (n, 10)).reshape(-1)))
    np.save(path(f"lp-{name}-seeds.npy"), np.concatenate((part, negative.reshape(2, -1).T)))
    np.save(path(f"lp-{name}-labels.npy"), np.concatenate((np.ones(n), np.zeros(10 * n))))
    np.save(path(f"lp-{name}-indexes.npy"), np.concatenate((np.arange(n), np.repeat(np.arange(n), 10))))


def item(name, form, file):
    return f"              - {{name: {name}, format: {form}, path: {file}}}\n"


def task(name, sets):
    text = f"  - name: {name}\n    num_classes: 10\n"
    for key, data in sets.items():
        text += f"    {key}:\n      - data:\n" + "".join(item(*d) for d in data)
    return text


sets = {"train_set": "train", "validation_set": "val", "test_set": "test"}
link = {key: [("seeds", "numpy", f"lp-{s}-seeds.npy")] +
        ([] if s == "train" else [(what, "numpy", f"lp-{s}-{what}.npy") for what in ("labels", "indexes")])
        for key, s in sets.items()}
node = {key: [("seeds", "numpy", f"nc-{s}-ids.npy"), ("labels", "torch", f"nc-{s}-labels.pt")] for key, s in sets.items()}
with open(path("metadata.yaml"), "w") as f:
    f.write(f"""dataset_name: homogeneous_graph_nc_lp
graph:
  nodes:
    - num: {num_nodes}
  edges:
    - format: csv
      path: edges.csv
feature_data:
  - {{domain: node, name: feat_0, format: numpy, path: node-feat-0.npy}}
  - {{domain: node, name: feat_1, format: torch, path: node-feat-1.pt}}
  - {{domain: edge, name: feat_0, format: numpy, path: edge-feat-0.npy}}
  - {{domain: edge, name: feat_1, format: torch, path: edge-feat-1.pt}}
tasks:
""" + task("link_prediction", link) + task("node_classification", node))

dataset = gb.OnDiskDataset(base).load()
graph, task = dataset.graph, dataset.tasks[1]
features = torch.cat([dataset.feature.read("node", None, f"feat_{i}").float() for i in range(2)], 1)
label, part = {}, {}
for name in ("train", "validation", "test"):
    seeds, labels = getattr(task, name + "_set")[:]
    for v, y in zip(seeds.tolist(), labels.tolist()):
        label[v], part[v] = y, name
with open(os.path.join(out, "tutorial.txt"), "w") as f:
    for v in range(num_nodes):
        begin, end = graph.csc_indptr[v:v + 2].tolist()
        print(v, " ".join(map(str, sorted(graph.indices[begin:end].tolist()))),
              " ".join(format(x, ".9g") for x in features[v].tolist()), label[v], part[v], sep=" | ", file=f)

# What GraphBolt made, less what node classification does not read.
made = os.path.join(out, "preprocessed")
shutil.copytree(base, made)
shutil.rmtree(os.path.join(base, "preprocessed"))
for name in os.listdir(made):
    if name != "preprocessed":
        os.remove(os.path.join(made, name))
for name in ("edge-feat-0.npy", "edge-feat-1.npy", "lp-val-labels.npy", "lp-test-labels.npy", "lp-val-indexes.npy", "lp-test-indexes.npy", "dataset_hash_value.txt"):
    os.remove(os.path.join(made, "preprocessed", name))

# The tree's files of torch with arrays in them. GraphBolt loads the same labels of them, and no features.
arrays = os.path.join(out, "arrays")
os.makedirs(arrays)
for name in ("node-feat-1.pt", "nc-train-labels.pt", "nc-val-labels.pt", "nc-test-labels.pt"):
    torch.save(torch.load(path(name)).numpy(), os.path.join(arrays, name))
again = os.path.join(out, "again")
shutil.copytree(base, again)
for name in os.listdir(arrays):
    if name != "node-feat-1.pt":
        shutil.copy(os.path.join(arrays, name), again)
loaded = gb.OnDiskDataset(again).load()
for name in ("train", "validation", "test"):
    assert all(map(np.array_equal, getattr(loaded.tasks[1], name + "_set")[:], getattr(task, name + "_set")[:]))
shutil.rmtree(again)
