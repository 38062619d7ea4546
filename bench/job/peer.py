"""A whole job of PyTorch Geometric or of GraphBolt with DGL, with everything in memory: load a tree of arrays,
train a GraphSAGE on sampled batches with a sampled validation after every epoch, predict the class of every node
layer by layer from all neighbours, and write the predictions.

    peer.py TREE OUT.npy --lib pyg|graphbolt --fanout 10,15,20 --hidden 128 --epochs 3 [--device cuda]

TREE is a tree that `diskgnn export --format graphbolt` writes. The last line is a JSON object with the stages:
their wall times, the drive's bytes, and the peak of the resident memory so far.

    load     import of the libraries, arrays from disk, and the graph in the form that the sampler needs
    train    all epochs with their validations; train_epoch and valid_epoch are the medians of an epoch's parts
    predict  all nodes from all neighbours, a layer at a time, and the file of classes
"""
import time

began = time.perf_counter()

import argparse
import json
import os
import resource
import statistics
import warnings
from pathlib import Path

os.environ.setdefault("DGLBACKEND", "pytorch")
warnings.filterwarnings("ignore")
import numpy as np
import torch
from torch.nn.functional import cross_entropy, dropout, relu


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tree", type=Path)
    p.add_argument("out", type=Path)
    p.add_argument("--lib", choices=("pyg", "graphbolt"), required=True)
    p.add_argument("--fanout", type=lambda s: [int(v) for v in s.split(",")], required=True, help="input side first")
    p.add_argument("--hidden", type=int, required=True)
    p.add_argument("--epochs", type=int, required=True)
    p.add_argument("--batch", type=int, default=1024)
    p.add_argument("--predict-batch", type=int, default=8192, help="nodes of a batch of the prediction")
    p.add_argument("--lr", type=float, default=0.003)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--device", default="cpu")
    return p.parse_args()


class Tree:
    """The arrays of a tree: x float32 (N, width), edges int64 (2, E), and a pair of seeds and labels a set."""

    def __init__(self, folder):
        read = lambda name: torch.from_numpy(np.load(folder / f"{name}.npy"))
        self.x, self.edges = read("feat").float(), read("edges").long()
        self.sets = {s: (read(f"{s}_seeds").long(), read(f"{s}_labels").long()) for s in ("train", "valid", "test")}
        self.classes = 1 + max(int(labels.max()) for _, labels in self.sets.values())


class PyG:
    """PyTorch Geometric: NeighborLoader, SAGEConv. With the sampler of pyg-lib, a layer computes the nodes that its
    batch's seeds need. Its other sampler, torch-sparse, does not count them, and layers compute all nodes of a batch,
    on a CPU with products of sparse matrices, which are faster there than lists of edges. With more than four threads,
    half as many processes sample."""

    def __init__(self, tree, a):
        from torch_geometric.data import Data
        from torch_geometric.loader import NeighborLoader
        from torch_geometric.nn import SAGEConv

        self.a, self.loader, y = a, NeighborLoader, torch.full((len(tree.x),), -1)
        for seeds, labels in tree.sets.values():
            y[seeds] = labels
        self.data = Data(x=tree.x, y=y, edge_index=tree.edges)
        widths = [tree.x.shape[1]] + [a.hidden] * (len(a.fanout) - 1) + [tree.classes]
        self.net = torch.nn.ModuleList(SAGEConv(i, o) for i, o in zip(widths, widths[1:]))
        # The loader keeps its own form of the graph, made here.
        self.loaders = {s: self.load(seeds, a.fanout[::-1], s == "train") for s, (seeds, _) in tree.sets.items()}

    def load(self, seeds, fanout, shuffle=False, batch=None):
        workers = self.a.threads // 2 if self.a.threads > 4 else 0
        return self.loader(self.data, fanout, seeds, batch_size=batch or self.a.batch, shuffle=shuffle,
                           num_workers=workers, persistent_workers=workers > 0 and batch is None)

    def batches(self, name):
        from torch_geometric.utils import trim_to_layer

        for b in self.loaders[name]:
            x, e = b.x.to(self.a.device), b.edge_index.to(self.a.device)
            n, m = (getattr(b, f"num_sampled_{what}", None) for what in ("nodes", "edges"))
            if n is None:
                e = self.matrix(e, len(x))
            for l, conv in enumerate(self.net):
                if l:
                    x = dropout(relu(x), 0.5, self.net.training)
                if n is not None:
                    x, e, _ = trim_to_layer(l, n, m, x, e)
                x = conv(x, e)
            yield x[:b.batch_size], b.y[:b.batch_size].to(self.a.device)

    def matrix(self, edges, nodes):
        if self.a.device != "cpu":
            return edges
        from torch_sparse import SparseTensor

        return SparseTensor(row=edges[1], col=edges[0], sparse_sizes=(nodes, nodes))

    def predict(self):
        x, every = self.data.x, torch.arange(len(self.data.x))
        self.data.x = self.data.y = None  # the loader below gathers rows by n_id
        for l, conv in enumerate(self.net):
            parts = []
            for b in self.load(every, [-1], batch=self.a.predict_batch):
                e = b.edge_index.to(self.a.device)
                e = e if hasattr(b, "num_sampled_nodes") else self.matrix(e, len(b.n_id))
                h = conv(x[b.n_id].to(self.a.device), e)[:b.batch_size]
                parts.append((relu(h) if l + 1 < len(self.net) else h.argmax(1)).cpu())
            x = torch.cat(parts)
        return x


class GraphBolt:
    """GraphBolt's pipeline and DGL's SAGEConv."""

    def __init__(self, tree, a):
        import dgl
        import dgl.graphbolt as gb

        dgl.utils.set_num_threads(a.threads)
        self.a, self.gb, self.tree, n = a, gb, tree, len(tree.x)
        src, dst = tree.edges
        order = torch.argsort(dst, stable=True)
        indptr = torch.zeros(n + 1, dtype=torch.int64)
        indptr[1:] = torch.bincount(dst, minlength=n).cumsum(0)
        self.graph = gb.fused_csc_sampling_graph(indptr, src[order])
        tree.edges = None
        self.store = gb.BasicFeatureStore({("node", None, "feat"): gb.TorchBasedFeature(tree.x)})
        widths = [tree.x.shape[1]] + [a.hidden] * (len(a.fanout) - 1) + [tree.classes]
        self.net = torch.nn.ModuleList(dgl.nn.SAGEConv(i, o, "mean") for i, o in zip(widths, widths[1:]))

    def load(self, seeds, labels, fanout, x=None, shuffle=False):
        items = self.gb.ItemSet((seeds, labels), names=("seed_nodes", "labels"))
        pipe = self.gb.ItemSampler(items, batch_size=self.a.batch, shuffle=shuffle).sample_neighbor(self.graph, fanout)
        pipe = pipe.fetch_feature(x or self.store, node_feature_keys=["feat"])
        return self.gb.DataLoader(pipe, num_workers=0)

    def batches(self, name):
        for b in self.load(*self.tree.sets[name], self.a.fanout, shuffle=name == "train"):
            x = b.node_features["feat"].to(self.a.device)
            for l, (conv, block) in enumerate(zip(self.net, b.blocks)):
                if l:
                    x = dropout(relu(x), 0.5, self.net.training)
                x = conv(block.to(self.a.device), x)
            yield x, b.labels.to(self.a.device)

    def predict(self):
        x, every = self.tree.x, torch.arange(len(self.tree.x))
        for l, conv in enumerate(self.net):
            parts, store = [], self.gb.BasicFeatureStore({("node", None, "feat"): self.gb.TorchBasedFeature(x)})
            for b in self.load(every, every, [-1], store):
                h = conv(b.blocks[0].to(self.a.device), b.node_features["feat"].to(self.a.device))
                parts.append((relu(h) if l + 1 < len(self.net) else h.argmax(1)).cpu())
            x = torch.cat(parts)
        return x


class Stages:
    """The figures of the stages so far."""

    def __init__(self, since):
        self.all, self.since, self.usage = [], since, resource.getrusage(resource.RUSAGE_SELF)

    def end(self, name, **more):
        now, u = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        self.all.append({"stage": name, "seconds": now - self.since, "peak_rss_bytes": u.ru_maxrss * 1024,
                         "drive_read_bytes": 512 * (u.ru_inblock - self.usage.ru_inblock),
                         "drive_written_bytes": 512 * (u.ru_oublock - self.usage.ru_oublock)} | more)
        self.since, self.usage = time.perf_counter(), u


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    stages = Stages(began)
    job = {"pyg": PyG, "graphbolt": GraphBolt}[a.lib](Tree(a.tree), a)
    job.net.to(a.device)
    adam = torch.optim.Adam(job.net.parameters(), lr=a.lr)
    stages.end("load")

    def accuracy(name):
        job.net.eval()
        right = count = 0
        with torch.no_grad():
            for logits, y in job.batches(name):
                right, count = right + int((logits.argmax(1) == y).sum()), count + len(y)
        return right / count

    training, validating = [], []
    for _ in range(a.epochs):
        job.net.train()
        start = time.perf_counter()
        for logits, y in job.batches("train"):
            adam.zero_grad()
            cross_entropy(logits, y).backward()
            adam.step()
        training.append(time.perf_counter() - start)
        valid = accuracy("valid")
        validating.append(time.perf_counter() - start - training[-1])
    stages.end("train", train_epoch=statistics.median(training), valid_epoch=statistics.median(validating), valid_accuracy=valid)
    job.net.eval()
    with torch.no_grad():
        classes = job.predict()
    np.save(a.out, classes.numpy().astype(np.int32))
    stages.end("predict")
    print(json.dumps({"stages": stages.all}))


if __name__ == "__main__":
    main()
