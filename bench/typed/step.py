"""Times training steps of HeteroConv models of PyTorch Geometric on the batches of a typed pack, one JSON object a model.

    python bench/typed/step.py --program bin/diskgnn-gpu --pack pack --hidden 512 --device cuda rsage rgat

The batches come from a Loader, so blocks and rows equal those of diskgnn train; compare the seconds with its compute_seconds over
its batches. A step is forward, loss, backward and Adam, between two synchronisations of the device; the first batches
warm up. Input rows are float32 on the device before the step begins.
"""

import argparse
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))

import torch
import torch.nn.functional as F
from torch_geometric.nn import GATConv, HeteroConv, SAGEConv

from diskgnn import Loader

p = argparse.ArgumentParser()
p.add_argument("models", nargs="+", choices=["rsage", "rgat"])
p.add_argument("--program", required=True)
p.add_argument("--pack", required=True)
p.add_argument("--hidden", type=int, default=512)
p.add_argument("--heads", type=int, default=4)
p.add_argument("--device", default="cuda")
p.add_argument("--warm", type=int, default=5)
p.add_argument("--batches", type=int, default=25)
a = p.parse_args()
device = torch.device(a.device)


def wait():
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def conv(model, width, out, last):
    if model == "rsage":
        return SAGEConv(width, out)
    return GATConv(width, out if last else out // a.heads, a.heads, concat=not last, add_self_loops=False)


for model in a.models:
    loader = Loader(a.pack, program=a.program, copy=True)
    layers, optimizer, took, edges = None, None, [], 0
    for i, batch in enumerate(loader):
        if i == a.warm + a.batches:
            break
        x, blocks = batch.to_hetero()
        y = torch.as_tensor(batch.y).to(device)
        x = {k: v.float().to(device) for k, v in x.items()}
        for b in blocks:
            b.edge_index_dict = {k: v.to(device) for k, v in b.edge_index_dict.items()}
            b.dst_dict = {k: v.to(device) for k, v in b.dst_dict.items()}
        if layers is None:
            widths = [batch.x.shape[1]] + [a.hidden] * (len(blocks) - 1) + [loader.num_classes]
            layers = torch.nn.ModuleList()
            for l in range(len(blocks)):
                layers.append(HeteroConv({r: conv(model, widths[l], widths[l + 1], l == len(blocks) - 1) for r in blocks[0].edge_index_dict}))
            layers = layers.to(device)
            optimizer = torch.optim.Adam(layers.parameters(), 0.003)
        began = wait()
        h = x
        for l, (layer, block) in enumerate(zip(layers, blocks)):
            h = layer(block.pairs(h), block.edge_index_dict)
            if l < len(blocks) - 1:
                h = {k: F.dropout(F.elu(v), 0.5) for k, v in h.items()}
        (logits,) = [v for v in h.values() if len(v) == len(y)]
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i >= a.warm:
            took.append(wait() - began)
            edges += sum(b.edge_index.shape[1] for b in batch.blocks)
        last = loss.item()
    loader.close()
    took.sort()
    print(json.dumps({"model": model, "batches": len(took), "edges": edges, "step_seconds": statistics.median(took), "least": took[0], "most": took[-1], "loss": last}), flush=True)
