"""One training step (forward, loss, backward, Adam) of PyTorch Geometric or DGL, on the blocks and from the
weights that `bench step` wrote. It first computes the losses of the first steps without dropout, and times
nothing unless they are ours: then both programs compute the same function. Prints one JSON line.

    peer.py BLOCKS WEIGHTS --lib pyg|dgl --model sage|gcn|gat [--dropout 0.5] [--device cuda] [--graphed]

What both libraries are given: float32, everything in memory (on the device), the blocks' edges and, for GCN
and GAT, one from every destination to itself, as their layers take it. GCN's edges weigh what ours do:
1/√((deg s + 1)(deg d + 1)) by the degrees in the whole graph, a sampled one times the destination's degree
over the number of its sampled edges. All of this is made before the clock starts: prepare_ms is what it
takes, copies to a device left out.

    pyg            SAGEConv, GCNConv, GATConv. GCNConv knows no bipartite graphs: it computes a row for every
                   source, of which the destinations' are taken.
    pyg-bipartite  gcn alone: the same from PyG's parts that know them, a weighted sum and a linear map. It
                   computes the destinations' rows alone, and aggregates first where that is less work.
    dgl            SAGEConv, GraphConv, GATConv. It gets a fresh block every step, so that the formats which
                   it derives for the backward pass are made inside the clock, as in training.

On a GPU the clock is a pair of events around each step; with_copies_ms holds the copies of features and edges
from pinned memory too, which training needs. --graphed captures the step as a CUDA graph.
"""
import argparse
import json
import os
import statistics
import struct
import sys
import time
import warnings
from pathlib import Path

os.environ.setdefault("DGLBACKEND", "pytorch")
import numpy as np
import torch
from torch.nn.functional import cross_entropy, dropout, elu, relu

warnings.filterwarnings("ignore")

# How far a peer's loss may be from ours, as a share of it: at equal weights what sums in
# another order differ by, and after steps of Adam, which magnifies the smallest gradients, more.
TOLERANCE, LATER = 2e-6, 2e-5


def load(folder):
    """The folder's arrays, and the layers as (sources, indptr, indices, destinations, degrees of the sources)."""
    meta = json.loads((folder / "meta.json").read_text())
    tensor = lambda name: torch.from_numpy(np.load(folder / f"{name}.npy"))
    layers, src, degree = [], meta["num_input"], tensor("degree")
    for l in range(meta["layers"]):
        indptr, indices, dst = (tensor(f"{name}_{l}") for name in ("indptr", "indices", "dst"))
        if not bool((dst == torch.arange(len(dst))).all()):
            sys.exit("the destinations are not the first sources")
        layers.append((src, indptr, indices, len(dst), degree))
        src, degree = len(dst), degree[:len(dst)]
    return meta, tensor("x"), tensor("y"), layers


def tensors(path):
    """The tensors of a safetensors file, by name."""
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    at = lambda e: np.frombuffer(raw, "<f4", (e["data_offsets"][1] - e["data_offsets"][0]) // 4, 8 + n + e["data_offsets"][0])
    return {name: torch.from_numpy(at(e).reshape(e["shape"]).copy()) for name, e in head.items()}


def edges(layer, model):
    """A layer's edges as a library's convolution takes them: sources, destinations, weights."""
    _, indptr, indices, dst, degree = layer
    sampled, own = indptr.diff(), torch.arange(dst)
    row = own.repeat_interleave(sampled)
    if model == "sage":
        return indices, row, None
    if model == "gat":  # of loops that were sampled and the one that is added, one counts
        keep = indices != row
        return torch.cat([indices[keep], own]), torch.cat([row[keep], own]), None
    scale = (degree + 1).float().rsqrt()
    toward = scale[:dst] * degree[:dst] / sampled.clamp(min=1)
    weight = torch.cat([scale[indices] * toward[row], scale[:dst] ** 2])
    return torch.cat([indices, own]), torch.cat([row, own]), weight


class PyG(torch.nn.Module):
    def __init__(self, kind, dims, heads, p, bipartite=False):
        from torch_geometric.nn import GATConv, GCNConv, SAGEConv, SimpleConv
        super().__init__()
        self.kind, self.p, self.bipartite = kind, p, bipartite
        self.convs, last = torch.nn.ModuleList(), len(dims) - 2
        for l, (i, o) in enumerate(zip(dims, dims[1:])):
            if kind == "sage":
                self.convs.append(SAGEConv(i, o))
            elif kind == "gcn" and bipartite:
                self.convs.append(torch.nn.ModuleDict({"lin": torch.nn.Linear(i, o, bias=False)}))
                self.convs[l].register_parameter("bias", torch.nn.Parameter(torch.zeros(o)))
            elif kind == "gcn":
                self.convs.append(GCNConv(i, o, normalize=False, add_self_loops=False))
            else:
                self.convs.append(GATConv(i, o if l == last else o // heads, heads, concat=l < last, add_self_loops=False))
        self.sum = SimpleConv(aggr="sum")

    def take(self, weights):
        self.load_state_dict(weights)

    def prepare(self, layers, device="cpu"):
        out = []
        for layer in layers:
            src, dst, weight = edges(layer, self.kind)
            out.append((torch.stack([src, dst]), layer[3], weight))
        return out

    def layer(self, conv, x, edge_index, dst, weight):
        if self.kind != "gcn":
            return conv((x, x[:dst]), edge_index)
        if not self.bipartite:
            return conv(x, edge_index, weight)[:dst]
        gather = lambda h: self.sum((h, h[:dst]), edge_index, weight)
        lin = conv["lin"]
        return (gather(lin(x)) if lin.out_features < lin.in_features else lin(gather(x))) + conv.bias

    def forward(self, x, blocks):
        for l, (edge_index, dst, weight) in enumerate(blocks):
            x = self.layer(self.convs[l], x, edge_index, dst, weight)
            if l < len(self.convs) - 1:
                x = dropout((elu if self.kind == "gat" else relu)(x), self.p, self.training)
        return x


class DGL(torch.nn.Module):
    def __init__(self, kind, dims, heads, p):
        from dgl.nn import GATConv, GraphConv, SAGEConv
        super().__init__()
        self.kind, self.p = kind, p
        self.convs, last = torch.nn.ModuleList(), len(dims) - 2
        for l, (i, o) in enumerate(zip(dims, dims[1:])):
            if kind == "sage":
                self.convs.append(SAGEConv(i, o, "mean"))
            elif kind == "gcn":
                self.convs.append(GraphConv(i, o, norm="none", allow_zero_in_degree=True))
            else:
                self.convs.append(GATConv(i, o if l == last else o // heads, heads, allow_zero_in_degree=True))

    def take(self, weights):
        """Loads weights that are named and oriented as PyG's."""
        names = {"lin_l.weight": "fc_neigh.weight", "lin_l.bias": "fc_self.bias", "lin_r.weight": "fc_self.weight",
                 "lin.weight": "weight" if self.kind == "gcn" else "fc.weight", "att_src": "attn_l", "att_dst": "attn_r", "bias": "bias"}
        own, state = self.state_dict(), {}
        for name, w in weights.items():
            _, l, key = name.split(".", 2)
            to = f"convs.{l}.{names[key]}"
            if key == "lin.weight" and self.kind == "gcn":
                w = w.t()
            if key == "bias" and w.numel() < own[to].numel():  # of every head, of which the mean is taken
                w = w.repeat(own[to].numel() // w.numel())
            state[to] = w
        self.load_state_dict(state)

    def prepare(self, layers, device="cpu"):
        out = []
        for layer in layers:
            src, dst, weight = edges(layer, self.kind)
            order = torch.argsort(dst, stable=True)
            indptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(dst, minlength=layer[3]).cumsum(0)])
            out.append((layer[0], layer[3], indptr, src[order], None if weight is None else weight[order]))
        return out

    def forward(self, x, blocks):
        import dgl
        for l, (src, dst, indptr, indices, weight) in enumerate(blocks):
            block = dgl.create_block(("csc", (indptr, indices, torch.arange(len(indices), device=indices.device))), num_src_nodes=src, num_dst_nodes=dst)
            x = self.convs[l](block, x, edge_weight=weight) if self.kind == "gcn" else self.convs[l](block, x)
            last = l == len(self.convs) - 1
            if self.kind == "gat":  # heads: side by side, in the last layer their mean
                x = x.mean(1) if last else x.flatten(1)
            if not last:
                x = dropout((elu if self.kind == "gat" else relu)(x), self.p, self.training)
        return x


def to(blocks, device):
    return [tuple(v.to(device, non_blocking=True) if torch.is_tensor(v) else v for v in b) for b in blocks]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("blocks", type=Path)
    p.add_argument("weights", type=Path)
    p.add_argument("--lib", choices=("pyg", "pyg-bipartite", "dgl"), default="pyg")
    p.add_argument("--model", choices=("sage", "gcn", "gat"), default="sage")
    p.add_argument("--dropout", type=float, default=0.0)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--device", default="cpu")
    p.add_argument("--tf32", action="store_true", help="let the GPU round matrix products' factors to TF32 while it is timed")
    p.add_argument("--graphed", action="store_true", help="capture the step as a CUDA graph")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    ours = json.loads((a.weights / f"{a.model}.json").read_text())
    weights = tensors(a.weights / f"{a.model}.safetensors")
    meta, x, y, layers = load(a.blocks)
    dims = [meta["dim"]] + [ours["hidden"]] * (meta["layers"] - 1) + [meta["classes"]]
    if a.lib == "dgl":
        import dgl as lib
        lib.utils.set_num_threads(a.threads)
        net = DGL(a.model, dims, ours["heads"], 0)
    else:
        import torch_geometric as lib
        if a.lib == "pyg-bipartite" and a.model != "gcn":
            p.error("pyg-bipartite is for gcn")
        net = PyG(a.model, dims, ours["heads"], 0, a.lib == "pyg-bipartite")
    preparing = []
    for _ in range(a.warmup + a.steps):
        t = time.perf_counter()
        host = net.prepare(layers)
        preparing.append((time.perf_counter() - t) * 1e3)
    cuda = a.device.startswith("cuda")
    if cuda:
        x, host = x.pin_memory(), [tuple(v.pin_memory() if torch.is_tensor(v) else v for v in b) for b in host]
    given, features, y = to(host, a.device), x.to(a.device), y.to(a.device)
    net.to(a.device).train()

    def reset(rate):
        """The weights that were saved, and an Adam that has done nothing."""
        net.take(weights)
        net.p = rate
        return torch.optim.Adam(net.parameters(), lr=ours["lr"], capturable=a.graphed)

    def step(adam, x=None, blocks=None):
        adam.zero_grad(set_to_none=True)
        loss = cross_entropy(net(features if x is None else x, given if blocks is None else blocks), y)
        loss.backward()
        adam.step()
        return loss

    adam = reset(0)
    theirs = [step(adam).item() for _ in ours["losses"]]
    for i, (mine, other) in enumerate(zip(ours["losses"], theirs)):
        if not abs(mine - other) <= (LATER if i else TOLERANCE) * abs(mine):
            sys.exit(f"{a.model}, {a.lib}: the loss of step {i} is {other:.7f}, ours {mine:.7f}, from equal weights: not the same function")

    if a.tf32:
        torch.set_float32_matmul_precision("high")
    adam, ms, whole = reset(a.dropout), [], []
    if a.graphed:
        aside = torch.cuda.Stream()
        with torch.cuda.stream(aside):
            for _ in range(4):
                step(adam)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step(adam)
    for _ in range(a.warmup + a.steps):
        if cuda:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay() if a.graphed else step(adam)
            end.record()
            end.synchronize()
            ms.append(begin.elapsed_time(end))
        else:
            t = time.perf_counter()
            step(adam)
            ms.append((time.perf_counter() - t) * 1e3)
    for _ in range(a.warmup + a.steps if cuda and not a.graphed else 0):
        t = time.perf_counter()
        step(adam, x.to(a.device, non_blocking=True), to(host, a.device))
        torch.cuda.synchronize()
        whole.append((time.perf_counter() - t) * 1e3)
    ms, median = ms[a.warmup:], lambda v: round(statistics.median(v[a.warmup:]), 3) if v else None
    print(json.dumps({"lib": f"{a.lib} {lib.__version__}", "torch": torch.__version__, "model": a.model, "dropout": a.dropout, "graphed": a.graphed,
                      "device": torch.cuda.get_device_name() if cuda else "cpu", "threads": a.threads, "tf32": a.tf32,
                      "median_ms": round(statistics.median(ms), 3), "min_ms": round(min(ms), 3), "max_ms": round(max(ms), 3),
                      "prepare_ms": median(preparing), "with_copies_ms": median(whole), "steps": a.steps,
                      "losses": theirs, "our_losses": ours["losses"]}))


if __name__ == "__main__":
    main()
