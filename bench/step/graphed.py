"""PyTorch Geometric's training step, captured once and replayed as a CUDA graph: its
kernels without what the host takes to launch them. Prints one JSON line, as
bench_step.py does.

    graphed.py PEERS_DIR BLOCKS --model sage|gcn|gat [--dropout 0.5] [--steps 20] [--tf32]
"""
import argparse
import json
import statistics
import sys
from pathlib import Path

import numpy as np
import torch


def load(folder, model):
    """The features, the labels, and every layer's edges, destinations and weights."""
    meta = json.loads((folder / "meta.json").read_text())

    def tensor(name):
        return torch.from_numpy(np.load(folder / f"{name}.npy")).cuda()

    layers = []
    for l in range(meta["layers"]):
        indptr, indices, dst = tensor(f"indptr_{l}"), tensor(f"indices_{l}"), tensor(f"dst_{l}")
        positions = torch.arange(len(dst), device="cuda")
        row = positions.repeat_interleave(indptr.diff())
        weight = None
        if model == "gcn":
            weight = (indptr.diff()[row] * torch.bincount(indices)[indices]).float().rsqrt()
        first = bool((dst == positions).all())
        layers.append((torch.stack([indices, row]), slice(0, len(dst)) if first else dst, weight))
    return meta, tensor("x"), tensor("y"), layers


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("peers")
    p.add_argument("blocks", type=Path)
    p.add_argument("--model", choices=("sage", "gcn", "gat"), default="sage")
    p.add_argument("--dropout", type=float, default=0.0)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--tf32", action="store_true")
    a = p.parse_args()
    sys.path.insert(0, a.peers)
    from nets_pyg import Net

    if a.tf32:
        torch.set_float32_matmul_precision("high")
    meta, x, y, layers = load(a.blocks, a.model)
    net = Net(a.model, meta["dim"], 256, meta["classes"], meta["layers"], 8, a.dropout, self_loops=False).cuda().train()
    adam = torch.optim.Adam(net.parameters(), lr=1e-3, capturable=True)

    def step():
        adam.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(net(x, layers), y)
        loss.backward()
        adam.step()

    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        for _ in range(4):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    ms = []
    for _ in range(3 + a.steps):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        ms.append(begin.elapsed_time(end))
    ms = ms[3:]
    print(json.dumps({"lib": "pyg, CUDA graph", "model": a.model, "dropout": a.dropout, "tf32": a.tf32, "median_ms": round(statistics.median(ms), 3),
                      "min_ms": round(min(ms), 3), "max_ms": round(max(ms), 3), "steps": a.steps}))


if __name__ == "__main__":
    main()
