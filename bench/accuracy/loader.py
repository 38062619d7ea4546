"""Accuracy of models of PyTorch Geometric on batches of diskgnn.Loader, beside batches from memory, in turn: the same model,
optimizer and numbers of neighbours. After every epoch all nodes are scored from all of their neighbours; a run's score is
the test score of its best validation epoch.

    PYTHONPATH=python .pyg/bin/python bench/accuracy/loader.py GRAPH --model sage --fanout 10,10,10 --epochs 40 --lr 0.01

GRAPH is a DATASET of diskgnn, which is in PATH. The ways are: loader; neighbor, NeighborLoader, which needs pyg-lib or
torch-sparse; memory, batches that NumPy draws in memory, anew at each hop as Loader's are. Each run is a line of JSON, and
the last lines have means, standard deviations, and differences to loader with two standard errors, in percent.
"""

import argparse
import json
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn import Linear, ReLU, Sequential
from torch_geometric.nn import GATv2Conv, GINConv, SAGEConv

from diskgnn import Dataset, Loader

p = argparse.ArgumentParser()
p.add_argument("graph")
p.add_argument("--model", choices=("sage", "gatv2", "gin"), default="sage")
p.add_argument("--fanout", default="10,10,10", help="the seeds' layer last")
p.add_argument("--epochs", type=int, default=40)
p.add_argument("--lr", type=float, default=0.01)
p.add_argument("--batch", type=int, default=1000)
p.add_argument("--hidden", type=int, default=256)
p.add_argument("--dropout", type=float, default=0.5)
p.add_argument("--seeds", type=int, default=3)
p.add_argument("--metric", choices=("accuracy", "auc"), default="accuracy")
p.add_argument("--ways", nargs="+", choices=("loader", "neighbor", "memory"), default=["loader", "neighbor"])
p.add_argument("--threads", type=int, default=2)
a = p.parse_args()
torch.set_num_threads(a.threads)

d = Dataset(a.graph)
fanout, n_classes = [int(n) for n in a.fanout.split(",")], d.facts["classes"]
x, y = torch.from_numpy(d.features[:].astype("f4")), torch.from_numpy(d.labels.astype("i8"))
edges = torch.from_numpy(d.edge_index())
sets = {name: torch.from_numpy(getattr(d, name).astype("i8")) for name in ("train", "valid", "test")}


def layer(i, o):
    """Sums over sampled neighbours are no sums over all: GIN takes means."""
    if a.model == "sage":
        return SAGEConv(i, o)
    if a.model == "gin":
        return GINConv(Sequential(Linear(i, a.hidden), ReLU(), Linear(a.hidden, o)), train_eps=True, aggr="mean")
    last = o == n_classes
    return GATv2Conv(i, o if last else o // 8, heads=8, concat=not last, add_self_loops=False)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        widths = [x.shape[1]] + [a.hidden] * (len(fanout) - 1) + [n_classes]
        self.convs = torch.nn.ModuleList(layer(i, o) for i, o in zip(widths, widths[1:]))

    def forward(self, x, layers):
        """layers are (edges, positions of the destinations among the sources)."""
        for conv, (edges, dst) in zip(self.convs, layers):
            if a.model == "gatv2":  # a self-loop of destination i comes from source dst[i]
                edges = torch.cat([edges, torch.stack([dst, torch.arange(len(dst))])], 1)
            x = conv((x, x[dst]), edges)
            if conv is not self.convs[-1]:
                x = F.dropout(F.relu(x), a.dropout, self.training)
        return x


def by_loader(seed):
    for b in Loader(dataset=a.graph, fanout=fanout, batch_size=a.batch, epochs=a.epochs, sample_seed=seed, dry_epochs="all"):
        yield b.x, b.y, lambda net: net(b.x, [(k.edge_index, k.dst) for k in b.blocks])


def by_neighbors(seed):
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    loader = NeighborLoader(Data(x=x, y=y, edge_index=edges), fanout[::-1], sets["train"], batch_size=a.batch, shuffle=True)
    for _ in range(a.epochs):
        for b in loader:
            n, every = b.batch_size, torch.arange(len(b.x))
            yield b.x, b.y[:n], lambda net: net(b.x, [(b.edge_index, every)] * len(fanout))[:n]


def by_memory(seed):
    rng = np.random.default_rng(seed)
    for _ in range(a.epochs):
        order = rng.permutation(d.train.astype("i8"))
        for at in range(0, len(order), a.batch):
            nodes, layers = order[at:at + a.batch], []
            for n in fanout[::-1]:
                counts = np.diff(d.indptr)[nodes]
                to = np.repeat(np.arange(len(nodes)), counts)
                first = np.cumsum(counts) - counts
                chosen = np.lexsort((rng.random(len(to)), to))[np.arange(len(to)) - first[to] < n]
                to = to[chosen]
                found = d.indices[d.indptr[nodes[to]] + chosen - first[to]].astype("i8")
                sources = np.concatenate([nodes, np.setdiff1d(found, nodes)])
                place = np.empty(len(x), "i8")
                place[sources] = np.arange(len(sources))
                layers.insert(0, (torch.from_numpy(np.stack([place[found], to])), torch.arange(len(nodes))))
                nodes = sources
            yield x[nodes], y[order[at:at + a.batch]], lambda net: net(x[nodes], layers)


def score(net):
    net.eval()
    with torch.no_grad():
        logits = net(x, [(edges, torch.arange(len(x)))] * len(fanout))
    net.train()

    def of(nodes):
        if a.metric == "accuracy":
            return (logits[nodes].argmax(1) == y[nodes]).float().mean().item()
        worth, positive = logits[nodes, 1] - logits[nodes, 0], y[nodes] == 1
        rank = torch.empty(len(nodes), dtype=torch.float64)
        rank[worth.argsort()] = torch.arange(1, len(nodes) + 1, dtype=torch.float64)
        n = int(positive.sum())
        return ((rank[positive].sum() - n * (n + 1) / 2) / (n * (len(nodes) - n))).item()

    return of(sets["valid"]), of(sets["test"])


per_epoch, scores = -(-len(sets["train"]) // a.batch), {way: [] for way in a.ways}
for seed in range(a.seeds):
    for way in a.ways:
        torch.manual_seed(seed)
        net, began, best = Net(), time.time(), (0, 0)
        optimizer = torch.optim.Adam(net.parameters(), a.lr)
        for i, (_, target, logits) in enumerate({"loader": by_loader, "neighbor": by_neighbors, "memory": by_memory}[way](seed), 1):
            loss = F.cross_entropy(logits(net), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % per_epoch == 0:
                best = max(best, score(net))
        scores[way].append(100 * best[1])
        print(json.dumps({"graph": a.graph, "model": a.model, "way": way, "seed": seed, "valid": best[0], "test": best[1], "seconds": round(time.time() - began, 1)}), flush=True)
for way, s in scores.items():
    if a.seeds > 1:
        line = f"{a.graph} {a.model} {way}: {statistics.mean(s):.2f} ± {statistics.stdev(s):.2f}"
        if way != "loader" and "loader" in scores:
            mine = scores["loader"]
            error = ((statistics.variance(s) + statistics.variance(mine)) / a.seeds) ** 0.5
            line += f", loader {statistics.mean(mine) - statistics.mean(s):+.2f} (± {2 * error:.2f})"
        print(line)
