"""Scores of typed models of PyTorch Geometric in memory beside diskgnn's: one JSON object a run, then one a model and side.

    .pyg/bin/python bench/typed/accuracy.py --program bin/diskgnn graph

Both sides have the same graph (theirs is what diskgnn export --format pyg writes), width, heads, fanout of each relation, batch
size, Adam, dropout after hidden layers, and epochs, with fresh samples in every one. A score is the test score of the
best validation epoch, on samples with the fanout of training. Types without features have zeros on both sides.

NeighborLoader needs pyg-lib or torch-sparse. This script needs neither: its sampler in NumPy draws as NeighborLoader does. Each
relation into a node draws its fanout without replacement, and only nodes that the last hop found expand. diskgnn draws
anew at each hop for all nodes, and so does the sampler for the side anew. So diskgnn beside anew compares the models,
and anew beside pyg the samplers. The convolutions are PyTorch Geometric's, RGCNConv without segment_matmul.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
import torch_geometric
from torch_geometric.nn import GATConv, HeteroConv, RGCNConv, SAGEConv

p = argparse.ArgumentParser()
p.add_argument("graph")
p.add_argument("--program", default="diskgnn")
p.add_argument("--models", nargs="+", choices=("rsage", "rgcn", "rgat"), default=["rsage", "rgcn", "rgat"])
p.add_argument("--sides", nargs="+", choices=("diskgnn", "pyg", "anew"), default=["diskgnn", "pyg", "anew"])
p.add_argument("--seeds", type=int, default=3)
p.add_argument("--fanout", default="5,5", help="the seeds' layer last")
p.add_argument("--epochs", type=int, default=10)
p.add_argument("--batch", type=int, default=512)
p.add_argument("--hidden", type=int, default=64)
p.add_argument("--heads", type=int, default=4)
p.add_argument("--lr", type=float, default=0.003)
p.add_argument("--dropout", type=float, default=0.5)
p.add_argument("--threads", type=int, default=2)
a = p.parse_args()
torch.set_num_threads(a.threads)
torch_geometric.backend.use_segment_matmul = False
fanout = [int(n) for n in a.fanout.split(",")]


def run(*args):
    done = subprocess.run([a.program, *args, "--json", "--quiet"], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"diskgnn {args[0]} ended with {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


class Graph:
    """The exported arrays, the in-neighbours of each relation by offsets, and the sampler."""

    def __init__(self, data):
        self.anew = False  # whether all nodes draw at each hop
        self.types, self.relations = data.node_types, data.edge_types
        self.nodes = {t: data[t].num_nodes for t in self.types}
        self.x = {t: data[t].x.float() for t in self.types if "x" in data[t]}
        self.dim = next(iter(self.x.values())).shape[1]
        (self.target,) = [t for t in self.types if "y" in data[t]]
        self.y = data[self.target].y.long()
        self.sets = {k: np.flatnonzero(data[self.target][k + "_mask"].numpy()) for k in ("train", "val", "test")}
        self.place = {t: np.full(n, -1, "i8") for t, n in self.nodes.items()}
        self.into = {}
        for r in self.relations:
            source, destination = data[r].edge_index.numpy()
            if (np.diff(destination) < 0).any():
                order = np.argsort(destination, kind="stable")
                source, destination = source[order], destination[order]
            degrees = np.bincount(destination, minlength=self.nodes[r[2]])
            self.into[r] = np.concatenate([[0], np.cumsum(degrees)]), source

    def draw(self, rng, relation, frontier, n):
        """Edges of up to n neighbours of each node in frontier: sources, and positions in frontier."""
        offsets, sources = self.into[relation]
        begin, degree = offsets[frontier], offsets[frontier + 1] - offsets[frontier]
        few, many = np.flatnonzero(degree <= n), np.flatnonzero(degree > n)
        of_few = np.repeat(few, degree[few])
        within = np.arange(len(of_few)) - np.repeat(np.cumsum(degree[few]) - degree[few], degree[few])
        chosen = np.empty((len(many), n), "i8")
        for i in range(n):  # Floyd's algorithm, for all nodes at once
            last = degree[many] - n + i
            drawn = rng.integers(0, last + 1)
            again = (chosen[:, :i] == drawn[:, None]).any(1)
            chosen[:, i] = np.where(again, last, drawn)
        at = np.concatenate([begin[of_few] + within, (begin[many, None] + chosen).ravel()])
        return sources[at], np.concatenate([of_few, np.repeat(many, n)])

    def sample(self, rng, seeds):
        """Nodes by type in the order in which they were found, their number before and after each hop, and the edges of each hop."""
        found = {t: [] for t in self.types}
        found[self.target].append(seeds)
        counts = [{t: 0 for t in self.types} | {self.target: len(seeds)}]
        self.place[self.target][seeds] = np.arange(len(seeds))
        frontier, first = {self.target: seeds}, {t: 0 for t in self.types}
        hops = []
        for n in reversed(fanout):
            new, count, edges = {t: [] for t in self.types}, dict(counts[-1]), {}
            for r in self.relations:
                if r[2] not in frontier:
                    continue
                source, position = self.draw(rng, r, frontier[r[2]], n)
                place = self.place[r[0]]
                fresh = np.unique(source[place[source] < 0])
                place[fresh] = count[r[0]] + np.arange(len(fresh))
                count[r[0]] += len(fresh)
                new[r[0]].append(fresh)
                edges[r] = np.stack([place[source], first[r[2]] + position])
            first, frontier = counts[-1], {t: np.concatenate(v) for t, v in new.items() if v}
            for t, v in frontier.items():
                found[t].append(v)
            if self.anew:
                first, frontier = {t: 0 for t in self.types}, {t: np.concatenate(v) for t, v in found.items() if v}
            counts.append(count)
            hops.append(edges)
        nodes = {t: np.concatenate(v) if v else np.empty(0, "i8") for t, v in found.items()}
        for t, v in nodes.items():
            self.place[t][v] = -1
        return nodes, counts, hops

    def rows(self, nodes):
        return {t: self.x[t][v] if t in self.x else torch.zeros(len(v), self.dim) for t, v in nodes.items()}


class Net(torch.nn.Module):
    def __init__(self, model, graph):
        super().__init__()
        self.model, self.graph = model, graph
        widths = [graph.dim] + [a.hidden] * (len(fanout) - 1) + [int(graph.y.max()) + 1]
        self.convs = torch.nn.ModuleList(self.conv(i, o, l == len(fanout) - 1) for l, (i, o) in enumerate(zip(widths, widths[1:])))

    def conv(self, i, o, last):
        if self.model == "rgcn":
            return RGCNConv(i, o, len(self.graph.relations))
        if self.model == "rsage":
            return HeteroConv({r: SAGEConv(i, o) for r in self.graph.relations})
        heads = a.heads
        return HeteroConv({r: GATConv(i, o if last else o // heads, heads, concat=not last, add_self_loops=False) for r in self.graph.relations})

    def layer(self, conv, x, edges, src, dst):
        """src and dst have the number of nodes of each type among the sources and the destinations, which are the first."""
        if self.model != "rgcn":
            pairs = {r: (x[r[0]][: src[r[0]]], x[r[2]][: dst[r[2]]]) for r in edges if r[0] in x and r[2] in x}
            return conv(pairs, {r: edges[r] for r in pairs})
        types = self.graph.types
        src_base, dst_base = ({t: sum(n[u] for u in types[:i]) for i, t in enumerate(types)} for n in (src, dst))
        joined = torch.cat([e + torch.tensor([[src_base[r[0]]], [dst_base[r[2]]]]) for r, e in edges.items()], 1)
        kinds = torch.cat([torch.full((e.shape[1],), self.graph.relations.index(r)) for r, e in edges.items()])
        h = conv((torch.cat([x[t][: src[t]] for t in types]), torch.cat([x[t][: dst[t]] for t in types])), joined, kinds)
        return dict(zip(types, h.split([dst[t] for t in types])))

    def forward(self, x, counts, hops):
        for l, conv in enumerate(self.convs):
            deep = len(hops) - l  # later layers need the first hops alone
            used = hops[deep - 1 : deep] if self.graph.anew else hops[:deep]
            relations = [r for r in self.graph.relations if any(r in h for h in used)]
            edges = {r: torch.from_numpy(np.concatenate([h[r] for h in used if r in h], 1)) for r in relations}
            x = self.layer(conv, x, edges, counts[deep], counts[deep - 1])
            if l < len(self.convs) - 1:
                act = F.elu if self.model == "rgat" else F.relu
                x = {t: F.dropout(act(h), a.dropout, self.training) for t, h in x.items()}
        return x[self.graph.target]


def score(net, graph, rng, nodes):
    net.eval()
    right = 0
    with torch.no_grad():
        for i in range(0, len(nodes), a.batch):
            seeds = nodes[i : i + a.batch]
            found, counts, hops = graph.sample(rng, seeds)
            right += int((net(graph.rows(found), counts, hops).argmax(1) == graph.y[seeds]).sum())
    return right / len(nodes)


def by_pyg(model, seed, graph):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    net = Net(model, graph)
    optimizer = torch.optim.Adam(net.parameters(), a.lr)
    best = (-1.0, 0.0, -1)
    for epoch in range(a.epochs):
        net.train()
        order = rng.permutation(graph.sets["train"])
        for i in range(0, len(order), a.batch):
            seeds = order[i : i + a.batch]
            found, counts, hops = graph.sample(rng, seeds)
            loss = F.cross_entropy(net(graph.rows(found), counts, hops), graph.y[seeds])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        valid = score(net, graph, rng, graph.sets["val"])
        if valid > best[0]:
            best = (valid, score(net, graph, rng, graph.sets["test"]), epoch)
    return {"valid": best[0], "test": best[1], "best_epoch": best[2]}


def by_diskgnn(model, seed, samples, directory):
    got = run("train", "--dataset", a.graph, "--samples", samples, "--out", os.path.join(directory, f"{model}-{seed}"), "--engine", "cpu",
              "--model", model, "--hidden", str(a.hidden), "--heads", str(a.heads), "--epochs", str(a.epochs), "--lr", str(a.lr),
              "--dropout", str(a.dropout), "--seed", str(seed), "--threads", str(a.threads))
    return {"valid": got["valid_accuracy"], "test": got["test_accuracy"], "best_epoch": got["best_epoch"]}


with tempfile.TemporaryDirectory() as directory:
    if a.sides != ["diskgnn"]:
        arrays = os.path.join(directory, "arrays")
        run("export", "--dataset", a.graph, "--format", "pyg", "--out", arrays)
        sys.path.insert(0, arrays)
        from load import load

        graph = Graph(load(arrays))
    scores = {}
    for seed in range(a.seeds):
        if "diskgnn" in a.sides:
            samples = os.path.join(directory, f"samples-{seed}")
            run("presample", "--dataset", a.graph, "--out", samples, "--fanout", a.fanout, "--batch-size", str(a.batch),
                "--epochs", str(a.epochs), "--seed", str(seed))
        for model in a.models:
            for side in a.sides:
                began = time.perf_counter()
                if side == "diskgnn":
                    got = by_diskgnn(model, seed, samples, directory)
                else:
                    graph.anew = side == "anew"
                    got = by_pyg(model, seed, graph)
                scores.setdefault((model, side), []).append(got["test"])
                print(json.dumps({"graph": a.graph, "model": model, "side": side, "seed": seed} | got | {"seconds": round(time.perf_counter() - began, 1)}), flush=True)
    for (model, side), tests in scores.items():
        print(json.dumps({"graph": a.graph, "model": model, "side": side, "mean": statistics.mean(tests),
                          "deviation": statistics.stdev(tests) if len(tests) > 1 else 0.0}))
